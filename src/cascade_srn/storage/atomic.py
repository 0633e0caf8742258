"""Write files and folders atomically and durably: they appear at their path complete, or not at all.

Until then they have a hidden name beside it, which tells the product, the target, the host and the process. A writer
holds a lock on what it writes; what a killed process left behind is recognised by its free lock, and removed by the
next writer in the same folder.

:func:`replace_durably` is the one place of the package that renames a result. It flushes the contents to disk before
the rename and the directory entry after it, so that a power failure leaves the old result or the new one.
"""

from __future__ import annotations

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

_PREFIX = ".cascade-srn."
_LEFTOVER = re.compile(r"\.cascade-srn\..*\.([0-9a-f]{8})-[0-9]+-[0-9a-f]{16}\.tmp", re.DOTALL)
# Bytes of a target's name in that of its temporary file; most file systems allow 255 for all of it.
_SHOWN_BYTES = 120
_NAME_BYTES = 255
# Folders that are being filled: their members are flushed when the folder is committed.
_PENDING: set[Path] = set()
# Errors of file systems that cannot flush a directory, or of a directory that may be written but not read.
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.EISDIR)
_MANY_FILES = 64


class AtomicFile:
    """A file that replaces its target when it is complete; what was there before stays until then.

    It has the permissions of the file that it replaces. If abandoned, it is kept beside the target under a name that
    says that it is partial. A device or a pipe cannot be replaced, and is written to directly.

    Raises:
        DataError: the target is a folder, is read-only, has a name that is too long, or its folder is not writable.
    """

    def __init__(self, path: Path) -> None:
        real = Path(os.path.realpath(path))
        if os.path.isdir(path):
            raise DataError(f"{path} is a folder, but a file to write was expected; give the path of a file")
        # The real path of an open pipe, such as /dev/stdout can be, is a path that does not exist.
        self._direct = os.path.exists(path) and not os.path.isfile(real)
        self.path = path if self._direct else real
        try:
            if self._direct:
                self._beside = path
                self.handle: BinaryIO = path.open("wb")
            else:
                _check_target(path, real)
                clean_leftovers_once(str(real.parent))
                self._beside, self.handle = _new_file(real)
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
            error.filename = str(self.path)  # a full disk is reported without a path
            raise
        self._empty = False

    def commit(self) -> None:
        """Flush the file to disk and rename it to its path."""
        with _lock_kept(self.handle):
            try:
                if not (self._direct or self.handle.closed or _is_pending(self.path)):
                    # Through the handle: the permissions that the file has taken over may not let it be opened again.
                    self.handle.flush()
                    os.fsync(self.handle.fileno())
                self.handle.close()
            except OSError as error:
                error.filename = str(self.path)
                raise
            if not self._direct:
                _rename(self._beside, self.path, flushed=True)

    def abandon(self) -> Path | None:
        """Keep what was written under another name, or nothing where nothing was."""
        if self._direct or self._empty:
            self.discard()
            return None
        kept = partial_path(self.path)
        with _lock_kept(self.handle):
            if not self.handle.closed:
                with suppress(OSError):  # a full disk must not keep what was written from its name
                    os.fsync(self.handle.fileno())
            self._close()
            _rename(self._beside, kept, flushed=True)
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
    """A folder to fill, new or empty so far, that appears at its path when it is complete.

    A folder that exists stays the same folder, since the working folder or a mount point cannot be replaced: it is
    filled in a hidden folder inside, whose files move up in the end.

    Raises:
        DataError: the path is a file or a folder with something in it, has a name that is too long, or is not writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._there = os.path.exists(self.path)
        parent = self.path if self._there else self.path.parent
        try:
            if not self._there:
                _check_target(path, self.path)
            clean_leftovers_once(str(parent))
            if self._there and not (self.path.is_dir() and not os.listdir(self.path)):
                raise _not_empty(path)
            self.folder, self._lock = _new_folder(parent, self.path.name)
        except OSError as error:
            raise _unwritable(path, error) from error
        _PENDING.add(self.folder)

    def commit(self) -> None:
        """Flush the folder to disk and move it, or its members, to its path."""
        _PENDING.discard(self.folder)
        if not self._there:
            _rename(self.folder, self.path)
        else:
            if not all(name.startswith(".") for name in os.listdir(self.path)):
                raise _not_empty(self.path)
            for name in os.listdir(self.folder):
                _rename(self.folder / name, self.path / name)
            self.folder.rmdir()
        self._unlock()

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
        self._unlock()
        return kept

    def discard(self) -> None:
        """Remove everything that was written."""
        _PENDING.discard(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def partial_path(path: Path) -> Path:
    """Return a name for a part of what was to be at a path, which no file has yet: ``found.partial.jsonl``."""
    number = 1
    while True:
        ending = f".partial{'' if number == 1 else f'-{number}'}{path.suffix}"
        kept = path.with_name(_shortened(path.stem, _NAME_BYTES - len(os.fsencode(ending))) + ending)
        if not os.path.lexists(kept):
            return kept
        number += 1


def clean_leftovers(folder: Path) -> list[Path]:
    """Remove what killed processes of this host left in a folder, and return it.

    Only files and folders with the name of a temporary one of this package are touched, if they belong to this user
    and no process holds their lock. Where the file system has no locks, nothing is removed.
    """
    if sys.platform == "win32":
        return []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    removed = []
    for name in names:
        match = _LEFTOVER.fullmatch(name)
        if match is not None and match[1] == _host() and _remove_if_free(folder / name):
            removed.append(folder / name)
    return removed


@lru_cache(maxsize=256)
def clean_leftovers_once(folder: str) -> None:
    """Clean a folder as :func:`clean_leftovers` does, once in a process, since many files may be written to it."""
    clean_leftovers(Path(folder))


def _remove_if_free(path: Path) -> bool:
    """Remove a temporary file or folder unless its writer is alive."""
    assert sys.platform != "win32"
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
        if is_folder:
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError:  # its writer is alive, or the file system has no locks
        return False
    finally:
        os.close(descriptor)
    return True


def _new_file(target: Path) -> tuple[Path, BinaryIO]:
    """Create and lock a temporary file beside a target."""
    while True:
        path = _hidden(target.parent, target.name)
        handle = path.open("xb")
        if _lock(path, handle.fileno()):
            return path, handle
        handle.close()


def _new_folder(parent: Path, name: str) -> tuple[Path, int | None]:
    """Create and lock a temporary folder; the second value is the descriptor that holds the lock."""
    while True:
        path = _hidden(parent, name)
        path.mkdir()
        if sys.platform == "win32":
            return path, None
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # another process cleaned it before it was locked
        if _lock(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def _lock(path: Path, descriptor: int) -> bool:
    """Lock a new temporary file; False if another process that cleans the folder was faster."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # without locks nobody cleans, either
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _lock_kept(handle: BinaryIO) -> Iterator[None]:
    """Keep the lock of a temporary file while its handle is closed and the file is renamed.

    Without the lock, a process that cleans the folder could remove the file between the two.
    """
    if handle.closed or sys.platform == "win32":
        yield
        return
    descriptor = os.dup(handle.fileno())  # shares the lock
    try:
        yield
    finally:
        os.close(descriptor)


