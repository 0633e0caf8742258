"""Read ZIP archives as a stream, within limits."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cascade_srn.errors import CascadeError, DataError, short_repr
from cascade_srn.storage.limits import FILE_VARIABLE, read_limits

_CHUNK = 1 << 17
# Start of an entry in the directory of an archive, and its smallest size.
_ENTRY, _ENTRY_BYTES = b"PK\x01\x02", 46


class Archive:
    """An open ZIP archive.

    Bytes are counted while they are unpacked, because the headers of an archive can state any size.

    Attributes:
        names: Names of its files.
    """

    def __init__(self, path: Path, packed: zipfile.ZipFile) -> None:
        self._path = path
        self._packed = packed
        self._limits = read_limits()
        self._size = path.stat().st_size
        self._n_bytes = 0
        self.names = [member.filename for member in packed.infolist() if not member.is_dir()]

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return b"".join(self._chunks(name))

    def unpack(self, target: Path) -> None:
        """Write all files to a folder. Files outside of it are refused."""
        for name in self.names:
            place = target / name
            if not place.resolve().is_relative_to(target.resolve()):
                raise DataError(f"{self._path} has a file outside of its folder", "Make the archive again")
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as handle:
                for chunk in self._chunks(name):
                    handle.write(chunk)

    def _chunks(self, name: str) -> Iterator[bytes]:
        member = self._packed.getinfo(name)
        if member.flag_bits & 1:
            raise DataError(f"{self._path} is encrypted", "Make the archive without a password")
        # Other methods are decompressed without a limit on a chunk.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{self._path} has a compression other than deflate", "Make the archive again with it")
        n_bytes = 0
        with self._packed.open(member) as handle:
            while chunk := handle.read(_CHUNK):
                n_bytes += len(chunk)
                self._limits.check_size(n_bytes, f"{self._path}, {short_repr(name)}")
                self._count(len(chunk))
                yield chunk

    def _count(self, n_bytes: int) -> None:
        limits = self._limits
        self._n_bytes += n_bytes
        total = limits.archive_bytes or limits.file_bytes
        if self._n_bytes > total:
            raise limits.exceeded(
                f"{self._path} unpacks to more than {total:,} bytes", "Unpack it, and pass the folder", FILE_VARIABLE
            )
        limits.check_ratio(self._n_bytes, self._size, self._path)


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a ZIP archive.

    Raises:
        DataError: The archive is damaged or encrypted, or exceeds a limit of :class:`.ReadLimits`.
    """
    try:
        _check_entries(path)
        with zipfile.ZipFile(path) as packed:
            yield Archive(path, packed)
    except CascadeError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path} is not a readable ZIP archive ({error})", "Make the archive again") from error


def _check_entries(path: Path) -> None:
    """Refuse an archive with too many entries before they are read, because each takes much more than its bytes."""
    n_entries, members = 0, read_limits().members
    if path.stat().st_size < _ENTRY_BYTES * members:
        return
    with path.open("rb") as handle:
        end = b""
        while chunk := handle.read(_CHUNK):
            n_entries += (end + chunk).count(_ENTRY)
            end = chunk[1 - len(_ENTRY) :]
    if n_entries > members:
        raise DataError(f"{path} has more than {members:,} files", "Unpack it, and pass its files in several parts")
