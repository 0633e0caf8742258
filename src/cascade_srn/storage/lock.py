"""A folder that one process at a time writes into, by a lock that the system takes back however the process ends."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from cascade_srn.errors import ConfigError
from cascade_srn.storage.folders import leaving_no_folders

if sys.platform != "win32":
    import fcntl

# Hidden, and no part of what is written into the folder: whoever looks through one passes it over.
LOCK = ".cascade-srn.lock"


class FolderLock:
    """Keeps other processes from writing into a folder, until it is released or the process ends, were it by a kill.

    A folder that is not there is made, and goes again if nothing was written into it. One process may lock a folder
    several times over, as a distillation does with the run that it ends in, also from several threads; it is free when
    all of them are released.
    Where the file system has no such locks, and on Windows, nobody is kept out.
    """

    def __init__(self, folder: str | Path) -> None:
        place = os.path.realpath(folder)
        _hold(place, shown=str(folder))
        # What is forgotten is released as well, so that a run that was refused or given up can be begun anew.
        self._finalizer = weakref.finalize(self, _let_go, place)

    def release(self) -> None:
        """Let others write into the folder; a second time nothing happens."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.release()


@dataclass
class _Held:
    """A folder that this process has locked: how to undo that, and how often it is held."""

    undo: ExitStack
    count: int = 0


_held: dict[str, _Held] = {}
# Threads change it one after the other, lest one be kept out by the lock of another. One that has its turn may forget a
# lock meanwhile, and so let go of it.
_turn = threading.RLock()


def _hold(place: str, *, shown: str) -> None:
    with _turn:
        if place not in _held:
            with ExitStack() as undo:
                undo.enter_context(leaving_no_folders(Path(place)))
                os.makedirs(place, exist_ok=True)
                undo.enter_context(_locked(Path(place) / LOCK, shown))
                _held[place] = _Held(undo.pop_all())
        _held[place].count += 1


def _let_go(place: str) -> None:
    with _turn:
        held = _held[place]
        held.count -= 1
        if not held.count:
            del _held[place]
            held.undo.close()


@contextmanager
def _locked(path: Path, shown: str) -> Iterator[None]:
    """Hold the lock on a file, which is removed in the end; after a kill it stays, and is locked anew."""
    descriptor, process = _acquired(path, shown), os.getpid()
    try:
        yield
    finally:
        if descriptor is not None:
            # Removed while it is held: whoever opened it meanwhile sees that it is not at its place any more. A process
            # that was forked from the one that locked has no say in it.
            if process == os.getpid() and _is_at(path, descriptor):
                with suppress(OSError):
                    path.unlink()
            os.close(descriptor)


def _acquired(path: Path, shown: str) -> int | None:
    """The descriptor by which the lock is held; None where there are no locks."""
    if sys.platform == "win32":
        return None
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ConfigError(
                f"another process{_holder(path)} is writing into {shown!r}; wait until it has ended, or give another "
                "folder to write to"
            ) from error
        except OSError:
            # Some network file systems know no locks, and those who use them have to take care themselves.
            os.close(descriptor)
            path.unlink(missing_ok=True)
            return None
        if _is_at(path, descriptor):
            _sign(descriptor)
            return descriptor
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Open the lock file without following links, since locking writes into it.

    Raises:
        ConfigError: if the path is a symbolic link, a hard link to another file, or no regular file.
    """
    never_wait_or_follow = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | never_wait_or_follow, 0o666)
        except PermissionError:
            # A file of another user can be locked without being writable.
            if not os.path.lexists(path):
                raise
            descriptor = os.open(path, os.O_RDONLY | never_wait_or_follow)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_lock_file(path) from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise _no_lock_file(path)
    return descriptor


def _no_lock_file(path: Path) -> ConfigError:
    return ConfigError(f"the lock file {str(path)!r} is a link or no regular file. Remove it, or give another folder.")


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file that was opened is still the one at the path."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    """Say in the file who holds it. A help for readers, no more: what keeps others out is the lock."""
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    told = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    with suppress(OSError):
        os.truncate(descriptor, 0)
        os.write(descriptor, json.dumps(told).encode() + b"\n")


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return f" (pid {told['pid']} on {told['host']}, since {told['since']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""  # not yet said
