"""Files of a project: the record, the texts, the log of changes, and folders that are copied into the project.

A change is on disk before :meth:`ChangeLog.append` returns. A killed process leaves at most one incomplete line at the
end of the log, whose change was never acknowledged. When the log grows, a snapshot replaces it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.base import ReadContext, read_strictly
from cascade_srn.formats.files import read_stored_json, replacing, to_json
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import read_document, to_record
from cascade_srn.formats.reports import Place
from cascade_srn.model.folder import check_folder
from cascade_srn.storage.atomic import flush_entry, open_without_links
from cascade_srn.storage.bundled import find_model, is_model
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document

MARKER, GUIDELINES = "project.json", "guidelines.md"
MODEL, ENCODER = "model", "encoder"
FORMAT_VERSION = 1
# Stored names that begin so are folders in the project.
_HERE = "./"


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``project.json``.

    Raises:
        DataError: It is damaged, or of another version of the format.
    """
    record = read_stored_json(folder / MARKER, "Restore it from a backup")
    known = {"version", "name", "labels", "settings", "model"}
    if not isinstance(record, dict) or not known <= record.keys():
        raise DataError(f"{folder / MARKER} is not the file of an annotation project", "Restore it from a backup")
    if record["version"] != FORMAT_VERSION:
        raise DataError(
            f"{folder} has version {record['version']!r} of the project format, but this release reads "
            f"{FORMAT_VERSION}",
            "Update cascade-srn",
        )
    return record


def _is_folder(path: str | Path | None) -> bool:
    return path is not None and os.path.isdir(os.path.expanduser(path))


def stored_model(model: str | Path | None) -> str | None:
    """Return how a model is named in the project: a local folder is copied, so that the project can be moved."""
    if model is None:
        return None
    if _is_folder(model):
        if not is_model(model):
            raise DataError(f"{model} is not the folder of a model", "Give a trained model", option="model")
        check_folder(Path(os.path.expanduser(model)))
        return _HERE + MODEL
    find_model(model)  # fails now if there is no such model
    return str(model)


def stored_encoder(encoder: str | None) -> str | None:
    """Return how an encoder is named in the project; see :func:`stored_model`."""
    return _HERE + ENCODER if _is_folder(encoder) else encoder


def copy_inside(source: str | Path | None, stored: str | None, folder: Path) -> None:
    """Copy a model or an encoder into the project, if its stored name says so."""
    if source is not None and stored is not None and stored.startswith(_HERE):
        shutil.copytree(os.path.expanduser(source), folder / stored)


def find_inside(stored: str | None, folder: Path) -> str | None:
    """Return the path of a stored name that is a folder in the project, or the name itself."""
    return str(folder / stored) if stored is not None and stored.startswith(_HERE) else stored


def write_text(path: Path, text: str) -> None:
    """Write a file, all or nothing."""
    with replacing(path) as handle:
        handle.write(text.encode())


DOCUMENTS = "documents.jsonl"


def check_new(documents: Iterable[Document], known: Mapping[str, Document]) -> list[Document]:
    """Return the documents that are not known yet, without annotations.

    Raises:
        DataError: A document has no usable id or too many words, or has the id of another text.
    """
    new: dict[str, Document] = {}
    limits = read_limits()
    for document in documents:
        limits.check_words(sum(map(len, document.sentences)), f"document {document.id!r}")
        plain = without_annotations(document)
        if document.id in ("", ".", ".."):
            raise DataError(f"a document has the id {document.id!r}", "Give each document a name")
        same = known.get(plain.id) or new.get(plain.id)
        if same is not None and same.text != plain.text:
            raise DataError(f"two documents have the id {plain.id!r}, but other texts", "Give each text its own id")
        if same is None:
            new[plain.id] = plain
    return list(new.values())


def without_annotations(document: Document) -> Document:
    """Return a document with its words only, and without sentences that have none."""
    sentences = tuple(sentence.annotated((), ()) for sentence in document.sentences if len(sentence))
    return Document(document.text, sentences, document.id)


def read_stored_documents(records: Iterable[dict[str, Any]]) -> Iterator[Document]:
    """Return the documents of the records of ``documents.jsonl``."""
    context = ReadContext()
    for number, record in enumerate(records, 1):
        yield read_strictly(read_document, Value(record, Place(DOCUMENTS, f"line {number}")), context)


def document_line(document: Document) -> str:
    """Return the line of a document, without annotations."""
    record = to_record(document)
    return f"{to_json({key: record[key] for key in ('id', 'text', 'sentences')})}\n"


logger = logging.getLogger("cascade_srn.apps.annotation")

LOG, SNAPSHOT = "changes.jsonl", "annotations.jsonl"
# Size of the log in bytes from which it is compacted.
MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """A saved state of an annotation."""

    number: int  # Position in the history of the project, from 1
    document: str  # Id of the document
    annotator: str  # Name of the annotator
    version: int  # Number of the state of this document and annotator, from 1
    time: str  # When it was saved, in UTC
    annotation: dict[str, Any]  # The complete annotation, as plain values
    by: str = ""  # Who adjudicated, if the annotation is the agreed one

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

    def _cut(self, size: int) -> None:
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, size)
        self.size = size  # also if flushing fails: a later cut to the old size would append zeros
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file. Further lines are refused."""
        self._descriptor = None
        self._handle.close()


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
