"""Read, compress, list and checksum files, within limits on their size."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from cascade_srn.errors import ConfigError, DataError, require, short_repr
from cascade_srn.storage.limits import FILE_VARIABLE, read_limits

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PACKED = (".gz", ".xz", ".bz2")
"""Suffixes of compressed files."""
_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2"}
_CHUNK = 1 << 17
# The mark of UTF-32 comes first, because it starts with that of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Encodings of text without a byte-order mark by which of the first four bytes are zero, since it begins with ASCII.
_BY_ZEROS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
# The beginnings of files that are not converted: UTF-8 with a mark, PDF, Parquet.
_KEPT = (codecs.BOM_UTF8, b"%PDF-", b"PAR1")


def is_compressed(path: Path) -> bool:
    """Return whether a path has the suffix of a compressed file."""
    return path.suffix.lower() in PACKED


def plain_name(path: Path) -> Path:
    """Return a path without the suffix of its compression."""
    return path.with_suffix("") if is_compressed(path) else path


@contextmanager
def decompress(path: Path, on_disk: BinaryIO, encoding: str | None = None) -> Iterator[IO[bytes]]:
    """Yield the decompressed content of an open file, or the file itself if its suffix is not one of a compression.

    Text in another encoding is converted by :func:`convert_to_utf8`. Reading raises a :class:`DataError` if the content
    exceeds the limit of the compression ratio.
    """
    if not is_compressed(path):
        yield convert_to_utf8(path, on_disk, encoding)
        return
    with decompress_as(path.suffix.lower(), on_disk, str(path)) as handle:
        yield convert_to_utf8(path, handle, encoding)


def check_encoding(name: str | None) -> None:
    """Raise ConfigError if a name is not that of an encoding of text."""
    try:
        "".encode("utf-8" if name is None else name)
    except (LookupError, TypeError, ValueError):
        raise ConfigError(
            f"the encoding {short_repr(name)} does not exist", "Use a name such as cp1252 or utf-16", option="encoding"
        ) from None


def convert_to_utf8(path: Path | str, handle: IO[bytes], encoding: str | None = None) -> IO[bytes]:
    """Return a stream of UTF-8 for an open file, or the file itself if there is nothing to convert.

    Args:
        path: The file, for messages.
        handle: The open file.
        encoding: Its encoding; None for UTF-8, or UTF-16 or UTF-32 if its first characters have zero bytes. The
            byte-order mark of UTF-8, UTF-16 or UTF-32 takes precedence. PDF and Parquet are not converted.
    """
    if not isinstance(handle, io.BufferedReader):
        return handle
    try:
        start = handle.peek(5)[:5]
    except read_errors():
        return handle  # the first read reports it
    marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
    if marked is not None:
        return io.BufferedReader(_Converter(path, handle, marked, is_marked=True), _CHUNK)
    encoding = encoding or _BY_ZEROS.get(tuple(byte == 0 for byte in start[:4]))
    if encoding is None or codecs.lookup(encoding).name == "utf-8" or start.startswith(_KEPT):
        return handle
    return io.BufferedReader(_Converter(path, handle, encoding), _CHUNK)


@contextmanager
def decompress_as(suffix: str, on_disk: BinaryIO, place: str) -> Iterator[IO[bytes]]:
    """Yield the decompressed content of an open file as :func:`decompress` does."""
    with _open_stream(suffix, on_disk, "rb") as handle:
        yield io.BufferedReader(_RatioGuard(place, handle, on_disk), _CHUNK)


@contextmanager
def decompress_by_content(on_disk: BinaryIO) -> Iterator[IO[bytes]]:
    """Yield the decompressed content of an open file, whose compression is recognised by its first bytes."""
    start = on_disk.read(6)
    on_disk.seek(0)
    suffix = next((suffix for magic, suffix in _MAGIC.items() if start.startswith(magic)), None)
    if suffix is None:
        yield on_disk
        return
    with _open_stream(suffix, on_disk, "rb") as handle:
        yield handle


@contextmanager
def compress(path: Path, on_disk: BinaryIO) -> Iterator[BinaryIO]:
    """Yield a stream that compresses into an open file, or the file itself, depending on the suffix of its path."""
    if not is_compressed(path):
        yield on_disk
        return
    with _open_stream(path.suffix.lower(), on_disk, "wb") as handle:
        yield cast(BinaryIO, handle)


class _RatioGuard(io.RawIOBase):
    """Decompressed content that raises an error once it is too many times larger than the compressed file."""

    def __init__(self, place: str, handle: Any, on_disk: BinaryIO) -> None:
        self._place = place
        self._handle = handle
        self._on_disk = on_disk
        self._limits = read_limits()
        self._n_bytes = 0
        self._seekable = on_disk.seekable()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer) as view:
            # Not read(), which loses the content before a damaged part.
            data = self._handle.read1(len(view))
            view[: len(data)] = data
        self._n_bytes += len(data)
        # A pipe has no position. The limits of a line and of a whole file still apply there.
        if self._seekable:
            self._limits.check_ratio(self._n_bytes, self._on_disk.tell(), self._place)
        return len(data)


ENCODING_HINT = "Name its encoding, such as cp1252, or save it as UTF-8"
"""Hint of the option ``encoding``."""


class EncodingError(DataError):
    """A file is not in the encoding of its byte-order mark, or in the given one."""


class _Converter(io.RawIOBase):
    """Content of a file in another encoding as UTF-8, without the byte-order mark."""

    def __init__(self, path: Path | str, handle: IO[bytes], encoding: str, *, is_marked: bool = False) -> None:
        self._path = path
        self._handle = handle
        self._encoding = encoding
        self._is_marked = is_marked
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._converted = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        is_end = False
        while not self._converted and not is_end:
            data = self._handle.read(_CHUNK)
            is_end = not data
            try:
                self._converted = self._decoder.decode(data, final=is_end).encode()
            except UnicodeError as error:
                raise self._refuse(getattr(error, "reason", str(error))) from None
        with memoryview(buffer) as view:
            n_bytes = min(len(view), len(self._converted))
            view[:n_bytes] = self._converted[:n_bytes]
        self._converted = self._converted[n_bytes:]
        return n_bytes

    def _refuse(self, reason: str) -> EncodingError:
        if not self._is_marked:
            problem = f"{self._path}: the text is not in the encoding {self._encoding} ({reason})"
            return EncodingError(problem, "Name another one", option="encoding")
        name = self._encoding.upper()
        problem = f"{self._path}: the file starts with the byte-order mark of {name}, but is not {name} ({reason})"
        return EncodingError(problem, "Save the file as UTF-8")


def read_whole(path: Path, handle: IO[bytes]) -> bytes:
    """Read an open file to its end, within the size limit."""
    limits = read_limits()
    chunks, n_bytes = [], 0
    try:
        while chunk := handle.read(_CHUNK):
            n_bytes += len(chunk)
            if n_bytes > limits.file_bytes:
                raise limits.exceeded(
                    f"{path}: the file has more than {limits.file_bytes} bytes, too many to hold in memory",
                    "Split it, convert it to JSON lines",
                    FILE_VARIABLE,
                )
            chunks.append(chunk)
    except read_errors() as error:
        raise damaged_file(path, error) from error
    return b"".join(chunks)


def read_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading raises if a file is truncated, damaged, or has another compression."""
    return EOFError, OSError, lzma.LZMAError, zlib.error


