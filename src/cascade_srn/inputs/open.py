"""Open local and remote files: decompress them, and convert their text to UTF-8."""

import hashlib
import io
import os
import re
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from cascade_srn.errors import DataError
from cascade_srn.inputs.find import COMPRESSIONS, FORMATS, accessing, connect, is_remote, split_suffixes
from cascade_srn.storage.files import convert_to_utf8, decompress_as, read_errors

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# The bytes that compressed files begin with. A text may begin with BZh, but not with what follows in bzip2.
_MAGIC = {
    ".gz": rb"\x1f\x8b",
    ".xz": rb"\xfd7zXZ\x00",
    ".bz2": rb"BZh[1-9](1AY&SY|\x17rE8P\x90)",
    ".zst": rb"\x28\xb5\x2f\xfd",
}
_MAGIC_BYTES = 10
_BUFFER = 1 << 20
# Bytes that are fetched from a remote file at once.
_BLOCK = 8 << 20
# What file systems call the version of a file, the best first. Without any, only a change of the size is noticed.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "blob_id",
    "generation",
    "md5Hash",
    "LastModified",
    "last_modified",
    "mtime",
    "created",
)


def file_version(address: str) -> str:
    """Return what the file system tells about the version of a file: its size, and its etag or time."""
    with accessing(address):
        if not is_remote(address):
            found = os.stat(address)
            return f"size={found.st_size} mtime={found.st_mtime_ns}"
        fs, path = connect(address)
        fs.invalidate_cache(path)
        info = fs.info(path)
    known = (f" {key}={info[key]}" for key in _VERSION_KEYS if info.get(key) is not None)
    return f"size={info.get('size')}{next(known, '')}"


class RawFile(io.RawIOBase):
    """Bytes of a file as they are stored.

    Args:
        address: Local path or fsspec address.
        hashed: Whether to compute the checksum, for a file that is read in order.
        at_random: Whether the file is not read in order.
        stream: Open stream to read instead of the file, such as standard input. It is not closed.
    """

    def __init__(
        self, address: str, *, hashed: bool = False, at_random: bool = False, stream: BinaryIO | None = None
    ) -> None:
        self.address = address
        self.n_bytes = 0
        self._position = 0
        self._digest = hashlib.sha256() if hashed else None
        self._is_given = stream is not None
        with accessing(address):
            if stream is not None:
                self._handle: Any = stream
            elif is_remote(address):
                # An archive is closed with its file system, so that this one has to stay.
                self._fs, path = connect(address)
                # Reading ahead fetches the same bytes many times if a reader jumps between columns.
                options = {"cache_type": "none"} if at_random else {}
                # Many web servers send whole files only. With a block size of 0 the file is read as it arrives.
                size = 0 if address.startswith(("http://", "https://")) and not at_random else _BLOCK
                self._handle = self._fs.open(path, "rb", block_size=size, **options)
            else:
                self._handle = open(address, "rb", buffering=0)  # noqa: SIM115
        # Lines of a pipe are read as they arrive.
        self._read = getattr(self._handle, "read1", self._handle.read) if self._is_given else self._handle.read

    @property
    def sha256(self) -> str:
        """Checksum of the bytes read so far."""
        assert self._digest is not None
        return self._digest.hexdigest()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the file can be read from any place."""
        return bool(self._handle.seekable())

    def tell(self) -> int:
        """Return the position."""
        return self._position  # file systems that stream do not keep it

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position. The checksum is then no longer that of the file."""
        with accessing(self.address):
            self._position = int(self._handle.seek(offset, whence))
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read bytes into a buffer, and return their number."""
        with memoryview(buffer).cast("B") as view, accessing(self.address):
            data = self._read(len(view))
            view[: len(data)] = data
        if self._digest is not None:
            self._digest.update(data)
        self.n_bytes += len(data)
        self._position += len(data)
        return len(data)

    def read_rest(self) -> None:
        """Read to the end, so that the checksum is that of the whole file."""
        while self.read(_BUFFER):
            pass

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            super().close()
            if hasattr(self, "_handle") and not self._is_given:
                self._handle.close()


class OpenFile:
    """An open file with its decompressed content. The compression is recognised by the first bytes.

    Attributes:
        raw: The bytes as they are stored.
        compression: Suffix of the compression; empty if there is none.
        content: The decompressed bytes, as UTF-8 if it is a text in another encoding.

    Raises:
        DataError: The file cannot be opened, or is not compressed as its suffix says.
    """

    def __init__(
        self, address: str, *, hashed: bool = False, stream: BinaryIO | None = None, encoding: str | None = None
    ) -> None:
        self.address = address
        self.raw = RawFile(address, hashed=hashed, stream=stream)
        with ExitStack() as stack:
            self._stored = stack.enter_context(io.BufferedReader(self.raw, _BUFFER))
            start = self._stored.peek(_MAGIC_BYTES)
            found = [suffix for suffix, magic in _MAGIC.items() if re.match(magic, start)]
            self.compression = found[0] if found else ""
            self._check_compression(is_empty=not start)
            content: IO[bytes] = self._stored
            if found:
                content = stack.enter_context(decompress_as(self.compression, cast(BinaryIO, content), address))
            self.content = convert_to_utf8(address, content, encoding)
            self._is_converted = self.content is not content
            self._open = stack.pop_all()

    def _check_compression(self, *, is_empty: bool) -> None:
        suffix, packed = split_suffixes(self.address)
        if packed and packed != self.compression and not is_empty:
            raise DataError(
                f"{self.address}: the file is not compressed with {COMPRESSIONS[packed]}, as its suffix says",
                "Rename it, or write it again",
            )
        if self.compression and not packed and (suffix in FORMATS or suffix == ".json"):
            raise DataError(
                f"{self.address}: the file is compressed with {COMPRESSIONS[self.compression]}",
                f"Rename it, so that it ends in {self.compression}",
            )

    @property
    def can_seek(self) -> bool:
        """Whether the content can be read from any offset at once."""
        return not self.compression and not self._is_converted and self.raw.seekable()

    @property
    def position(self) -> int:
        """Number of stored bytes read so far."""
        return self._stored.tell() if self.raw.seekable() else 0

    def peek(self) -> bytes:
        """Return the start of the content without reading on."""
        try:
            return cast(io.BufferedReader, self.content).peek(_BUFFER)
        except read_errors() as error:
            raise damaged(self.address, error) from error

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def damaged(address: str, error: Exception, *, after: str = "") -> DataError:
    """Return the error for a file whose content cannot be read, or not beyond ``after``, such as ``line 3``."""
    position = f" after {after}" if after else ""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return DataError(f"{address}: the file cannot be read{position} ({reason})", "Check that it is complete")
