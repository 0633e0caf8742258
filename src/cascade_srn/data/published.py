"""Corpora that their authors have published: where they are, what is in them, and that it is what it should be."""

from __future__ import annotations

import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from cascade_srn.data.atomic import replace_durably
from cascade_srn.data.checksums import checksum
from cascade_srn.data.download import Progress, fetch
from cascade_srn.data.folders import leaving_no_folders
from cascade_srn.data.formats import read_documents
from cascade_srn.errors import ConfigError, DataError, did_you_mean

# No file of a corpus is as large as this; what is larger was made to fill a disk.
LARGEST = 1 << 28


@dataclass(frozen=True)
class PublishedFile:
    """A file of a corpus: its path in the archive, its SHA-256, and what a reader finds in it."""

    member: str
    sha256: str
    documents: int
    sentences: int
    entities: int
    relations: int


@dataclass(frozen=True)
class PublishedCorpus:
    """An archive, and the files that are wanted from it, by the names they get."""

    name: str
    url: str
    format: str
    files: Mapping[str, PublishedFile]


@dataclass(frozen=True)
class Download:
    """What :func:`download` left: the files, and whether they were there before."""

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
    """A corpus by its name."""
    if name not in CORPORA:
        raise ConfigError(f"there is no corpus {name!r} to download. {did_you_mean(name, CORPORA)}")
    return CORPORA[name]


def download(
    corpus: PublishedCorpus,
    folder: Path,
    *,
    url: str | None = None,
    archive: Path | None = None,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
) -> Download:
    """The files of a corpus in a folder, checked; nothing is fetched where they are there already.

    ``url`` is another address of the same archive, ``archive`` the archive itself, downloaded by other means. Files of
    the same names that hold something else are replaced only with ``overwrite``.
    """
    targets = {name: folder / name for name in corpus.files}
    present = {name: path for name, path in targets.items() if path.exists()}
    if len(present) == len(targets) and all(_known(path, corpus.files[name]) for name, path in targets.items()):
        return Download(tuple(targets.values()), fetched=False)
    other = [path for name, path in present.items() if not _known(path, corpus.files[name])]
    if other and not overwrite:
        raise DataError(
            f"{other[0]} is there already and is not that of the corpus {corpus.name!r}; give another folder, or "
            "replace it with --overwrite"
        )
    if archive is not None and not archive.is_file():
        raise DataError(f"there is no archive {str(archive)!r}; give the file that was downloaded")
    # What has arrived before a fetch failed stays, for another attempt to go on with.
    with leaving_no_folders(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if archive is not None:
            _install(corpus, archive, folder)
        else:
            _fetch_and_install(corpus, corpus.url if url is None else url, folder, progress)
    return Download(tuple(targets.values()), fetched=True)


def _fetch_and_install(corpus: PublishedCorpus, address: str, folder: Path, progress: Progress) -> None:
    arrived = folder / f".{PurePosixPath(urlsplit(address).path).name or corpus.name}"
    fetch(address, arrived, progress=progress)
    try:
        _install(corpus, arrived, folder)
    finally:
        # What does not unpack is of no use to another attempt either.
        arrived.unlink(missing_ok=True)


def _install(corpus: PublishedCorpus, archive: Path, folder: Path) -> None:
    """Unpack the wanted files beside their places, check them all, and only then put them there."""
    with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=folder) as beside:
        unpacked = {name: Path(beside) / name for name in corpus.files}
        unpack(archive, {file.member: unpacked[name] for name, file in corpus.files.items()})
        for name, path in unpacked.items():
            check(path, corpus.files[name], corpus.format)
        for name, path in unpacked.items():
            replace_durably(path, folder / name)


def unpack(archive: Path, wanted: Mapping[str, Path], *, largest: int = LARGEST) -> None:
    """Write the wanted members of a tar archive to the given paths.

    Nothing else is written: names in the archive, which may lead anywhere, are only compared, and what is no regular
    file is not read.
    """
    missing = dict(wanted)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                target = missing.get(str(PurePosixPath(member.name)))
                if target is None or not member.isreg():
                    continue
                if member.size > largest:
                    raise DataError(
                        f"{member.name} in {archive} has {member.size} bytes, more than any file of a corpus; "
                        "the archive is not the published one"
                    )
                content = tar.extractfile(member)
                assert content is not None  # of a regular file there always is one
                target.write_bytes(content.read())
                del missing[str(PurePosixPath(member.name))]
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
        raise DataError(
            f"{archive} cannot be unpacked ({reason}); it is damaged or no tar archive: download it again"
        ) from error
    if missing:
        raise DataError(
            f"{archive} holds no file {next(iter(missing))}; it is not the published archive: check the address"
        )


def check(path: Path, published: PublishedFile, format: str) -> None:
    """Refuse a file that does not hold what was published.

    It is known by its checksum. Where only that differs, and the reader finds the published numbers of everything,
    the file is taken with a warning: it may have been packed anew.
    """
    if _known(path, published):
        return
    stream = read_documents(path, format)
    for _ in stream:
        pass
    report = stream.report
    for what in ("documents", "sentences", "entities", "relations"):
        found, expected = getattr(report, what), getattr(published, what)
        if found != expected:
            raise DataError(
                f"{published.member} holds {found} {what}, and {expected} were published; the archive is damaged or of "
                "another version: download it again, or give another address"
            )
    warnings.warn(
        f"{published.member} is not byte for byte the file that is known here (SHA-256 {checksum(path)}), but holds as "
        "many documents, sentences, entities and relations",
        stacklevel=2,
    )


def _known(path: Path, published: PublishedFile) -> bool:
    return path.is_file() and checksum(path) == published.sha256
