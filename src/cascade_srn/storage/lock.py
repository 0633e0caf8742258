"""Lock a folder so that only one process at a time writes to it."""

import errno
import json
import os
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from cascade_srn.errors import ConfigError
from cascade_srn.storage.atomic import leaving_no_folders

LOCK = ".cascade-srn.lock"
"""Name of the lock file. It is hidden and not part of the folder's contents."""

# Long enough to retry if the previous holder removes its lock file at this moment.
_TIMEOUT, _POLL_INTERVAL = 0.1, 0.02
# Errors of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)
# Reentrant, because garbage collection can release one lock while the same thread acquires another.
_mutex = threading.RLock()


class FolderLock:
    """Lock on a folder, held until it is released, garbage-collected, or the process ends.

    A missing folder is created, and removed on release if it is still empty. The same process may lock a folder
    several times, also from several threads; the folder is free once all of these locks are released. File systems
    without locks are not protected.
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(os.path.realpath(folder))
        with ExitStack() as cleanup, _mutex:
            cleanup.enter_context(leaving_no_folders(path))
            path.mkdir(parents=True, exist_ok=True)
            cleanup.enter_context(_hold(path / LOCK, str(folder)))
            self._finalizer = weakref.finalize(self, _release, cleanup.pop_all())

    def release(self) -> None:
        """Release the lock. Further calls have no effect."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()


def _release(cleanup: ExitStack) -> None:
    with _mutex:
        cleanup.close()


def lock_holder(folder: str | Path) -> str | None:
    """Return the process that holds the lock on a folder, such as "pid 71 on host-3, since …", or None if it is free.

    A lock file of a killed process is not a lock. If the file system has no locks, the lock file decides.
    """
    path = Path(folder) / LOCK
    if not path.is_file():
        return None
    try:
        FileLock(path, thread_local=False).acquire(timeout=0).lock.release()
    except (Timeout, OSError):
        return _read_holder(path) or "an unknown process"
    return None


@contextmanager
def _hold(path: Path, shown: str) -> Iterator[None]:
    """Hold the lock file and remove it at the end. After a kill the file remains, and the next process locks it."""
    # Writable for all, so that another user can lock the file that a killed process left.
    lock, process = FileLock(path, mode=0o666, thread_local=False, is_singleton=True), os.getpid()
    try:
        lock.acquire(timeout=_TIMEOUT, poll_interval=_POLL_INTERVAL)
    except Timeout as error:
        holder = _read_holder(path)
        raise ConfigError(
            f"another process{f' ({holder})' if holder else ''} is writing into {shown!r}",
            "Wait until it has ended, or choose another folder",
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        path.unlink(missing_ok=True)
        yield
        return
    if lock.lock_counter == 1:
        since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        holder = json.dumps({"pid": process, "host": socket.gethostname(), "since": since})
        with suppress(OSError):  # on a full disk the lock has no name, and holds all the same
            path.write_text(holder, encoding="utf-8")
    try:
        yield
    finally:
        # A forked child must not release the lock of its parent.
        if process == os.getpid():
            # Remove the file before the release: a process that has opened it sees that it is gone, and tries again.
            if lock.lock_counter == 1:
                path.unlink(missing_ok=True)
            lock.release()


def _read_holder(path: Path) -> str:
    """Return the process that the lock file names; empty if it is not written yet."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"pid {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
