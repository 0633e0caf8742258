"""Files that are compressed, as their endings say: ``.gz``, ``.xz`` and ``.bz2``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from cascade_srn.errors import DataError

PACKED = (".gz", ".xz", ".bz2")
"""The endings of files that are compressed."""


def is_packed(path: Path) -> bool:
    """Whether a path has the ending of a compressed file."""
    return path.suffix.lower() in PACKED


def plain_name(path: Path) -> Path:
    """A path without the ending of its compression."""
    return path.with_suffix("") if is_packed(path) else path


@contextmanager
def unpacked(path: Path, on_disk: BinaryIO) -> Iterator[IO[bytes]]:
    """The bytes of an open file as they were before it was compressed; those of another file as they are."""
    if not is_packed(path):
        yield on_disk
        return
    with _stream(path, on_disk, "rb") as handle:
        yield handle


@contextmanager
def packing(path: Path, on_disk: BinaryIO) -> Iterator[BinaryIO]:
    """Where bytes are written that are to be compressed on their way into an open file, if its ending says so."""
    if not is_packed(path):
        yield on_disk
        return
    with _stream(path, on_disk, "wb") as handle:
        yield cast(BinaryIO, handle)


def broken_errors() -> tuple[type[Exception], ...]:
    """What reading raises where a file is cut off, damaged, or not compressed as its ending says."""
    import lzma

    return EOFError, OSError, lzma.LZMAError, zlib.error


def broken(path: Path, error: Exception, *, after: str = "") -> DataError:
    """The error for a file that cannot be read, or not on ``after`` some line."""
    packed = ", and compressed as its ending says" if is_packed(path) else ""
    read = f"read on after {after}" if after else "read"
    return DataError(f"{path}: the file cannot be {read} ({error}); check that it is whole{packed}")


def _stream(path: Path, on_disk: BinaryIO, mode: Any) -> IO[bytes]:
    # Imported here, since a Python may have been built without some of them.
    ending = path.suffix.lower()
    if ending == ".gz":
        import gzip

        # Neither name nor time, so that the same documents give the same bytes.
        return cast(IO[bytes], gzip.GzipFile("", mode, fileobj=on_disk, mtime=0))
    if ending == ".xz":
        import lzma

        return cast(IO[bytes], lzma.LZMAFile(on_disk, mode))
    import bz2

    return cast(IO[bytes], bz2.BZ2File(on_disk, mode))
