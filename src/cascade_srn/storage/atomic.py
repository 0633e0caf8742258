"""Write files and folders atomically and durably: they appear at their path complete, or not at all.

Results are written into a hidden folder beside the target and renamed at the end. The name of a hidden folder has the
process that writes. If that was killed, the next writer removes the folder. :func:`replace_durably` is the only
function of the package that renames a result.
"""

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO, cast

from cascade_srn.errors import DataError, ModelError

_HIDDEN = re.compile(r"\.cascade-srn\..*\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{16}\.tmp", re.DOTALL)
# Most file systems allow names of 255 bytes. A temporary name has at most 120 bytes of its target's name.
_NAME_BYTES, _SHOWN_BYTES = 255, 120
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
        self._hidden: Path | None = None
        self._is_empty = True
        try:
            if direct:
                self.handle: BinaryIO = path.open("wb")
                return
            _check_target(path, real)
            self._hidden = _hidden_folder(real.parent, real.name)
            self.handle = (self._hidden / real.name).open("xb")
            if os.path.exists(real):
                os.chmod(self._hidden / real.name, stat.S_IMODE(os.stat(real).st_mode))
        except OSError as error:
            if self._hidden is not None:
                _remove(self._hidden)
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
            if self._hidden is not None and not self.handle.closed and not _is_hidden(self.path):
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
            _remove(self._hidden)

    def _close(self) -> None:
        with suppress(OSError):  # closing flushes, which fails again on a full disk
            self.handle.close()

    def _move_to(self, path: Path) -> None:
        if self._hidden is not None:
            _rename(self._hidden / self.path.name, path, flushed=True)
            _remove(self._hidden)


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
            _clean_once(str(parent))
            if self._exists and not (self.path.is_dir() and not os.listdir(self.path)):
                raise _not_empty(path)
            self.folder = _hidden_folder(parent, self.path.name)
        except OSError as error:
            raise _not_writable(path, error) from error

    def commit(self) -> None:
        """Flush the folder to disk and move it, or its members, to its path."""
        if not self._exists:
            _rename(self.folder, self.path)
        elif all(name.startswith(".") for name in os.listdir(self.path)):
            for name in os.listdir(self.folder):
                _rename(self.folder / name, self.path / name)
        else:
            raise _not_empty(self.path)
        _remove(self.folder)

    def abandon(self) -> Path | None:
        """Keep what was written under another name. Return it, or None if nothing was written."""
        if not os.listdir(self.folder):
            self.discard()
            return None
        kept = partial_path(self.path)
        try:
            replace_durably(self.folder, kept)
        except OSError:
            # The parent of an existing folder may be read-only, or on another disk.
            kept = partial_path(self.folder.with_name(self.path.name))
            _rename(self.folder, kept)
        return kept

    def discard(self) -> None:
        """Remove everything that was written."""
        _remove(self.folder)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to, which replaces ``path`` if the block succeeds, and is removed otherwise."""
    file = AtomicFile(path)
    try:
        yield file.handle
        file.commit()
    except BaseException as error:
        file.discard()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename = error.filename or str(path)  # the system reports a full disk without a path
        raise


@contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Yield a new path for a library that writes by name; rename the file to ``path`` if the block succeeds.

    The file is in a folder with a random name, so nobody can plant a symbolic link in its place.
    """
    hidden = _hidden_folder(path.parent, path.name)
    try:
        yield hidden / path.name
        replace_durably(hidden / path.name, path)
    finally:
        _remove(hidden)


@contextmanager
def replacing_folder(folder: str | Path, *, marker: str, key: str | None = None) -> Iterator[Path]:
    """Yield a new folder to fill, which replaces ``folder`` if the block succeeds.

    The folder must be missing, empty, or contain the file ``marker``, a JSON object with the ``key``, so that a
    mistyped path does not destroy other data.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise ModelError(f"{str(target)!r} is a file", "Choose a folder to save to")
    if target.is_dir() and any(target.iterdir()) and not _is_marked(target / marker, key):
        raise ModelError(f"{str(target)!r} contains other files", "Choose a new or empty folder to save to")
    # Replace the folder that a link leads to: a folder cannot be renamed to a link.
    target = Path(os.path.realpath(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = _hidden_folder(target.parent, target.name)
    except OSError as error:
        raise ModelError(f"{str(target)!r} cannot be written ({error.strerror})", "Choose another folder") from error
    try:
        yield fresh
        for written in fresh.iterdir():
            # Some libraries write files that only their owner can read, regardless of the umask.
            if written.is_file() and not written.is_symlink():
                written.chmod(0o666 & fresh.stat().st_mode)
        _replace_folder(fresh, target)
    finally:
        _remove(fresh)


def _replace_folder(fresh: Path, target: Path) -> None:
    """Rename a folder to ``target`` and remove the folder that was there; on failure, restore the old one."""
    # Flush before the old folder moves, so that its path is empty only briefly.
    flush(fresh)
    if not target.is_dir():
        return replace_durably(fresh, target, flushed=True)
    if _exchange(fresh, target):
        # The old folder has the hidden name now. Its caller removes it, or the next writer does after a kill.
        return flush_entry(target.parent)
    # Not a hidden folder of this module, which the next writer would remove after a kill.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        os.replace(target, old)
        replace_durably(fresh, target, flushed=True)
    except BaseException as error:
        if target.exists():
            with suppress(OSError):
                old.rmdir()  # the rename to it failed, so it is empty
            raise
        try:
            replace_durably(old, target)
        except OSError:
            reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            raise ModelError(
                f"{str(target)!r} could not be replaced ({reason}), and its previous content is in {str(old)!r}",
                f"Rename that folder to {target.name!r}",
            ) from error
        raise
    shutil.rmtree(old)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step, so that neither path is ever empty. Return False where it is not possible."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, 2) == 0)
        return bool(library.renameat2(-100, names[0], -100, names[1], 2) == 0)  # AT_FDCWD, RENAME_EXCHANGE
    except (AttributeError, OSError, TypeError):
        return False


def _is_marked(marker: Path, key: str | None) -> bool:
    if key is None or not marker.is_file():
        return marker.is_file()
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and key in found


def try_writing(folder: Path) -> None:
    """Raise the OSError that writing to a folder, which may not exist yet, would raise. Leave nothing behind."""
    with leaving_no_folders(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp"):
            pass


@contextmanager
def leaving_no_folders(folder: Path) -> Iterator[None]:
    """After the block, remove the folder and its parents if they are empty and did not exist before."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        for path in new:
            with suppress(OSError):
                path.rmdir()