def _check_target(path: Path, real: Path) -> None:
    """Refuse a target that could not be replaced in the end: a read-only file, or a name that is too long."""
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(f"{path} cannot be written ({error.strerror}); give a shorter name") from error
        raise
    if not mode & 0o222 or not os.access(real, os.W_OK):
        raise DataError(f"{path} is read-only; give another path, or make it writable")


def _hidden(folder: Path, name: str) -> Path:
    """Return the path of a temporary file: product, target, host, process, and something to tell two apart."""
    shown = _shortened(name, _SHOWN_BYTES)
    return folder / f"{_PREFIX}{shown}.{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp"


@cache
def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _shortened(name: str, n_bytes: int) -> str:
    """Return the beginning of a name that has no more bytes than that, and no half character."""
    raw = os.fsencode(name)
    return name if len(raw) <= n_bytes else raw[:n_bytes].decode("utf-8", "ignore")


@contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Yield a new path for a library that writes by name; rename the file to ``path`` if the block succeeds.

    The file is in a temporary folder with a random name, so that a symbolic link cannot be planted in its place. The
    folder is what is locked, since some libraries write a file of their own and rename it.
    """
    clean_leftovers_once(os.path.realpath(path.parent))
    folder, lock = _new_folder(path.parent, path.name)
    try:
        yield folder / path.name
        replace_durably(folder / path.name, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


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
