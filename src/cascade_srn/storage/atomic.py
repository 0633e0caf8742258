"""Write files and folders atomically and durably: they appear at their path complete, or not at all.

Results are written into a hidden folder beside the target and renamed at the end. The writer holds a lock on the hidden
folder. A hidden folder with a free lock was left by a killed process, and the next writer removes it.
:func:`replace_durably` is the only function of the package that renames a result.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO, cast

from cascade_srn.errors import DataError

if sys.platform != "win32":
    import fcntl

_LEFTOVER = re.compile(r"\.cascade-srn\..*\.([0-9a-f]{8})-[0-9]+-[0-9a-f]{16}\.tmp", re.DOTALL)
# Most file systems allow names of 255 bytes. A temporary name has at most 120 bytes of its target's name.
_NAME_BYTES, _SHOWN_BYTES = 255, 120
# Folders that are being filled: their members are flushed when the folder is committed.
_PENDING: set[Path] = set()
# Errors of file systems that cannot flush a directory, or of a directory that may be written but not read.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR)
_MANY_FILES = 64


class AtomicFile:
    """File that replaces its target when it is complete.

    It has the permissions of the file that it replaces. A device or a pipe cannot be replaced, so it is written to
    directly.
    """

    def __init__(self, path: Path) -> None:
        if os.path.isdir(path):
            raise DataError(f"{path} is a folder", "Choose the path of a file")
        real = Path(os.path.realpath(path))
        # The real path of an open pipe such as /dev/stdout does not exist.
        direct = os.path.exists(path) and not os.path.isfile(real)
        self.path = path if direct else real
        self._hidden: _HiddenFolder | None = None
        self._is_empty = True
        try:
            if direct:
                self.handle: BinaryIO = path.open("wb")
                return
            _check_target(path, real)
            self._hidden = _HiddenFolder(real.parent, real.name)
            self.handle = (self._hidden.path / real.name).open("xb")
            if os.path.exists(real):
                os.chmod(self._hidden.path / real.name, stat.S_IMODE(os.stat(real).st_mode))
        except OSError as error:
            if self._hidden is not None:
                self._hidden.remove()
            raise _not_writable(path, error) from error

    def write(self, data: bytes) -> None:
        """Write and flush."""
        try:
            self.handle.write(data)
            self.handle.flush()
        except OSError as error:
            error.filename = str(self.path)  # the system reports a full disk without a path
            raise
        self._is_empty = False

    def commit(self) -> None:
        """Flush the file to disk and rename it to its path."""
        try:
            if self._hidden is not None and not self.handle.closed and not _is_pending(self.path):
                # Through the handle, because the permissions may not allow to open the file again.
                self.handle.flush()
                os.fsync(self.handle.fileno())
            self.handle.close()
        except OSError as error:
            error.filename = str(self.path)
            raise
        self._move_to(self.path)

    def abandon(self) -> Path | None:
        """Keep what was written under another name. Return it, or None if nothing was written or this is a device."""
        if self._hidden is None or self._is_empty:
            self.discard()
            return None
        kept = partial_path(self.path)
        with suppress(OSError, ValueError):  # a full disk, or a closed handle
            os.fsync(self.handle.fileno())
        self._close()
        self._move_to(kept)
        return kept

    def discard(self) -> None:
        """Remove what was written."""
        self._close()
        if self._hidden is not None:
            self._hidden.remove()

    def _close(self) -> None:
        with suppress(OSError):  # closing flushes, which fails again on a full disk
            self.handle.close()

    def _move_to(self, path: Path) -> None:
        if self._hidden is not None:
            _rename(self._hidden.path / self.path.name, path, flushed=True)
            self._hidden.remove()


class AtomicFolder:
    """Folder to fill that appears at its path when it is complete. The path must be new or an empty folder.

    An existing folder is not replaced, because it may be the working folder or a mount point. It is filled in a hidden
    folder inside, whose members are moved up at the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._exists = os.path.exists(self.path)
        parent = self.path if self._exists else self.path.parent
        try:
            if not self._exists:
                _check_target(path, self.path)
            clean_leftovers_once(str(parent))
            if self._exists and not (self.path.is_dir() and not os.listdir(self.path)):
                raise _not_empty(path)
            self._hidden = _HiddenFolder(parent, self.path.name)
        except OSError as error:
            raise _not_writable(path, error) from error
        self.folder = self._hidden.path
        _PENDING.add(self.folder)

    def commit(self) -> None:
        """Flush the folder to disk and move it, or its members, to its path."""
        _PENDING.discard(self.folder)
        if not self._exists:
            _rename(self.folder, self.path)
        elif all(name.startswith(".") for name in os.listdir(self.path)):
            for name in os.listdir(self.folder):
                _rename(self.folder / name, self.path / name)
        else:
            raise _not_empty(self.path)
        self._hidden.remove()

    def abandon(self) -> Path | None:
        """Keep what was written under another name. Return it, or None if nothing was written."""
        if not os.listdir(self.folder):
            self.discard()
            return None
        _PENDING.discard(self.folder)
        kept = partial_path(self.path)
        try:
            replace_durably(self.folder, kept)
        except OSError:
            # The parent of an existing folder may be read-only, or on another disk.
            kept = partial_path(self.folder.with_name(self.path.name))
            _rename(self.folder, kept)
        self._hidden.remove()
        return kept

    def discard(self) -> None:
        """Remove everything that was written."""
        _PENDING.discard(self.folder)
        self._hidden.remove()


@contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Yield a new path for a library that writes by name; rename the file to ``path`` if the block succeeds.

    The file is in a folder with a random name, so nobody can plant a symbolic link in its place.
    """
    hidden = _HiddenFolder(path.parent, path.name)
    try:
        yield hidden.path / path.name
        replace_durably(hidden.path / path.name, path)
    finally:
        hidden.remove()


def partial_path(path: Path) -> Path:
    """Return an unused name for an incomplete version of a file or folder, such as ``found.partial.jsonl``."""
    number = 1
    while True:
        ending = f".partial{'' if number == 1 else f'-{number}'}{path.suffix}"
        kept = path.with_name(_shorten(path.stem, _NAME_BYTES - len(os.fsencode(ending))) + ending)
        if not os.path.lexists(kept):
            return kept
        number += 1


def clean_leftovers(folder: Path) -> list[Path]:
    """Remove temporary files and folders that killed processes of this host and user left; return their paths.

    Nothing is removed on file systems without locks.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = {folder / name: match for name in names if (match := _LEFTOVER.fullmatch(name))}
    return [path for path, match in found.items() if match[1] == _host() and _remove_if_free(path)]


@lru_cache(maxsize=256)
def clean_leftovers_once(folder: str) -> None:
    """Call :func:`clean_leftovers` once per process and folder, because many files may be written to it."""
    clean_leftovers(Path(folder))


def _remove_if_free(path: Path) -> bool:
    """Remove a temporary file or folder unless its writer is alive."""
    if sys.platform == "win32":
        return False
    try:
        found = os.lstat(path)
        is_folder = stat.S_ISDIR(found.st_mode)
        if found.st_uid != os.geteuid() or not (is_folder or stat.S_ISREG(found.st_mode)):
            return False
        descriptor = os.open(path, (os.O_RDONLY if is_folder else os.O_RDWR) | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path) if is_folder else os.unlink(path)
    except OSError:  # the writer is alive, or the file system has no locks
        return False
    finally:
        os.close(descriptor)
    return True


class _HiddenFolder:
    """New, locked folder for results that are not complete."""

    def __init__(self, parent: Path, name: str) -> None:
        clean_leftovers_once(os.path.realpath(parent))
        self._descriptor: int | None = None
        while True:
            # The name has the target, the host and the process, and 16 random digits.
            unique = f"{_host()}-{os.getpid()}-{secrets.token_hex(8)}"
            self.path = parent / f".cascade-srn.{_shorten(name, _SHOWN_BYTES)}.{unique}.tmp"
            self.path.mkdir()
            if sys.platform == "win32":
                return
            with suppress(FileNotFoundError):
                descriptor = os.open(self.path, os.O_RDONLY)
                if _lock(self.path, descriptor):
                    self._descriptor = descriptor
                    return
                os.close(descriptor)

    def remove(self) -> None:
        """Remove the folder, unless it was renamed, and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(path: Path, descriptor: int) -> bool:
    """Lock a new temporary folder; return False if another process has just removed it as a leftover."""
    assert sys.platform != "win32"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # without locks, nobody removes leftovers
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _check_target(path: Path, real: Path) -> None:
    """Refuse a target that could not be replaced at the end."""
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(f"{path} cannot be written ({error.strerror})", "Choose a shorter name") from error
        raise
    if not mode & 0o222 or not os.access(real, os.W_OK):
        raise DataError(f"{path} is read-only", "Choose another path, or make it writable")


@cache
def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _shorten(name: str, n_bytes: int) -> str:
    """Cut a name to a number of bytes, between characters."""
    raw = os.fsencode(name)
    return name if len(raw) <= n_bytes else raw[:n_bytes].decode("utf-8", "ignore")


def replace_durably(source: Path, target: Path, *, flushed: bool = False) -> None:
    """Rename a file or folder so that the result survives a power failure. An existing file is replaced.

    The contents are flushed to disk before the rename, unless they are ``flushed``, and the directory entry after it.
    Members of an :class:`AtomicFolder` that is still being filled are flushed once, when the folder is committed.
    """
    pending = _is_pending(target)
    if not pending and not flushed:
        flush(source)
    os.replace(source, target)
    if not pending:
        _flush_entry(target.parent)


def flush(path: Path) -> None:
    """Flush a file, or a folder with everything in it, to disk."""
    if not path.is_dir():
        _flush_entry(path)
        return
    members = [member for member in path.rglob("*") if not member.is_symlink()]
    files = [member for member in members if member.is_file()]
    if len(files) > _MANY_FILES and hasattr(os, "sync"):
        os.sync()  # one call is faster than one for each of many files
        return
    for entry in (*files, path, *(member for member in members if member.is_dir())):
        _flush_entry(entry)


def _flush_entry(path: Path) -> None:
    """Flush a file, or the entries of a directory if the file system supports it."""
    ignored = _NO_FOLDER_SYNC if path.is_dir() else ()
    try:
        descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in ignored:
            raise


def open_without_links(path: Path, mode: str) -> BinaryIO:
    """Open a file for binary writing, but refuse a symbolic link, which could lead to a file of another user."""

    def open_file(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    try:
        return cast(BinaryIO, open(path, mode, opener=open_file))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"{path} is a symbolic link and is not written to", "Remove the link") from error
        raise


def _is_pending(path: Path) -> bool:
    """Return whether a path is in an :class:`AtomicFolder` that is still being filled."""
    return any(folder in _PENDING for folder in path.parents)


def _rename(source: Path, target: Path, *, flushed: bool = False) -> None:
    try:
        replace_durably(source, target, flushed=flushed)
    except OSError as error:
        raise DataError(f"{target} cannot be written ({error.strerror})", "Choose another name") from error


def _not_writable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written ({error.strerror})", "Check that its folder exists and is writable")


def _not_empty(path: Path) -> DataError:
    return DataError(f"{path} exists and is not an empty folder", "Choose another path, or empty the folder")
