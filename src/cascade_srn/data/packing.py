"""Compressed files, recognised by their endings: ``.gz``, ``.xz`` and ``.bz2``."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from cascade_srn.data.limits import (
    FILE_VARIABLE,
    RATIO_FROM,
    RATIO_VARIABLE,
    max_compression_ratio,
    max_file_bytes,
)
from cascade_srn.errors import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
