"""Where documents are written to, and the base class of writers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from cascade_srn.storage.atomic import AtomicFile, AtomicFolder
from cascade_srn.types import Document

NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


class StreamTarget:
    """Standard output or another open stream, with the interface of :class:`AtomicFile`."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle = handle

    def write(self, data: bytes) -> None:
        """Write and flush."""
        try:
            self.handle.write(data)
            self.handle.flush()
        except OSError as error:
            error.filename = "standard output"  # an error such as a full disk has no path
            raise

    def commit(self) -> None:
        """Do nothing: a stream has no pending output."""

    def abandon(self) -> Path | None:
        """Return None: the reader has the output."""
        return None


Target = StreamTarget | AtomicFile


class Writer(ABC):
    """Writer of documents to a target, which is finished or abandoned at the end."""

    target: Target | AtomicFolder

    @abstractmethod
    def write(self, document: Document, fields: Mapping[str, Any] = NO_FIELDS) -> None:
        """Write a document, immediately if the format allows, with fields that are carried along."""

    def finish(self) -> None:
        """Complete the output after the last document."""
        self.target.commit()

    def abandon(self) -> Path | None:
        """Keep the documents so far, and return their path, or None if there are none."""
        return self.target.abandon()