def damaged_file(path: Path, error: Exception, *, after: str = "") -> DataError:
    """Return the error for a file that cannot be read, or not beyond ``after``, such as ``line 3``."""
    position = f" after {after}" if after else ""
    hint = " and compressed as its suffix says" if is_compressed(path) else ""
    return DataError(f"{path}: the file cannot be read{position} ({error})", f"Check that it is complete{hint}")


def _open_stream(suffix: str, on_disk: BinaryIO, mode: Any) -> IO[bytes]:
    if suffix == ".gz":
        # Without name and time, so that the same content gives the same bytes.
        return cast(IO[bytes], gzip.GzipFile("", mode, fileobj=on_disk, mtime=0))
    if suffix == ".zst":
        arrow = require("pyarrow", extra="corpus")
        return cast(IO[bytes], arrow.CompressedInputStream(arrow.PythonFile(on_disk, mode="r"), "zstd"))
    return cast(IO[bytes], (lzma.LZMAFile if suffix == ".xz" else bz2.BZ2File)(on_disk, mode))


def files_below(folder: Path, accept: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield the accepted files in a folder and its subfolders, in any order. Hidden files are included.

    Links to folders are followed, except hidden ones and those that lead back to a parent folder.
    """

    def on_error(error: OSError) -> None:
        path = Path(error.filename or folder)
        if not is_hidden(path, folder):
            raise _unreadable(path, error) from error

    for parent, subfolders, names in os.walk(folder, onerror=on_error, followlinks=True):
        subfolders[:] = [name for name in subfolders if not _is_skipped(Path(parent, name), folder)]
        for path in (Path(parent, name) for name in names):
            if accept(path) and (is_hidden(path, folder) or _is_file(path)):
                yield path


def is_hidden(path: Path, folder: Path) -> bool:
    """Return whether a path below a folder is hidden, or in a hidden subfolder."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _is_skipped(path: Path, folder: Path) -> bool:
    """Return whether a subfolder is a hidden link, or the same as one of its parents up to ``folder``.

    A link to a folder above ``folder`` makes ``folder`` itself, which is not a link, appear below itself.
    """
    if os.path.islink(path) and is_hidden(path, folder):
        return True
    parents = (parent for parent in path.parents if parent.is_relative_to(folder))
    try:
        found = os.stat(path)
        return any(os.path.samestat(found, os.stat(parent)) for parent in parents)
    except OSError:
        return False  # os.walk reports it


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if not os.path.islink(path) or isinstance(error, PermissionError):
            raise _unreadable(path, error) from error
        return False  # a dangling link


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path} cannot be read ({error.strerror})", "Check its permissions, or move it out of the input folder"
    )


def encodable_names(names: Sequence[str]) -> list[str]:
    """Return file names that can be encoded as UTF-8 and differ from each other.

    Bytes that are not UTF-8 become replacement characters. If two names become the same, a number is appended.
    """
    plain = [os.fsencode(name).decode("utf-8", "replace") if _has_surrogates(name) else name for name in names]
    taken: set[str] = set()
    written = list(plain)
    # Names without replacements first, so that they are kept.
    for at in sorted(range(len(names)), key=lambda at: plain[at] != names[at]):
        number = 1
        while written[at] in taken:
            number += 1
            written[at] = f"{plain[at]}-{number}"
        taken.add(written[at])
    return written


def _has_surrogates(name: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in name)


def file_crc32(path: Path) -> int:
    """Return the CRC-32 of a file. It finds damage several times as fast as SHA-256."""
    found = 0
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            found = zlib.crc32(block, found)
    return found


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files in a folder with their names."""
    digest = hashlib.sha256()
    if path.is_dir():
        for member in sorted(file for file in path.rglob("*") if file.is_file()):
            digest.update(f"{member.relative_to(path).as_posix()} {checksum(member)}\n".encode())
        return digest.hexdigest()
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
