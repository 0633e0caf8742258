"""Write files and folders atomically and durably: they appear at their path complete, or not at all.

:func:`replace_durably` is the one place of the package that renames a result. It flushes the contents to disk before
the rename and the directory entry after it, so that a power failure leaves the old result or the new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from cascade_srn.errors import DataError

# Folders that are being filled: their members are flushed when the folder is committed.
_PENDING: set[Path] = set()
# Errors of file systems that cannot flush a directory, or of a directory that may be written but not read.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR)
_MANY_FILES = 64


class AtomicFile:
    """A file that takes its place when all of it is written; what was there before stays until then.

    It has the permissions of the file that it replaces. Abandoned, it is kept beside that place, under a name that
    says that it is a part. A device or a pipe is no file to be replaced, and is written to as it is.
    """

    def __init__(self, path: Path) -> None:
        real = Path(os.path.realpath(path))
        if os.path.isdir(path):
            raise DataError(f"{path} is a folder, but a file to write was expected; give the path of a file")
        # The real path of an open pipe, such as /dev/stdout can be, is a path that does not exist.
        self._direct = os.path.exists(path) and not os.path.isfile(real)
        self.path = path if self._direct else real
        self._beside = path if self._direct else _hidden(real.parent)
        try:
            self.handle = self._beside.open("wb" if self._direct else "xb")
        except OSError as error:
            raise _unwritable(path, error) from error
        self._empty = True
        if os.path.exists(real) and not self._direct:
            self._take_permissions(real)

    def write(self, data: bytes) -> None:
        """Write and flush."""
        try:
            self.handle.write(data)
            self.handle.flush()
        except OSError as error:
            error.filename = str(self.path)  # such as a full disk, which is told without a path
            raise
        self._empty = False

    def commit(self) -> None:
        """Flush the file to disk and rename it to its path."""
        if self._direct:
            self.handle.close()
            return
        try:
            if not self.handle.closed and not _is_pending(self.path):
                # Through the handle: the permissions that the file has taken over may not let it be opened again.
                self.handle.flush()
                os.fsync(self.handle.fileno())
            self.handle.close()
        except OSError as error:
            error.filename = str(self.path)
            raise
        _rename(self._beside, self.path, flushed=True)

    def abandon(self) -> Path | None:
        """Keep what was written under another name, or nothing where nothing was."""
        if self._direct or self._empty:
            self.discard()
            return None
        self._close()
        kept = partial_path(self.path)
        _rename(self._beside, kept)
        return kept

    def discard(self) -> None:
        """Keep nothing."""
        self._close()
        if not self._direct:
            self._beside.unlink(missing_ok=True)

    def _take_permissions(self, real: Path) -> None:
        try:
            os.chmod(self._beside, stat.S_IMODE(os.stat(real).st_mode))
        except OSError as error:
            self.discard()
            raise _unwritable(real, error) from error

    def _close(self) -> None:
        with suppress(OSError):  # what kept a write from succeeding keeps the rest of the buffer from it too
            self.handle.close()


class AtomicFolder:
    """A folder to fill, new or empty so far, that takes its place when all of it is written.

    One that is there already stays the same folder, since the working folder, or where a disk is mounted, cannot be
    replaced by another: it is filled in a hidden folder inside, whose files move up in the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._there = os.path.exists(self.path)
        try:
            if self._there and not (self.path.is_dir() and not os.listdir(self.path)):
                raise _not_empty(path)
            self.folder = _hidden(self.path if self._there else self.path.parent)
            self.folder.mkdir()
        except OSError as error:
            raise _unwritable(path, error) from error
        _PENDING.add(self.folder)

    def commit(self) -> None:
        """Flush the folder to disk and move it, or its members, to its path."""
        _PENDING.discard(self.folder)
        if not self._there:
            _rename(self.folder, self.path)
            return
        if not all(name.startswith(".") for name in os.listdir(self.path)):
            raise _not_empty(self.path)
        for name in os.listdir(self.folder):
            _rename(self.folder / name, self.path / name)
        self.folder.rmdir()

    def abandon(self) -> Path | None:
        """Keep what was written under another name, or nothing where nothing was."""
        if not os.listdir(self.folder):
            self.discard()
            return None
        _PENDING.discard(self.folder)
        kept = partial_path(self.path)
        try:
            replace_durably(self.folder, kept)
        except OSError:
            # Beside a folder that is there already, nothing may be allowed, or another disk be.
            kept = partial_path(self.folder.with_name(self.path.name))
            _rename(self.folder, kept)
        return kept

    def discard(self) -> None:
        """Remove everything that was written."""
        _PENDING.discard(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def partial_path(path: Path) -> Path:
    """The name of a part of what was to be at a path, which no file has yet: ``found.partial.jsonl``."""
    number = 1
    while True:
        kept = path.with_name(f"{path.stem}.partial{'' if number == 1 else f'-{number}'}{path.suffix}")
        if not os.path.lexists(kept):
            return kept
        number += 1


def _hidden(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(8)}.tmp"


@contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Yield a new empty file for a library that writes by name; rename it to ``path`` if the block succeeds.

    The name is random and the file is created exclusively, so that a symbolic link cannot be planted in its place.
    """
    beside = _hidden(path.parent)
    try:
        beside.open("xb").close()
        yield beside
        replace_durably(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def replace_durably(source: Path, target: Path, *, flushed: bool = False) -> None:
    """Rename a file or folder so that the result survives a power failure.

    The contents are flushed to disk before the rename, the directory entry after it. Members of an
    :class:`AtomicFolder` that is still being filled are flushed once, when the folder is committed.

    Args:
        source: the file or folder to rename.
        target: its new path; an existing file there is replaced.
        flushed: whether the contents are on disk already.
    """
    pending = _is_pending(target)
    if not pending and not flushed:
        flush(source)
    os.replace(source, target)
    if not pending:
        flush_folder(target.parent)


def flush_folder(folder: Path) -> None:
    """Flush the entries of a directory to disk, on file systems that support it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno in _NO_FOLDER_SYNC:
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def open_without_links(path: Path, mode: str) -> BinaryIO:
    """Open a file for binary writing, and refuse a symbolic link, which could lead to a file of somebody else's.

    Args:
        path: the file to open; only its last component must not be a link.
        mode: ``"wb"`` or ``"ab"``.

    Raises:
        DataError: if the path is a symbolic link.
    """
    try:
        return cast(BinaryIO, open(path, mode, opener=_opener_without_links))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"{path} is a symbolic link, which is not written through. Remove the link.") from error
        raise


def _opener_without_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def flush(path: Path) -> None:
    """Flush a file, or a folder with everything in it, to disk."""
    if not path.is_dir():
        _flush_file(path)
        return
    files = [member for member in path.rglob("*") if member.is_file() and not member.is_symlink()]
    if len(files) > _MANY_FILES and hasattr(os, "sync"):
        # One call for the file system is faster than one for each of many files.
        os.sync()
        return
    for file in files:
        _flush_file(file)
    for folder in (path, *(member for member in path.rglob("*") if member.is_dir() and not member.is_symlink())):
        flush_folder(folder)


def _flush_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_pending(path: Path) -> bool:
    """Return whether a path lies in an :class:`AtomicFolder` that is still being filled."""
    return any(folder in _PENDING for folder in path.parents)


def _rename(beside: Path, path: Path, *, flushed: bool = False) -> None:
    try:
        replace_durably(beside, path, flushed=flushed)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror}); give another name") from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written ({error.strerror}); check that its folder exists and is writable")


def _not_empty(path: Path) -> DataError:
    return DataError(
        f"{path} exists and is not an empty folder, but a new or empty one was expected; give another path, or empty it"
    )