def partial_path(path: Path) -> Path:
    """Return an unused name for an incomplete version of a file or folder, such as ``found.partial.jsonl``."""
    number = 1
    while True:
        ending = f".partial{'' if number == 1 else f'-{number}'}{path.suffix}"
        kept = path.with_name(_shorten(path.stem, _NAME_BYTES - len(os.fsencode(ending))) + ending)
        if not os.path.lexists(kept):
            return kept
        number += 1


def clean_leftovers(folder: Path) -> None:
    """Remove the hidden folders that killed processes of this host left."""
    for path in folder.glob(".cascade-srn.*.tmp") if os.name == "posix" else ():
        found = _HIDDEN.fullmatch(path.name)
        if found and found[1] == _host() and not _is_running(int(found[2])):
            _remove(path)


@lru_cache(maxsize=256)
def _clean_once(folder: str) -> None:
    """Call :func:`clean_leftovers` once per process and folder, because many files may be written to it."""
    clean_leftovers(Path(folder))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to another user
    return True


def _hidden_folder(parent: Path, name: str) -> Path:
    """Make a new folder for results that are not complete. Its name has the target, the host and the process."""
    _clean_once(os.path.realpath(parent))
    unique = f"{_host()}-{os.getpid()}-{secrets.token_hex(8)}"
    path = parent / f".cascade-srn.{_shorten(name, _SHOWN_BYTES)}.{unique}.tmp"
    path.mkdir()
    return path


def _is_hidden(path: Path) -> bool:
    """Return whether a path is in a hidden folder, whose members are flushed when it is renamed."""
    return any(_HIDDEN.fullmatch(name) for name in path.parent.parts)


def _remove(folder: Path) -> None:
    """Remove a hidden folder, unless it was renamed."""
    shutil.rmtree(folder, ignore_errors=True)


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
    """Return a short name of the machine, or of the container: numbers of processes are unique in it."""
    space = os.readlink("/proc/self/ns/pid") if sys.platform == "linux" else ""
    return hashlib.sha256(f"{socket.gethostname()}{space}".encode()).hexdigest()[:8]


def _shorten(name: str, n_bytes: int) -> str:
    """Cut a name to a number of bytes, between characters."""
    raw = os.fsencode(name)
    return name if len(raw) <= n_bytes else raw[:n_bytes].decode("utf-8", "ignore")


def replace_durably(source: Path, target: Path, *, flushed: bool = False) -> None:
    """Rename a file or folder so that the result survives a power failure. An existing file is replaced.

    The contents are flushed to disk before the rename, unless they are ``flushed``, and the directory entry after it.
    Members of a hidden folder are flushed once, when the folder is renamed.
    """
    is_hidden = _is_hidden(target)
    if not is_hidden and not flushed:
        flush(source)
    os.replace(source, target)
    if not is_hidden:
        flush_entry(target.parent)


def flush(path: Path) -> None:
    """Flush a file, or a folder with everything in it, to disk."""
    if not path.is_dir():
        flush_entry(path)
        return
    members = [member for member in path.rglob("*") if not member.is_symlink()]
    files = [member for member in members if member.is_file()]
    if len(files) > _MANY_FILES and hasattr(os, "sync"):
        os.sync()  # one call is faster than one for each of many files
        return
    for entry in (*files, path, *(member for member in members if member.is_dir())):
        flush_entry(entry)


def flush_entry(path: Path) -> None:
    """Flush a file, or the entries of a directory if the file system supports it."""
    with suppress(*((OSError,) if path.is_dir() else ())):
        descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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


def _rename(source: Path, target: Path, *, flushed: bool = False) -> None:
    try:
        replace_durably(source, target, flushed=flushed)
    except OSError as error:
        raise DataError(f"{target} cannot be written ({error.strerror})", "Choose another name") from error


def _not_writable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written ({error.strerror})", "Check that its folder exists and is writable")


def _not_empty(path: Path) -> DataError:
    return DataError(f"{path} exists and is not an empty folder", "Choose another path, or empty the folder")
