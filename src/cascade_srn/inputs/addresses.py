"""Find and open files at local paths and fsspec addresses, such as ``s3://bucket/folder``."""

import glob
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from cascade_srn.errors import CascadeError, DataError, suggest
from cascade_srn.formats.files import is_stream, stream_error
from cascade_srn.storage.files import PACKED, convert_to_utf8, decompress_as, files_below

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

COMPRESSIONS = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""Suffixes of compressed files, and the bytes that such files begin with."""
assert set(PACKED) <= set(COMPRESSIONS)
_MAGIC_BYTES = 6
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


def is_remote(address: str) -> bool:
    """Return whether an address belongs to a file system of fsspec rather than being a local path."""
    return "://" in address or ("::" in address and not os.path.lexists(address))


def split_suffixes(address: str) -> tuple[str, str]:
    """Return the suffix of an address and that of its compression, in lower case: ``.jsonl`` and ``.gz``."""
    stem, last = os.path.splitext(_path_part(address).rsplit("/", 1)[-1].lower())
    return (os.path.splitext(stem)[1], last) if last in COMPRESSIONS else (last, "")


def _path_part(address: str) -> str:
    """Return the path of the file itself, without other links of a chain and the query of a web address."""
    links = [link for link in address.split("::") if "://" in link] if is_remote(address) else []
    path = links[0] if links else address
    return path.split("?")[0] if path.startswith(("http://", "https://")) else path


def choose_names(addresses: list[str]) -> list[str]:
    """Return the path of each file below the folder that all share."""
    parts = [_path_part(address).replace(os.sep, "/").split("/") for address in addresses]
    folders = zip(*(part[:-1] for part in parts), strict=False)
    n_shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, folders))
    return ["/".join(part[n_shared:]) for part in parts]


def find_files(address: str, suffixes: tuple[str, ...] | None, *, skip: str | None = None) -> list[str]:
    """Return the files of a path, a folder or a pattern, as absolute paths or fsspec addresses.

    Args:
        address: A file, a folder, which is searched with its subfolders, or a pattern.
        suffixes: Suffixes of files to find in folders, and by patterns without a suffix; None for all files. Files
            whose names begin with a dot or an underscore are not found in folders.
        skip: Folder whose files are left out.
    """
    if not address.strip():
        raise DataError("an address of the input is empty", "Give a file, a folder or a pattern")
    if address.startswith(("file://", "local://")):
        address = _local_path(address)
    skipped = None if skip is None else (skip if is_remote(skip) else os.path.realpath(skip)).rstrip("/")
    found = _find_remote(address, suffixes) if is_remote(address) else _find_local(address, suffixes)
    if skipped is not None:
        found = [file for file in found if not f"{_real(file)}/".startswith(f"{skipped}/")]
    if not found:
        kinds = "" if suffixes is None else f" that ends in {', '.join(suffixes)}, compressed or not"
        raise DataError(f"{address} has no file{kinds}", "Check the address, or name the format", option="input_format")
    return found


def _real(address: str) -> str:
    return address if is_remote(address) else os.path.realpath(address).replace(os.sep, "/")


def without_repeats(addresses: list[str]) -> list[str]:
    """Return sorted addresses, each file once. Links to a file are the file."""
    found: dict[str, str] = {}
    for address in sorted(addresses):
        found.setdefault(_real(address), address)
    return list(found.values())


def _local_path(address: str) -> str:
    from fsspec.implementations.local import LocalFileSystem

    return str(LocalFileSystem._strip_protocol(address))


def _find_local(address: str, suffixes: tuple[str, ...] | None) -> list[str]:
    path = os.path.abspath(address)
    if os.path.isdir(path):
        below = files_below(Path(path), lambda file: _is_visible(file.relative_to(path).as_posix()))
        return [str(file) for file in below if _is_chosen(file.name, suffixes)]
    if os.path.lexists(path):
        if is_stream(Path(path)):
            raise stream_error(Path(path))
        return [path]
    if glob.has_magic(address):
        matches = [match for match in glob.glob(path, recursive=True) if os.path.isfile(match)]
        if not matches:
            raise _no_match(address)
        return [match for match in matches if _names_suffix(address) or _is_chosen(match, suffixes)]
    raise _missing(address)


def _find_remote(address: str, suffixes: tuple[str, ...] | None) -> list[str]:
    fs, path = connect(address)
    with _accessing(address):
        try:
            is_folder = fs.info(path)["type"] == "directory"
        except FileNotFoundError:
            if not glob.has_magic(_path_part(address)):
                raise
            matches = [match for match, found in fs.glob(path, detail=True).items() if found["type"] == "file"]
            if not matches:
                raise _no_match(address) from None
            chosen = [match for match in matches if _names_suffix(address) or _is_chosen(match, suffixes)]
            return [_rejoin(address, fs, match) for match in chosen]
        if not is_folder:
            return [address]
        below = fs.find(path)
    start = len(path.rstrip("/")) + 1
    return [
        _rejoin(address, fs, file) for file in below if _is_visible(file[start:]) and _is_chosen(file[start:], suffixes)
    ]


def _rejoin(given: str, fs: Any, path: str) -> str:
    """Return the address of a path in the file system of a given address, which may be a chain."""
    if "::" not in given:
        return str(fs.unstrip_protocol(path))
    first, rest = given.split("::", 1)
    if "://" in first:  # zip://member::archive
        return f"{first.split('://')[0]}://{path.lstrip('/')}::{rest}"
    return f"{first}::{rest.split('://')[0]}://{path.removeprefix(rest.split('://')[0] + '://')}"


def _is_visible(path: str) -> bool:
    return not any(part.startswith((".", "_")) for part in path.split("/"))


def _names_suffix(pattern: str) -> bool:
    """Return whether a pattern says how files end, as ``*.json`` does. It then chooses by itself."""
    suffix = split_suffixes(pattern)[0]
    return bool(suffix) and not glob.has_magic(suffix)


def _is_chosen(path: str, suffixes: tuple[str, ...] | None) -> bool:
    return suffixes is None or split_suffixes(path)[0] in suffixes


def _missing(address: str) -> DataError:
    places = "the bucket, the path and the credentials" if is_remote(address) else "the path and the working folder"
    return DataError(f"{address} does not exist", f"Check {places}")


def _no_match(pattern: str) -> DataError:
    places = "the bucket and the pattern" if is_remote(pattern) else "the pattern and the working folder"
    return DataError(f"no file matches {pattern!r}", f"Check {places}")


def connect(address: str) -> tuple[Any, str]:
    """Return the file system of a remote address and the path in it."""
    try:
        import fsspec
        from fsspec.registry import known_implementations
    except ImportError as error:
        raise DataError(f"{address}: remote files need fsspec", "Run pip install 'cascade-srn[corpus]'") from error
    protocol = address.split("://")[0].split("::")[-1]
    try:
        fs, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        package = known_implementations.get(protocol, {}).get("class", "").split(".")[0]
        if package == "fsspec":  # the file system is there, but not what it needs
            package = str(getattr(error.__cause__, "name", None) or "").split(".")[0]
        hint = f"Run pip install {package}" if package else "Install the package of its file system"
        raise DataError(f"{address}: the package for {protocol}:// addresses is not installed", hint) from error
    except Exception as error:
        if protocol not in fsspec.available_protocols():
            hint = (
                suggest(protocol, fsspec.available_protocols()) or "Use a local path, s3://, gs://, hf:// or https://"
            )
            raise DataError(f"{address}: the protocol {protocol}:// is not known", hint) from error
        raise _unreadable(address, error) from error
    return fs, str(path)


@contextmanager
def _accessing(address: str) -> Iterator[None]:
    """Turn errors of a file system into errors of the input.

    File systems raise errors of many libraries. The block contains nothing but calls of the file system.
    """
    try:
        yield
    except CascadeError:
        raise
    except FileNotFoundError as error:
        raise _missing(address) from error
    except PermissionError as error:
        whose = "the credentials and their rights" if is_remote(address) else "its permissions"
        raise DataError(f"{address} cannot be read (permission denied)", f"Check {whose}") from error
    except Exception as error:
        if not is_remote(address) and not isinstance(error, OSError):
            raise
        raise _unreadable(address, error) from error


def _unreadable(address: str, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]
    hint = "Check the address, the credentials and the connection" if is_remote(address) else "Check the file"
    return DataError(f"{address} cannot be read ({reason})", hint)


def file_version(address: str) -> str:
    """Return what the file system tells about the version of a file: its size, and its etag or time."""
    with _accessing(address):
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
    """

    def __init__(self, address: str, *, hashed: bool = False, at_random: bool = False) -> None:
        self.address = address
        self.n_bytes = 0
        self._position = 0
        self._digest = hashlib.sha256() if hashed else None
        with _accessing(address):
            if is_remote(address):
                # An archive is closed with its file system, so that this one has to stay.
                self._fs, path = connect(address)
                # Reading ahead fetches the same bytes many times if a reader jumps between columns.
                options = {"cache_type": "none"} if at_random else {}
                # Many web servers send whole files only. With a block size of 0 the file is read as it arrives.
                size = 0 if address.startswith(("http://", "https://")) and not at_random else _BLOCK
                self._handle = self._fs.open(path, "rb", block_size=size, **options)
            else:
                self._handle = open(address, "rb", buffering=0)  # noqa: SIM115

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
        with _accessing(self.address):
            self._position = int(self._handle.seek(offset, whence))
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read bytes into a buffer, and return their number."""
        with memoryview(buffer).cast("B") as view, _accessing(self.address):
            data = self._handle.read(len(view))
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
            if hasattr(self, "_handle"):
                self._handle.close()


class OpenFile:
    """An open file with its decompressed content. The compression is recognised by the first bytes.

    Attributes:
        raw: The bytes as they are stored.
        compression: Suffix of the compression; empty if there is none.
        content: The decompressed bytes. Text in UTF-16 or UTF-32 with a byte-order mark is converted to UTF-8.
    """

    def __init__(self, address: str, *, hashed: bool = False) -> None:
        self.address = address
        self.raw = RawFile(address, hashed=hashed)
        with ExitStack() as stack:
            stored = stack.enter_context(io.BufferedReader(self.raw, _BUFFER))
            start = stored.peek(_MAGIC_BYTES)
            found = [suffix for suffix, magic in COMPRESSIONS.items() if start.startswith(magic)]
            self.compression = found[0] if found else ""
            self.content: IO[bytes] = stored
            if found:
                on_disk = cast(BinaryIO, stored)
                self.content = stack.enter_context(decompress_as(self.compression, on_disk, address))
            stored_content, self.content = self.content, convert_to_utf8(address, self.content)
            self._is_converted = self.content is not stored_content
            self._open = stack.pop_all()

    @property
    def can_seek(self) -> bool:
        """Whether the content can be read from any offset at once."""
        return not self.compression and not self._is_converted and self.raw.seekable()

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
