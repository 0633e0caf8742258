"""Where results go: a stream that stays open, or a file or folder that appears when all of it is written."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from cascade_srn.data.formats.files import rename
from cascade_srn.errors import DataError


class Target(Protocol):
    """Takes bytes, and in the end is either committed or abandoned."""

    def write(self, data: bytes) -> None:
        """Write, so that a reader at the other end can have it at once."""

    def commit(self) -> None:
        """All is written."""

    def abandon(self) -> Path | None:
        """Not all is written: where what there is can be found, if anywhere."""


class Stream:
    """Standard output, or anything like it."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle = handle

    def write(self, data: bytes) -> None:
        """Write and flush."""
        self.handle.write(data)
        self.handle.flush()

    def commit(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> Path | None:
        """What was written is with its reader."""
        return None


class AtomicFile:
    """A file that takes its place when all of it is written; what was there before stays until then.

    Abandoned, it is kept beside that place, under a name that says that it is a part.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        if self.path.is_dir():
            raise DataError(f"{path} is a folder, but a file to write was expected; give the path of a file")
        # A device or a pipe is no file to be replaced.
        self._direct = os.path.exists(self.path) and not self.path.is_file()
        self._beside = self.path if self._direct else _beside(self.path)
        try:
            self.handle = self._beside.open("wb" if self._direct else "xb")
        except OSError as error:
            raise _unwritable(path, error) from error
        self._empty = True

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
            rename(self._beside, self.path)

    def abandon(self) -> Path | None:
        """Keep what was written under another name, or nothing where nothing was."""
        with suppress(OSError):  # what kept a write from succeeding keeps the rest of the buffer from it too
            self.handle.close()
        if self._direct:
            return None
        if self._empty:
            self._beside.unlink()
            return None
        kept = partial_path(self.path)
        rename(self._beside, kept)
        return kept


class AtomicFolder:
    """A folder to fill, new or empty so far, that takes its place when all of it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if os.path.exists(path) and not (path.is_dir() and next(path.iterdir(), None) is None):
            raise DataError(
                f"{path} exists and is not an empty folder, but a new or empty one was expected; give another path, "
                "or empty it"
            )
        self.folder = _beside(path.absolute())
        try:
            self.folder.mkdir()
        except OSError as error:
            raise _unwritable(path, error) from error

    def commit(self) -> None:
        """Put the folder in its place."""
        if os.path.exists(self.path):
            self.path.rmdir()
        rename(self.folder, self.path)

    def abandon(self) -> Path | None:
        """Keep what was written under another name, or nothing where nothing was."""
        if next(self.folder.iterdir(), None) is None:
            shutil.rmtree(self.folder)
            return None
        kept = partial_path(self.path)
        rename(self.folder, kept)
        return kept


def partial_path(path: Path) -> Path:
    """The name of a part of what was to be at a path, which no file has yet: ``found.partial.jsonl``."""
    number = 1
    while True:
        kept = path.with_name(f"{path.stem}.partial{'' if number == 1 else f'-{number}'}{path.suffix}")
        if not os.path.lexists(kept):
            return kept
        number += 1


def _beside(path: Path) -> Path:
    return path.with_name(f".{secrets.token_hex(8)}.tmp")


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} cannot be written ({error.strerror}); check that its folder exists and is writable")
