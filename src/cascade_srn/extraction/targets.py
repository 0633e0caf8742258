"""Where results go: a stream that stays open, or a file or folder that appears when all of it is written."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol

from cascade_srn.data.atomic import AtomicFile, AtomicFolder

__all__ = ["AtomicFile", "AtomicFolder", "Stream", "Target"]


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
        try:
            self.handle.write(data)
            self.handle.flush()
        except OSError as error:
            error.filename = "standard output"  # such as a full disk, which is told without a path
            raise

    def commit(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> Path | None:
        """What was written is with its reader."""
        return None
