"""Download published corpora and verify their checksums."""

import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from cascade_srn.errors import CascadeError, ConfigError, DataError, did_you_mean
from cascade_srn.formats.registry import read_documents
from cascade_srn.storage.atomic import replace_durably
from cascade_srn.storage.download import DownloadProgress, fetch
from cascade_srn.storage.files import checksum, decompress_by_content, read_errors
from cascade_srn.storage.lock import FolderLock

# Size limit of a corpus file, against archives that were made to fill a disk.
LARGEST = 1 << 28
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PublishedFile:
    """File of a corpus: its path in the archive, its SHA-256 if known, and its counts."""

    member: str
    sha256: str | None
    documents: int
    sentences: int
    entities: int
    relations: int


@dataclass(frozen=True)
class PublishedCorpus:
    """Archive of a corpus, and the files to extract by their new names."""

    name: str
    url: str
    format: str
    files: Mapping[str, PublishedFile]


@dataclass(frozen=True)
class Download:
    """Result of :func:`download`: the files, and whether they were downloaded or unpacked just now."""

    files: tuple[Path, ...]
    fetched: bool


SCIERC = PublishedCorpus(
    name="scierc",
    url="http://nlp.cs.washington.edu/sciIE/data/sciERC_processed.tar.gz",
    format="dygie",
    files={
        "train.json": PublishedFile(
            "processed_data/json/train.json",
            "a1e656c4de5d5552c1fba0e5416ad10541e711e0723cec71ffa11179aa33060d",
            documents=350,
            sentences=1861,
            entities=5598,
            relations=3219,
        ),
        "dev.json": PublishedFile(
            "processed_data/json/dev.json",
            "56e16fa779f8315ad49826223c206803022f9a2148f8dc14ba8436748cca0a8a",
            documents=50,
            sentences=275,
            entities=811,
            relations=455,
        ),
        "test.json": PublishedFile(
            "processed_data/json/test.json",
            "82aaf0bf709c4da8bcaf28463e18fc6671eb7fe739f7312226dc18f3efff9989",
            documents=100,
            sentences=551,
            entities=1685,
            relations=974,
        ),
    },
)
CORPORA: Mapping[str, PublishedCorpus] = {SCIERC.name: SCIERC}


def find_corpus(name: str) -> PublishedCorpus:
    """Return a corpus by its name."""
    if name not in CORPORA:
        raise ConfigError(f"the corpus {name!r} is not known", did_you_mean(name, CORPORA))
    return CORPORA[name]


def download(
    corpus: PublishedCorpus,
    folder: Path,
    *,
    url: str | None = None,
    archive: Path | None = None,
    sha256: str | None = None,
    overwrite: bool = False,
    progress: DownloadProgress = lambda done, total: None,
) -> Download:
    """Download a corpus into a folder and verify its files. Files that are already there are not downloaded again.

    ``url`` is another address of the archive, ``archive`` a copy of it. ``sha256`` is required if the checksum of a
    file is not known. Nothing is installed unless everything can be verified.
    """
    expected = _check_sha256(sha256, corpus)
    targets = {name: folder / name for name in corpus.files}
    present = {name: path for name, path in targets.items() if os.path.lexists(path)}
    if len(present) == len(targets) and all(_is_published(path, corpus.files[name]) for name, path in targets.items()):
        return Download(tuple(targets.values()), fetched=False)
    other = [path for name, path in present.items() if not _is_published(path, corpus.files[name])]
    if other and not overwrite:
        raise DataError(
            f"{other[0]} exists and is not a file of the corpus {corpus.name!r}",
            "Choose another folder, or overwrite the file",
            option="overwrite",
        )
    if archive is not None and not archive.is_file():
        raise DataError(f"the archive {str(archive)!r} does not exist", "Check the path", option="archive")
    # The lock also removes a new folder that stays empty.
    with FolderLock(folder):
        if archive is not None:
            _install(corpus, archive, folder, expected)
        else:
            _fetch_and_install(corpus, corpus.url if url is None else url, folder, expected, progress)
    return Download(tuple(targets.values()), fetched=True)


def _check_sha256(given: str | None, corpus: PublishedCorpus) -> str | None:
    if given is None:
        unknown = [file.member for file in corpus.files.values() if file.sha256 is None]
        if unknown:
            raise ConfigError(
                f"the checksum of {unknown[0]} is not known",
                "Pass the SHA-256 of the archive from a source that you trust",
                option="sha256",
            )
        return None
    plain = given.strip().lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(plain):
        raise ConfigError(f"the SHA-256 is {given!r}", "Pass 64 hexadecimal digits", option="sha256")
    return plain


