"""Lock a folder so that only one process at a time writes to it."""

import errno
import json
import os
import socket
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from cascade_srn.errors import ConfigError
from cascade_srn.storage.folders import leaving_no_folders

LOCK = ".cascade-srn.lock"
"""Name of the lock file. It is hidden and not part of the folder's contents."""

# Long enough to retry if the previous holder removes its lock file at this moment.
_TIMEOUT, _POLL_INTERVAL = 0.1, 0.02
# Errors of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_NO_WAITING, _NO_LINKS = getattr(os, "O_NONBLOCK", 0), getattr(os, "O_NOFOLLOW", 0)


class FolderLock:
    """Lock on a folder, held until it is released, garbage-collected, or the process ends.

    A missing folder is created, and removed on release if it is still empty. The same process may lock a folder
    several times, also from several threads; the folder is free once all of these locks are released. File systems
    without locks are not protected.
    """

    def __init__(self, folder: str | Path) -> None:
        path = os.path.realpath(folder)
        _acquire(path, shown=str(folder))
        self._finalizer = weakref.finalize(self, _release, path)

    def release(self) -> None:
        """Release the lock. Further calls have no effect."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()


def lock_holder(folder: str | Path) -> str | None:
    """Return the process that holds the lock on a folder, such as "pid 71 on host-3, since …", or None if it is free.

    A lock file of a killed process is not a lock. If the file system has no locks, the lock file decides.
    """
    path = Path(folder) / LOCK
    try:
        if not _is_plain(os.lstat(path)):
            return None
        FileLock(path, thread_local=False).acquire(timeout=0).lock.release()
    except FileNotFoundError:
        return None
    except (Timeout, OSError):
        return _read_holder(path).strip(" ()") or "an unknown process"
    return None


@dataclass
class _LockedFolder:
    cleanup: ExitStack
    count: int = 0


_locked: dict[str, _LockedFolder] = {}
# Reentrant, because garbage collection can release one lock while the same thread acquires another.
_mutex = threading.RLock()


def _acquire(folder: str, *, shown: str) -> None:
    with _mutex:
        if folder not in _locked:
            with ExitStack() as cleanup:
                cleanup.enter_context(leaving_no_folders(Path(folder)))
                os.makedirs(folder, exist_ok=True)
                cleanup.enter_context(_hold_lock_file(Path(folder) / LOCK, shown))
                _locked[folder] = _LockedFolder(cleanup.pop_all())
        _locked[folder].count += 1


def _release(folder: str) -> None:
    with _mutex:
        locked = _locked[folder]
        locked.count -= 1
        if not locked.count:
            del _locked[folder]
            locked.cleanup.close()


@contextmanager
def _hold_lock_file(path: Path, shown: str) -> Iterator[None]:
    """Hold the lock file and remove it at the end. After a kill the file remains, and the next process locks it."""
    if os.path.lexists(path) and not _is_plain(os.lstat(path)):
        raise _not_a_lock_file(path)
    # Writable for all, so that another user can lock the file that a killed process left.
    lock, process = FileLock(path, mode=0o666, thread_local=False), os.getpid()
    try:
        lock.acquire(timeout=_TIMEOUT, poll_interval=_POLL_INTERVAL)
    except Timeout as error:
        raise ConfigError(
            f"another process{_read_holder(path)} is writing into {shown!r}",
            "Wait until it has ended, or choose another folder",
        ) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_a_lock_file(path) from error
        if isinstance(error, PermissionError) and os.path.lexists(path):
            raise ConfigError(
                f"the lock file {str(path)!r} belongs to another user", "Remove it if no process writes into the folder"
            ) from error
        if error.errno not in _NO_LOCKS:
            raise
        path.unlink(missing_ok=True)
        yield
        return
    try:
        own = _write_holder(path)
        yield
    finally:
        # A forked child must not release the lock of its parent.
        if process == os.getpid():
            # Remove the file before the release: a process that has opened it sees that it is gone, and tries again.
            with suppress(OSError):
                if own is not None and os.path.samestat(os.lstat(path), own):
                    path.unlink()
            lock.release()


def _is_plain(found: os.stat_result) -> bool:
    """Return whether this is a regular file with one name. A hard link could lead to a file of another user."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _not_a_lock_file(path: Path) -> ConfigError:
    return ConfigError(
        f"the lock file {str(path)!r} is a link or not a regular file", "Remove it, or choose another folder"
    )


def _write_holder(path: Path) -> os.stat_result | None:
    """Write the process that holds the lock into the lock file, for the message that others get; return its status."""
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    try:
        descriptor = os.open(path, os.O_WRONLY | _NO_WAITING | _NO_LINKS)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not _is_plain(found):
            return None
        with suppress(OSError):
            os.truncate(descriptor, 0)
            os.write(descriptor, json.dumps(holder).encode() + b"\n")
        return found
    finally:
        os.close(descriptor)


def _read_holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f" (pid {holder['pid']} on {holder['host']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""  # not written yet
