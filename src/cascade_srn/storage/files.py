"""Files and folders known again by their contents."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from cascade_srn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FILE_VARIABLE = "CASCADE_SRN_MAX_FILE_BYTES"
LINE_VARIABLE = "CASCADE_SRN_MAX_LINE_BYTES"
RATIO_VARIABLE = "CASCADE_SRN_MAX_COMPRESSION_RATIO"
_DEFAULTS = {FILE_VARIABLE: 2 << 30, LINE_VARIABLE: 256 << 20, RATIO_VARIABLE: 1000}

RATIO_FROM = 16 << 20
"""Bytes of uncompressed data from which the compression ratio is checked: short files compress by any ratio."""


def max_file_bytes() -> int:
    """Return the most bytes, after decompression, of a file that is held in memory as a whole."""
    return _limit(FILE_VARIABLE)


def max_line_bytes() -> int:
    """Return the most bytes of one line of a file that is read line by line."""
    return _limit(LINE_VARIABLE)


def max_compression_ratio() -> int:
    """Return how many times larger than its compressed form a file may be."""
    return _limit(RATIO_VARIABLE)


def _limit(variable: str) -> int:
    given = os.environ.get(variable, "").strip()
    if not given:
        return _DEFAULTS[variable]
    if not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given) > 0):
        raise ConfigError(f"{variable} is {given!r}; give a positive integer, such as {_DEFAULTS[variable]}")
    return int(given)


PACKED = (".gz", ".xz", ".bz2")
"""The endings of compressed files."""
_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2"}
_CHUNK = 1 << 17


def is_packed(path: Path) -> bool:
    """Tell whether a path has the ending of a compressed file."""
    return path.suffix.lower() in PACKED


def plain_name(path: Path) -> Path:
    """Return a path without the ending of its compression."""
    return path.with_suffix("") if is_packed(path) else path


@contextmanager
def unpacked(path: Path, on_disk: BinaryIO) -> Iterator[IO[bytes]]:
    """Yield the decompressed bytes of an open file, or the file itself if it is not compressed.

    Reading raises a :class:`DataError` if the data expands beyond the limit of the compression ratio.
    """
    if not is_packed(path):
        yield on_disk
        return
    with _stream(path.suffix.lower(), on_disk, "rb") as handle:
        yield io.BufferedReader(_RatioGuard(path, handle, on_disk, max_compression_ratio()), _CHUNK)


@contextmanager
def sniffed(on_disk: BinaryIO) -> Iterator[IO[bytes]]:
    """Yield the decompressed bytes of an open file whose compression is recognised by its first bytes."""
    start = on_disk.read(6)
    on_disk.seek(0)
    ending = next((ending for magic, ending in _MAGIC.items() if start.startswith(magic)), None)
    if ending is None:
        yield on_disk
        return
    with _stream(ending, on_disk, "rb") as handle:
        yield handle


@contextmanager
def packing(path: Path, on_disk: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a stream that compresses into an open file, or the file itself, as the ending of its path says."""
    if not is_packed(path):
        yield on_disk
        return
    with _stream(path.suffix.lower(), on_disk, "wb") as handle:
        yield cast(BinaryIO, handle)


class _RatioGuard(io.RawIOBase):
    """Decompressed data that ends in an error once it is too many times larger than what was read from the disk."""

    def __init__(self, path: Path, handle: Any, on_disk: BinaryIO, ratio: int) -> None:
        self._path = path
        self._handle = handle
        self._on_disk = on_disk
        self._ratio = ratio
        self._n_bytes = 0
        self._seekable = on_disk.seekable()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer) as view:
            # Not read(), which loses what precedes a damaged part.
            data = self._handle.read1(len(view))
            view[: len(data)] = data
        self._n_bytes += len(data)
        # A pipe does not tell how much was read from it; the limits of a line and of a whole file hold there.
        if self._seekable and self._n_bytes > max(RATIO_FROM, self._ratio * self._on_disk.tell()):
            raise DataError(
                f"{self._path}: the file expands to more than {self._ratio} times its compressed size; it may have "
                f"been made to exhaust memory. If it is genuine, decompress it, or raise {RATIO_VARIABLE}"
            )
        return len(data)


def read_whole(path: Path, handle: IO[bytes]) -> bytes:
    """Read an open file to its end, within the limit for what is held in memory."""
    most = max_file_bytes()
    chunks, n_bytes = [], 0
    try:
        while chunk := handle.read(_CHUNK):
            n_bytes += len(chunk)
            if n_bytes > most:
                raise DataError(
                    f"{path}: the file holds more than {most} bytes, too many to hold in memory; split it, write it as "
                    f"JSON lines, or raise {FILE_VARIABLE}"
                )
            chunks.append(chunk)
    except broken_errors() as error:
        raise broken(path, error) from error
    return b"".join(chunks)


