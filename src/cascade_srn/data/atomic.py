"""Files and folders that take their place when all of them is written, so that no half is ever met there."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from cascade_srn.errors import DataError


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
        """Put the file in its place."""
        self.handle.close()
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

    def commit(self) -> None:
        """Put the folder in its place."""
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
        kept = partial_path(self.path)
        try:
            os.replace(self.folder, kept)
        except OSError:
            # Beside a folder that is there already, nothing may be allowed, or another disk be.
            kept = partial_path(self.folder.with_name(self.path.name))
            _rename(self.folder, kept)
        return kept

    def discard(self) -> None:
        """Keep nothing."""
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
