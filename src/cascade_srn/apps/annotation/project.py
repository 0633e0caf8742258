"""An annotation project: a folder with texts, labels, annotations and settings.

``project.json`` has the name, labels, settings and the model to start from, ``guidelines.md`` the guidelines,
``documents.jsonl`` the texts with their words, ``changes.jsonl`` and ``annotations.jsonl`` the annotations. The folders
``suggestions`` and ``training`` may be deleted. No file has an absolute path, so a project can be moved.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from cascade_srn.apps.annotation.annotations import Annotation, ProjectLabels, annotate, annotation_of, check_annotation
from cascade_srn.apps.annotation.files import (
    DOCUMENTS,
    FORMAT_VERSION,
    GUIDELINES,
    MARKER,
    AppendOnlyFile,
    Change,
    ChangeLog,
    check_new,
    copy_inside,
    document_line,
    find_inside,
    read_lines,
    read_record,
    read_stored_documents,
    stored_encoder,
    stored_model,
    write_text,
)
from cascade_srn.config import MAX_SEED, Settings, require_range
from cascade_srn.errors import AnnotationError, CascadeError, ConfigError, DataError, SchemaError, did_you_mean
from cascade_srn.formats.files import to_json
from cascade_srn.storage.atomic import AtomicFolder
from cascade_srn.storage.lock import FolderLock
from cascade_srn.types import Document

ADJUDICATED = "adjudicated"
"""Name of the annotations that were agreed on."""
TEACHER = "teacher"
"""Name of the annotations of a language model, which count only where no person has annotated."""
MAX_NAME = 100


@dataclass(frozen=True)
class ProjectSettings(Settings):
    """Settings of a project.

    Attributes:
        held_out: Share of the documents that models are scored on and never trained on.
        seed: Seed of the choice of these documents and of training.
        epochs: Passes over the annotated sentences. None: chosen by their number.
        encoder: Pretrained encoder to train if the project has no model: a hub id, a folder, which is copied into the
            project, or "fresh" for a small new one. None: start from the bundled model, which may have other labels.
    """

    held_out: float = 0.2
    seed: int = 0
    epochs: int | None = None
    encoder: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.held_out <= 0.5:
            raise ConfigError(
                f"held_out is {self.held_out:g}", "Give a share above 0 and at most 0.5", option="held_out"
            )
        require_range("seed", self.seed, 0, MAX_SEED, option="seed")
        if self.epochs is not None:
            require_range("epochs", self.epochs, 1, option="epochs")


class OutdatedAnnotation(CascadeError):
    """A change is based on an older version than the stored one. ``stored`` is that annotation."""

    def __init__(self, stored: Annotation) -> None:
        super().__init__(
            "this document was changed in another tab or by someone with the same name",
            "Load the stored annotation, and repeat the change",
        )
        self.stored = stored


class Project:
    """An annotation project. Its methods may be called from several threads.

    Use :meth:`open` and :meth:`create`. A project that is open for writing is locked for other processes.

    Attributes:
        folder: Its folder.
        name: Its name.
        labels: Labels with definitions.
        settings: Settings.
        documents: Documents without annotations, by id, in the order of the input.
    """

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self.folder = folder
        self.read_only = read_only
        record = read_record(folder)
        self.name: str = record["name"]
        self.labels = ProjectLabels.from_dict(record["labels"], f"the labels of {folder / MARKER}")
        self.settings = ProjectSettings.from_dict(record["settings"], f"the settings of {folder / MARKER}")
        self._model: str | None = record["model"]
        self._lock = threading.RLock()
        records, size = read_lines(folder / DOCUMENTS, torn=True)
        self.documents = {one.id: one for one in read_stored_documents(records)}
        self._documents_file = None if read_only else AppendOnlyFile(folder / DOCUMENTS, size)
        self._log = ChangeLog(folder, read_only=read_only)
        self._held_out = self._choose_held_out()

    @classmethod
    def open(cls, folder: str | Path, *, read_only: bool = False) -> Self:
        """Open a project.

        Args:
            folder: Its folder.
            read_only: Do not lock the project and do not change anything. Another process may have it open.

        Raises:
            DataError: The folder is no project, or a file of it is damaged.
            ConfigError: Another process has the project open.
        """
        path = Path(folder)
        if not os.path.isfile(path / MARKER):
            problem = f"{path} is not an annotation project" if path.exists() else f"{path} does not exist"
            raise DataError(problem, "Give the folder of a project, or create one from texts")
        if read_only:
            return cls(path, read_only=True)
        try:
            lock = FolderLock(path)
        except ConfigError as error:
            raise ConfigError(error.problem, "Close the project there first") from error
        try:
            project = cls(path, read_only=False)
        except BaseException:
            lock.release()
            raise
        project._folder_lock = lock
        return project

    _folder_lock: FolderLock | None = None

    @classmethod
    def create(
        cls,
        folder: str | Path,
        documents: Iterable[Document],
        labels: ProjectLabels,
        *,
        name: str = "",
        model: str | Path | None = None,
        guidelines: str = "",
        settings: ProjectSettings | None = None,
        annotator: str = "imported",
    ) -> Self:
        """Create a project and open it.

        Args:
            folder: New or empty folder.
            documents: Texts. If some have entities, these become annotations that are done.
            labels: Labels with definitions.
            name: Name of the project; by default that of the folder.
            model: Model to start from: a folder, which is copied into the project, a bundled model or a hub id.
            guidelines: Guidelines for annotators, in Markdown.
            settings: Settings.
            annotator: Name of the annotator of annotations in ``documents``.

        Raises:
            DataError: The folder has other files, there are no documents, or an id is repeated.
            SchemaError: A label of the documents is not among the labels.
        """
        path = Path(folder)
        given = list(documents)
        if not given:
            raise DataError("there is no document to annotate", "Give at least one text")
        chosen = settings or ProjectSettings()
        record: dict[str, Any] = {
            "version": FORMAT_VERSION,
            "name": name or path.resolve().name,
            "labels": labels.to_dict(),
            "settings": replace(chosen, encoder=stored_encoder(chosen.encoder)).to_dict(),
            "model": stored_model(model),
        }
        plain = check_new(given, {})
        made = AtomicFolder(path)
        try:
            write_text(made.folder / DOCUMENTS, "".join(map(document_line, plain)))
            write_text(made.folder / GUIDELINES, guidelines)
            for source, stored in ((model, record["model"]), (chosen.encoder, record["settings"]["encoder"])):
                copy_inside(source, stored, made.folder)
            write_text(made.folder / MARKER, f"{to_json(record)}\n")
            with cls.open(made.folder) as filling:
                done = {one.id: annotation_of(one, symmetric=labels.schema.symmetric) for one in given if one.entities}
                filling.save_all(done, annotator)
            made.commit()
        except BaseException:
            made.discard()
            raise
        return cls.open(path)

    def close(self) -> None:
        """Close the files, and release the lock."""
        with self._lock:
            self._log.close()
            if self._documents_file is not None:
                self._documents_file.close()
            if self._folder_lock is not None:
                self._folder_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    @property
    def guidelines(self) -> str:
        """Guidelines for annotators, in Markdown. The file may be edited while the project is open."""
        try:
            return (self.folder / GUIDELINES).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def model(self) -> str | None:
        """Model to start from: a folder, the name of a bundled model or a hub id; None if there is none."""
        return find_inside(self._model, self.folder)

    @property
    def encoder(self) -> str | None:
        """Pretrained encoder to train if there is no model, as in the settings, or its folder in the project."""
        return find_inside(self.settings.encoder, self.folder)

    @property
    def annotators(self) -> list[str]:
        """Names of all who have saved something, in alphabetical order."""
        with self._lock:
            return sorted({annotator for _, annotator in self._log.last})

    def document(self, id: str) -> Document:
        """Return a document without annotations.

        Raises:
            DataError: There is no such document.
        """
        found = self.documents.get(id)
        if found is None:
            raise DataError(f"the project has no document {id!r}", did_you_mean(id, list(self.documents)[:1000]))
        return found

    def annotation(self, id: str, annotator: str) -> Annotation:
        """Return the annotation of a document by an annotator, which is empty and of version 0 if there is none."""
        self.document(id)
        with self._lock:
            change = self._log.last.get((id, annotator))
        return Annotation() if change is None else _annotation(change)

    def state(self, id: str, annotator: str) -> str:
        """Return the state of a document for an annotator: "new", "started" or "done"."""
        with self._lock:
            change = self._log.last.get((id, annotator))
        return "new" if change is None else str(change.annotation["state"])

    def count_done(self, annotator: str | None = None) -> int:
        """Return the number of documents that an annotator, or anyone, has done."""
        return len(self.done(annotator))

    def done(self, annotator: str | None = None) -> set[str]:
        """Return the ids of the documents that an annotator, or anyone, has done."""
        with self._lock:
            changes = list(self._log.last.values())
        return {
            one.document for one in changes if one.annotation["state"] == "done" and annotator in (None, one.annotator)
        }

    def unchecked(self) -> set[str]:
        """Return the ids of the documents that the teacher has done, and no person."""
        persons = set[str]().union(*(self.done(name) for name in self.annotators if name != TEACHER))
        return self.done(TEACHER) - persons

    def annotations(self, id: str) -> dict[str, Annotation]:
        """Return all annotations of a document by annotator, the last saved first and the teacher's last."""
        with self._lock:
            changes = list(self._log.of_document.get(id, {}).values())
        changes.sort(key=lambda one: (one.annotator == TEACHER, -one.number))
        return {one.annotator: _annotation(one) for one in changes}

    def save(self, id: str, annotator: str, annotation: Annotation, *, by: str = "") -> Annotation:
        """Store an annotation. When this returns, it is on disk.

        Args:
            id: Document.
            annotator: Name of the annotator.
            annotation: The annotation. Its version is that of the stored one it is based on.
            by: Who decided, for adjudicated annotations.

        Returns:
            The annotation with its new version.

        Raises:
            OutdatedAnnotation: A newer version is stored.
            AnnotationError: The annotation does not fit the document.
            SchemaError: A label is unknown.
        """
        check_name(annotator)
        check_annotation(self.document(id), annotation, self.labels.schema)
        with self._lock:
            stored = self.annotation(id, annotator)
            if annotation.version != stored.version:
                raise OutdatedAnnotation(stored)
            saved = replace(annotation, version=stored.version + 1)
            self._log.append(self._change(id, annotator, saved, by))
        return saved

    def save_all(self, annotations: Mapping[str, Annotation], annotator: str) -> None:
        """Store annotations of several documents at once, each as the next version of the stored one."""
        check_name(annotator)
        for id, annotation in annotations.items():
            try:
                check_annotation(self.document(id), annotation, self.labels.schema)
            except (AnnotationError, SchemaError) as error:
                raise type(error)(f"document {id!r}: {error.problem}", error.hint) from None
        with self._lock:
            changes = []
            for number, (id, annotation) in enumerate(annotations.items()):
                saved = replace(annotation, version=self.annotation(id, annotator).version + 1)
                changes.append(self._change(id, annotator, saved, after=number))
            if changes:
                self._log.append(*changes)

    def _change(self, id: str, annotator: str, annotation: Annotation, by: str = "", *, after: int = 0) -> Change:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        values = annotation.to_dict()
        return Change(self._log.number + 1 + after, id, annotator, annotation.version, now, values, by)

    def add_documents(self, documents: Iterable[Document]) -> int:
        """Add documents, without their annotations. Return the number of those that are new.

        Raises:
            DataError: A document has the id of another text.
        """
        with self._lock:
            if self._documents_file is None:
                raise DataError("the project is opened for reading only", "Open it for writing")
            new = check_new(documents, self.documents)
            if new:
                self._documents_file.append("".join(map(document_line, new)).encode())
                # A new mapping, because other threads may iterate over this one.
                self.documents = self.documents | {one.id: one for one in new}
                self._held_out = self._choose_held_out()
            return len(new)

    def annotated(self, id: str, annotator: str | None = None, *, state: str = "done") -> Document | None:
        """Return a document with its annotation, or None if it has none.

        Args:
            id: Document.
            annotator: Whose annotation. None: the adjudicated one, else the one that a person saved last, else the
                teacher's.
            state: "done", or "started" for those that are not done as well.
        """
        found = self.annotations(id)
        fitting = {name: one for name, one in found.items() if one.state in ("done", state)}
        if annotator is None:
            annotator = ADJUDICATED if ADJUDICATED in fitting else next(iter(fitting), "")
        chosen = fitting.get(annotator)
        return None if chosen is None else annotate(self.document(id), chosen, self.labels.schema)

    def annotated_documents(self, annotator: str | None = None, *, state: str = "done") -> Iterator[Document]:
        """Yield all annotated documents in the order of the input; see :meth:`annotated`."""
        for id in list(self.documents):
            document = self.annotated(id, annotator, state=state)
            if document is not None:
                yield document

    def is_held_out(self, id: str) -> bool:
        """Return whether a document is only used to score models."""
        return id in self._held_out

    def _choose_held_out(self) -> frozenset[str]:
        """Choose one of each block of documents at random, so that added documents do not change the choice."""
        size = max(2, round(1 / self.settings.held_out))
        ids = list(self.documents)
        chosen = set()
        for block, first in enumerate(range(0, len(ids), size)):
            members = ids[first : first + size]
            # The first block has one as soon as there are two documents.
            place = random.Random(f"{self.settings.seed}-{block}").randrange(size if block else 2)
            chosen.update(members[place : place + 1])
        return frozenset(chosen)


def check_name(annotator: str) -> str:
    """Return the name of an annotator, or raise a DataError if it cannot be one."""
    if not annotator.strip() or len(annotator) > MAX_NAME or not annotator.isprintable():
        raise DataError(
            "the name of the annotator is empty, too long or has control characters",
            f"Give a name of at most {MAX_NAME} characters",
            option="annotator",
        )
    return annotator


def _annotation(change: Change) -> Annotation:
    return Annotation.from_dict(change.annotation)
