"""Files and folders that appear at their path only when they are complete.

Until then they have a hidden name beside it, which tells the product, the target, the host and the process. A writer
holds a lock on what it writes; what a killed process left behind is recognised by its free lock, and removed by the
next writer in the same folder.
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
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO

from cascade_srn.errors import DataError

if sys.platform != "win32":
    import fcntl

_PREFIX = ".cascade-srn."
_LEFTOVER = re.compile(r"\.cascade-srn\..*\.([0-9a-f]{8})-[0-9]+-[0-9a-f]{16}\.tmp", re.DOTALL)
# Bytes of a target's name in that of its temporary file; most file systems allow 255 for all of it.
_SHOWN_BYTES = 120
_NAME_BYTES = 255


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
        """Put the file in its place."""
        try:
            self.handle.close()
        except OSError as error:
            error.filename = str(self.path)
            raise
        if not self._direct:
            _rename(self._beside, self.path)

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

    def commit(self) -> None:
        """Put the folder in its place."""
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
        kept = partial_path(self.path)
        try:
            os.replace(self.folder, kept)
        except OSError:
            # Beside a folder that is there already, nothing may be allowed, or another disk be.
            kept = partial_path(self.folder.with_name(self.path.name))
            _rename(self.folder, kept)
        self._unlock()
        return kept

    def discard(self) -> None:
        """Keep nothing."""
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


def _rename(beside: Path, path: Path) -> None:
    try:
        os.replace(beside, path)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror}); give another name") from error


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written ({error.strerror}); check that its folder exists and is writable")


def _not_empty(path: Path) -> DataError:
    return DataError(
        f"{path} exists and is not an empty folder, but a new or empty one was expected; give another path, or empty it"
    )
