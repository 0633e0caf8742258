"""Durable storage of annotations: an append-only log and a snapshot that replaces it when it grows.

A change is on disk before :meth:`ChangeLog.append` returns. A killed process leaves at most one incomplete line at the
end of the log, whose change was never acknowledged.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.storage.atomic import open_without_links

logger = logging.getLogger("cascade_srn.apps.annotation")

LOG, SNAPSHOT = "changes.jsonl", "annotations.jsonl"
# Size of the log in bytes from which it is compacted.
MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """A saved state of an annotation.

    Attributes:
        number: Position in the history of the project, from 1.
        document: Id of the document.
        annotator: Name of the annotator.
        version: Number of the state of this document and annotator, from 1.
        time: When it was saved, in UTC.
        annotation: The complete annotation, as plain values.
        by: Who adjudicated, if the annotation is the agreed one.
    """

    number: int
    document: str
    annotator: str
    version: int
    time: str
    annotation: dict[str, Any]
    by: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Document and annotator."""
        return self.document, self.annotator


class AppendOnlyFile:
    """File that is only appended to, one whole line after the other.

    Args:
        path: The file; a missing one is created.
        size: Size of its complete lines in bytes. What follows them is removed.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        is_new = not path.exists()
        # Without a buffer of Python: it would write the rest of a failed line later.
        self._handle = open_without_links(path, "ab")
        self._descriptor: int | None = self._handle.fileno()
        if os.fstat(self._descriptor).st_size > size:
            logger.warning("an incomplete line at the end of %s is removed", path.name)
            self._cut(size)
        if is_new:
            flush_entry(path.parent)

    def append(self, data: bytes) -> None:
        """Append lines and flush them to disk. If that fails, the file is cut to its previous size.

        Raises:
            OSError: They could not be written.
            DataError: The file is closed, because an earlier failure could not be undone.
        """
        if self._descriptor is None:
            raise DataError(f"{self.path} could not be written before", "Open the project again")
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            error.filename = str(self.path)
            try:
                self._cut(self.size)
            except OSError:
                self.close()
            raise
        self.size += len(data)

    def clear(self) -> None:
        """Remove all lines."""
        self._cut(0)
        self.size = 0

    def _cut(self, size: int) -> None:
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file. Further lines are refused."""
        self._descriptor = None
        self._handle.close()


def flush_entry(folder: Path) -> None:
    """Flush the entries of a folder, so that a new file survives a power failure."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class ChangeLog:
    """The last change of each document and annotator, in memory and on disk.

    ``last`` has the changes by document and annotator, ``of_document`` those of each document by annotator.

    Args:
        folder: Folder of the project.
        read_only: Only read. Otherwise an incomplete last line is removed, and the log is compacted. Then the caller
            must hold the lock of the folder.
        max_bytes: Size of the log from which it is compacted.

    Raises:
        DataError: A line other than the last one of the log is damaged.
    """

    def __init__(self, folder: Path, *, read_only: bool = False, max_bytes: int | None = None) -> None:
        self.snapshot = folder / SNAPSHOT
        self.max_bytes = MAX_BYTES if max_bytes is None else max_bytes
        self.last: dict[tuple[str, str], Change] = {}
        self.of_document: dict[str, dict[str, Change]] = {}
        self.number = 0
        self._file: AppendOnlyFile | None = None
        # The log first: if another process compacts it now, the snapshot that is read then has all of its changes.
        changes, size = read_lines(folder / LOG, torn=True)
        for record in [*read_lines(self.snapshot)[0], *changes]:
            self._apply(_read_change(record, folder))
        if not read_only:
            self._file = AppendOnlyFile(folder / LOG, size)
            if size:
                self._compact_if_possible()

    def _apply(self, change: Change) -> None:
        known = self.last.get(change.key)
        if known is None or known.version < change.version:
            self.last[change.key] = change
            self.of_document.setdefault(change.document, {})[change.annotator] = change
        self.number = max(self.number, change.number)

    def append(self, *changes: Change) -> None:
        """Write changes to disk. When this returns, they survive a kill of the process and a power failure.

        Raises:
            OSError: They could not be written, and nothing has changed.
        """
        if self._file is None:
            raise DataError("the project is opened for reading only", "Open it for writing")
        self._file.append("".join(f"{to_json(asdict(change))}\n" for change in changes).encode())
        for change in changes:
            self._apply(change)
        # The size doubles between compactions of a large project, so that their cost stays in proportion.
        if self._file.size > max(self.max_bytes, self._snapshot_size()):
            self._compact_if_possible()

    def _compact_if_possible(self) -> None:
        """Compact the log, or keep it as it is if the disk is full: all changes are in it, and the next one tries."""
        try:
            self.compact()
        except OSError as error:
            logger.warning("%s could not be written (%s)", self.snapshot, error.strerror)

    def _snapshot_size(self) -> int:
        return self.snapshot.stat().st_size if self.snapshot.exists() else 0

    def compact(self) -> None:
        """Write the last change of each document and annotator to the snapshot, and empty the log."""
        assert self._file is not None
        with replacing(self.snapshot) as handle:
            for change in self.last.values():
                handle.write(f"{to_json(asdict(change))}\n".encode())
        # A kill before this leaves changes in both files, which have the same versions.
        self._file.clear()

    def close(self) -> None:
        """Close the file. Further changes are refused."""
        if self._file is not None:
            self._file.close()


def read_lines(path: Path, *, torn: bool = False) -> tuple[list[dict[str, Any]], int]:
    """Read the records of a file of JSON lines that this package has written.

    Args:
        path: The file. A missing one is empty.
        torn: Whether the last line may be incomplete, which is then left out.

    Returns:
        The records, and the size in bytes of their lines.

    Raises:
        DataError: A line is damaged.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    records: list[dict[str, Any]] = []
    size = 0
    for number, line, is_last in _split(data):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("it ends too early")
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("it is not an object")
        except (ValueError, RecursionError) as error:
            if torn and is_last:
                break
            raise DataError(
                f"{path}, line {number} is damaged ({error})", "Restore the file from a backup, or remove the line"
            ) from None
        records.append(record)
        size += len(line)
    return records, size


def _split(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the number of each line, the line, and whether it is the last one."""
    at, number = 0, 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        number += 1
        yield number, data[at:end], end == len(data)
        at = end


def _read_change(record: Mapping[str, Any], folder: Path) -> Change:
    try:
        return Change(**record)
    except TypeError as error:
        raise DataError(f"{folder} has a malformed change ({error})", "Restore its files from a backup") from None