def _fetch_and_install(
    corpus: PublishedCorpus, address: str, folder: Path, sha256: str | None, progress: DownloadProgress
) -> None:
    # Named by the address, so that a download from one address is not resumed from another.
    arrived = folder / f".{corpus.name}-{hashlib.sha256(address.encode('utf-8', 'replace')).hexdigest()[:12]}"
    fetch(address, arrived, progress=progress)
    try:
        _install(corpus, arrived, folder, sha256)
    finally:
        # A refused archive is of no use to the next attempt.
        arrived.unlink(missing_ok=True)


def _install(corpus: PublishedCorpus, archive: Path, folder: Path, sha256: str | None) -> None:
    """Unpack and verify all files in a temporary folder, then move them to their paths."""
    if sha256 is not None and (found := checksum(archive)) != sha256:
        raise DataError(
            f"{archive} has the SHA-256 {found}, but {sha256} was expected",
            "Download it again, or check the checksum",
            option="sha256",
        )
    with tempfile.TemporaryDirectory(prefix=".cascade-srn-unpacked-", dir=folder) as beside:
        unpacked = {name: Path(beside) / name for name in corpus.files}
        unpack(archive, {file.member: unpacked[name] for name, file in corpus.files.items()})
        for name, path in unpacked.items():
            check(path, corpus.files[name], corpus.format)
        for name, path in unpacked.items():
            replace_durably(path, folder / name)


def unpack(archive: Path, members: Mapping[str, Path], *, largest: int = LARGEST) -> None:
    """Write members of a tar archive to the given paths.

    Nothing else is written: names in the archive are only compared, and only regular files are read.
    """
    missing = dict(members)
    try:
        with _open_tar(archive, largest) as tar:
            for member in tar:
                target = missing.get(str(PurePosixPath(member.name)))
                if target is None or not member.isreg():
                    continue
                if member.size > largest:
                    raise DataError(
                        f"{member.name} in {archive} has {member.size} bytes, more than the limit of {largest}",
                        "Use the published archive",
                    )
                content = tar.extractfile(member)
                assert content is not None  # never for a regular file
                target.write_bytes(content.read())
                del missing[str(PurePosixPath(member.name))]
    except CascadeError:
        raise
    except _unpacking_errors() as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
        raise DataError(f"{archive} cannot be unpacked ({reason})", "Download it again") from error
    if missing:
        raise DataError(f"{archive} has no file {next(iter(missing))}", "Use the published archive", option="url")


def _unpacking_errors() -> tuple[type[Exception], ...]:
    # Crafted archives raise more than TarError: invalid numbers in headers, or headers that nest endlessly.
    return (*read_errors(), tarfile.TarError, ValueError, OverflowError, RecursionError)


class _SmallReads:
    """Stream with a limit on each read, because headers of an archive can state any size."""

    def __init__(self, handle: IO[bytes], largest: int) -> None:
        self._handle = handle
        self._largest = largest
        self.seek = handle.seek
        self.tell = handle.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= max(self._largest, tarfile.RECORDSIZE):
            raise tarfile.ReadError(f"a header states {size} bytes")
        return self._handle.read(size)


@contextmanager
def _open_tar(archive: Path, largest: int) -> Iterator[tarfile.TarFile]:
    with (
        archive.open("rb") as on_disk,
        decompress_by_content(on_disk) as handle,
        tarfile.open(fileobj=_SmallReads(handle, largest), mode="r:") as tar,  # type: ignore[call-overload]
    ):
        yield tar


def check(path: Path, published: PublishedFile, format: str) -> None:
    """Raise a :class:`DataError` if a file is not the published one.

    The SHA-256 is compared. If it is not known, the caller has verified the archive, and the counts are compared.
    """
    if published.sha256 is not None:
        if (found := checksum(path)) != published.sha256:
            raise DataError(
                f"{published.member} has the SHA-256 {found}, but {published.sha256} was published",
                "Download the archive again, or use another address",
                option="url",
            )
        return
    stream = read_documents(path, format)
    for _ in stream:
        pass
    report = stream.report
    for what in ("documents", "sentences", "entities", "relations"):
        counted, expected = getattr(report, what), getattr(published, what)
        if counted != expected:
            raise DataError(
                f"{published.member} has {counted} {what}, but {expected} were published",
                "Use another address",
                option="url",
            )


def _is_published(path: Path, published: PublishedFile) -> bool:
    return published.sha256 is not None and path.is_file() and checksum(path) == published.sha256