def broken_errors() -> tuple[type[Exception], ...]:
    """Return the errors that reading raises if a file is truncated, damaged, or compressed in another way."""
    import lzma

    return EOFError, OSError, lzma.LZMAError, zlib.error


def broken(path: Path, error: Exception, *, after: str = "") -> DataError:
    """Return the error for a file that cannot be read, or not on ``after`` some line."""
    packed = ", and compressed as its ending says" if is_packed(path) else ""
    read = f"read on after {after}" if after else "read"
    return DataError(f"{path}: the file cannot be {read} ({error}); check that it is whole{packed}")


def _stream(ending: str, on_disk: BinaryIO, mode: Any) -> IO[bytes]:
    # Imported here, since a Python may have been built without some of them.
    if ending == ".gz":
        import gzip

        # Neither name nor time, so that the same documents give the same bytes.
        return cast(IO[bytes], gzip.GzipFile("", mode, fileobj=on_disk, mtime=0))
    if ending == ".xz":
        import lzma

        return cast(IO[bytes], lzma.LZMAFile(on_disk, mode))
    import bz2

    return cast(IO[bytes], bz2.BZ2File(on_disk, mode))


def files_below(folder: Path, wanted: Callable[[Path], bool]) -> Iterator[Path]:
    """The ``wanted`` ones of the files in a folder and those below it, hidden ones included, in any order.

    A folder that cannot be read is refused, since nobody would miss what is in it; but for hidden ones. Links to
    folders are followed as those to files are, but for hidden ones too; and no folder is read again below itself.
    """

    def refuse(error: OSError) -> None:
        where = Path(error.filename or folder)
        if not is_hidden(where, folder):
            raise _unreadable(where, error) from error

    for parent, below, names in os.walk(folder, onerror=refuse, followlinks=True):
        below[:] = [name for name in below if not _is_passed_over(Path(parent, name), folder)]
        for path in (Path(parent, name) for name in names):
            if wanted(path) and (is_hidden(path, folder) or _is_file(path)):
                yield path


def is_hidden(path: Path, folder: Path) -> bool:
    """Whether a path below a folder is hidden, or lies in a folder that is."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _is_passed_over(path: Path, folder: Path) -> bool:
    # What is hidden is at most counted, which is not worth going wherever its links lead.
    return (os.path.islink(path) and is_hidden(path, folder)) or _leads_back(path, folder)


def _leads_back(path: Path, folder: Path) -> bool:
    """Whether a path leads to a folder on the way from ``folder`` to it, so that following it would never end.

    Not only links do: one to a folder above ``folder`` makes a plain folder of it that is below itself.
    """
    way = (parent for parent in path.parents if parent.is_relative_to(folder))
    try:
        found = os.stat(path)
        return any(os.path.samestat(found, os.stat(parent)) for parent in way)
    except OSError:
        return False  # refused when it is to be read


def _is_file(path: Path) -> bool:
    """Whether a path leads to a file; one that cannot be told, as in a folder that may only be listed, is refused."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if not os.path.islink(path) or isinstance(error, PermissionError):
            raise _unreadable(path, error) from error
        return False  # a link that leads nowhere


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path} cannot be read ({error.strerror}); check its permissions, or move it out of the folder that is read"
    )


def written_names(names: Sequence[str]) -> list[str]:
    """Names of files as they can be written in UTF-8, each another one.

    A name on the disk can be any bytes. What is not UTF-8 in it becomes a replacement character, and where that makes
    a name that there is already, a number tells them apart.
    """
    plain = [os.fsencode(name).decode("utf-8", "replace") if _is_broken(name) else name for name in names]
    taken: set[str] = set()
    written = list(plain)
    # Names that can stay as they are come first, so that they do.
    for at in sorted(range(len(names)), key=lambda at: plain[at] != names[at]):
        number = 1
        while written[at] in taken:
            number += 1
            written[at] = f"{plain[at]}-{number}"
        taken.add(written[at])
    return written


def _is_broken(name: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in name)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, or of all files in a folder with their names."""
    digest = hashlib.sha256()
    if path.is_dir():
        for member in sorted(file for file in path.rglob("*") if file.is_file()):
            digest.update(f"{member.relative_to(path).as_posix()} {checksum(member)}\n".encode())
        return digest.hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
