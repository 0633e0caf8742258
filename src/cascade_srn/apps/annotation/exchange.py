"""Create projects from raw text and annotated data, and exchange annotations in all formats of ``convert``."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from cascade_srn.apps.annotation.annotations import (
    Annotation,
    ProjectLabels,
    annotation_of,
    check_annotation,
    read_labels,
)
from cascade_srn.apps.annotation.files import check_new
from cascade_srn.apps.annotation.project import Project, ProjectSettings, check_name
from cascade_srn.apps.annotation.review import REVIEW, write_review
from cascade_srn.errors import AnnotationError, CascadeError, ConfigError, DataError, SchemaError
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.registry import find_format, read_documents, write_documents
from cascade_srn.formats.reports import WriteReport
from cascade_srn.inputs.sources import Sources, Unreadable
from cascade_srn.schema import Schema
from cascade_srn.storage.archives import open_archive
from cascade_srn.storage.limits import ReadLimits, reading_within
from cascade_srn.text.segment import Segmenter
from cascade_srn.types import Document


@dataclass(frozen=True)
class ProjectInput:
    """What a project is created from.

    Attributes:
        texts: Raw text: files, folders and patterns, as for extraction.
        data: Annotated files or folders in any format of ``convert``. Their annotations are done.
        labels: File with labels and definitions. None: the labels of the data, or else of the model.
        model: Model to start from: folder, name or hub id.
        guidelines: Markdown file with guidelines for annotators.
        per: What a document of the raw text is: "auto", "file", "line" or "record".
        field: Field of records with the text.
        id_field: Field of records with the id of the document.
        encoding: Encoding of raw text and data; None for UTF-8, or that of a byte-order mark.
        format: Format of the data; None to detect it.
        align: How to treat offsets of the data within words: "exact" or "expand".
        segmenter: Splits texts into sentences and words. None: rules for English.
        annotator: Name of the annotator of the data.
        keep_parts: Parts of PDF files to keep: "headers", "references".
    """

    texts: Sequence[str] = ()
    data: Sequence[str | Path] = ()
    labels: str | Path | None = None
    model: str | None = None
    guidelines: str | Path | None = None
    per: str = "auto"
    field: str = "text"
    id_field: str = "id"
    encoding: str | None = None
    format: str | None = None
    align: Align = "exact"
    segmenter: Segmenter | None = None
    annotator: str = "imported"
    keep_parts: Sequence[str] = ()


def create_project(
    folder: str | Path,
    given: ProjectInput,
    *,
    name: str = "",
    settings: ProjectSettings | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Project:
    """Create a project and open it for writing.

    Texts that cannot be read or have no words are reported and left out.

    Args:
        folder: New or empty folder.
        given: Texts, data, labels and model.
        name: Name of the project; by default that of the folder.
        settings: Settings of the project.
        tell: Called with a sentence about each text that is left out.

    Raises:
        DataError: There is no text, or two texts have the same id.
        ConfigError: There are no labels.
        SchemaError: The labels are invalid, or the data has others.

    Example:
        >>> project = create_project("project", ProjectInput(texts=["abstracts"], labels="labels.yaml"))
    """
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise DataError(f"{folder} exists and is not an empty folder", "Choose another folder")
    annotated = list(_read_data(given))
    labels = _find_labels(given, annotated)
    guidelines = _read_guidelines(given.guidelines)
    return Project.create(
        folder,
        _with_ids(_with_words([*annotated, *_read_texts(given, tell)], tell)),
        labels,
        name=name,
        model=given.model,
        guidelines=guidelines,
        settings=settings,
        annotator=given.annotator,
    )


def add_texts(project: Project, given: ProjectInput, *, tell: Callable[[str], None] = lambda sentence: None) -> int:
    """Add raw text to a project that is open for writing.

    Returns:
        The number of documents that are new. Those that the project has already are not added again.
    """
    return project.add_documents(_with_words(_read_texts(given, tell), tell))


def _with_words(documents: Iterable[Document], tell: Callable[[str], None]) -> Iterable[Document]:
    for document in documents:
        if any(map(len, document.sentences)):
            yield document
        else:
            tell(f"skipped {document.id!r}, which has no words")


def _read_data(given: ProjectInput) -> Iterable[Document]:
    for path in given.data:
        yield from read_documents(
            path, given.format, align=given.align, segmenter=given.segmenter, encoding=given.encoding
        )


def _read_texts(given: ProjectInput, tell: Callable[[str], None]) -> Iterable[Document]:
    if not given.texts:
        return
    sources = Sources(
        given.texts,
        per=given.per,
        field=given.field,
        id_field=given.id_field,
        encoding=given.encoding,
        keep_parts=given.keep_parts,
        tell=tell,
    )
    for source in sources:
        if isinstance(source, Unreadable):
            tell(f"skipped {source.reason}")
        elif isinstance(source.text, Document):
            yield replace(source.text, id=source.id)
        else:
            yield Document.from_text(source.text, id=source.id, segmenter=given.segmenter)


def _with_ids(documents: Iterable[Document]) -> Iterable[Document]:
    """Name documents without an id by their position, because some formats have none."""
    for number, document in enumerate(documents, 1):
        yield document if document.id else replace(document, id=f"document-{number}")


def _find_labels(given: ProjectInput, annotated: Sequence[Document]) -> ProjectLabels:
    if given.labels is not None:
        return read_labels(given.labels)
    known = None if given.model is None else _model_schema(given.model)
    if any(document.entities for document in annotated):
        found = Schema.from_documents(annotated)
        symmetric = known.symmetric & set(found.relation_types) if known is not None else frozenset()
        return ProjectLabels(replace(found, symmetric=frozenset(symmetric)))
    if known is None:
        raise ConfigError(
            "the project has no labels: there is no file with labels, no annotated data and no model",
            "Give a file with labels",
            option="labels",
        )
    return ProjectLabels(replace(known, constraints={}))


def _model_schema(model: str) -> Schema:
    from cascade_srn.model.start import Start

    return Start(model).schema


def _read_guidelines(path: str | Path | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text", "Save it as UTF-8", option="guidelines") from None


_LEAVE_OUT = "Leave this option out"
_UPLOAD_HINT = "Import it in parts, or use cascade-srn project import"
UPLOAD_LIMITS = ReadLimits(
    file_bytes=16 << 20,
    line_bytes=8 << 20,
    ratio=200,
    document_words=100_000,
    archive_bytes=64 << 20,
    member_bytes=4 << 20,
    members=20_000,
    hint=_UPLOAD_HINT,
)
"""Limits of a file that is sent to the service. They keep its memory low; the command line has larger ones."""
MAX_UPLOAD_WORDS = 1_000_000


@dataclass(frozen=True)
class Imported:
    """What an import has changed."""

    documents: int  # Documents that were added
    annotations: int  # Documents whose annotations were stored


def import_documents(
    project: Project,
    documents: Iterable[Document],
    annotator: str,
    *,
    state: str = "done",
    check: Callable[[], None] = lambda: None,
) -> Imported:
    """Store the annotations of documents under a name. Unknown documents are added to the project.

    Documents without entities are stored as having none.

    A document is recognised by its id and text, or by its words, because some formats keep neither of the two. If
    something does not fit, nothing is stored.

    Args:
        project: The project.
        documents: Annotated documents.
        annotator: Name to store the annotations under. Each becomes the next version of that annotator's.
        state: State of the annotations: "done" or "started".
        check: Called before each document and before anything is stored. It may raise an error to stop.

    Raises:
        DataError: A document has the id of another text.
        AnnotationError: An entity does not match the words of the project.
        SchemaError: The project does not have a label.
    """
    check_name(annotator)
    index = _WordIndex(project.documents.values())
    schema = project.labels.schema
    new: dict[str, Document] = {}
    annotations: dict[str, Annotation] = {}
    for document in _join_parts(documents):
        check()
        stored = index.find(document)
        if stored is None:
            document = document if document.id else replace(document, id=_free_id(project, new))
            stored = next(iter(check_new([document], new)), new.get(document.id))
            assert stored is not None
            new[stored.id] = stored
        try:
            annotation = _fit(annotation_of(document, symmetric=schema.symmetric, state=state), document, stored)
            check_annotation(stored, annotation, schema)
        except (AnnotationError, SchemaError) as error:
            raise type(error)(f"document {document.id!r}: {error.problem}", error.hint) from None
        annotations[stored.id] = annotation
    check()
    n_added = project.add_documents(new.values())
    project.save_all(annotations, annotator)
    return Imported(n_added, len(annotations))


def _free_id(project: Project, new: Collection[str]) -> str:
    """Return an id for a document without one."""
    number = len(project.documents) + len(new) + 1
    while f"document-{number}" in project.documents or f"document-{number}" in new:
        number += 1
    return f"document-{number}"


def _join_parts(documents: Iterable[Document]) -> Iterator[Document]:
    """Join documents in a row with the same id: some formats have a record for each sentence."""
    for id, group in groupby(documents, key=lambda document: document.id):
        parts = list(group)
        if id and len(parts) > 1 and len({part.text for part in parts}) > 1:
            yield Document.from_sentences([sentence for part in parts for sentence in part.sentences], id=id)
        else:
            yield from parts


class _WordIndex:
    """Finds the document of a project that an imported one is about."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_id: dict[str, Document] = {}
        self._by_words: dict[tuple[str, ...], Document] = {}
        for document in documents:
            self._by_id[document.id] = document
            self._by_words.setdefault(_words(document), document)

    def find(self, document: Document) -> Document | None:
        stored = self._by_id.get(document.id)
        if stored is None:
            return self._by_words.get(_words(document))
        if stored.text != document.text and _words(stored) != _words(document):
            raise DataError(
                f"the project has a document {document.id!r} with another text", "Give each text its own id"
            )
        return stored


def _words(document: Document) -> tuple[str, ...]:
    return tuple(word for sentence in document.sentences for word in sentence.words)


def _fit(annotation: Annotation, document: Document, stored: Document) -> Annotation:
    """Move an annotation to the offsets of the stored text, which has the same words."""
    if document.text == stored.text:
        return annotation
    pairs = zip(_offsets(document), _offsets(stored), strict=True)
    starts, ends = {}, {}
    for (start, end), (new_start, new_end) in pairs:
        starts[start], ends[end] = new_start, new_end
    moved = [replace(one, start=starts[one.start], end=ends[one.end]) for one in annotation.entities]
    return replace(annotation, entities=tuple(moved))


def _offsets(document: Document) -> list[tuple[int, int]]:
    return [pair for sentence in document.sentences for pair in sentence.offsets]


def file_name(project: Project, format: str) -> str:
    """Return the name of an export for a browser. Formats that are folders become an archive."""
    chosen = find_format("jsonl" if format == REVIEW else format)
    suffix = ".zip" if chosen.folder else chosen.suffixes[0] if chosen.suffixes else ".json"
    stem = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in project.name)
    return f"{stem or 'annotations'}-{format}{suffix}"


def export_bytes(project: Project, format: str, annotator: str | None = None, *, state: str = "done") -> bytes:
    """Return the annotated documents as the content of a file, or of a ZIP archive for a format that is a folder.

    Raises:
        DataError: Nothing is annotated, or the format cannot represent a document.
    """
    with TemporaryDirectory(prefix="cascade-srn-") as folder:
        target = Path(folder) / "annotations"
        if format == REVIEW or not find_format(format).folder:
            target = target.with_name(file_name(project, format))
        export_file(project, target, format, annotator, state=state)
        if not target.is_dir():
            return target.read_bytes()
        packed = shutil.make_archive(str(Path(folder) / "packed"), "zip", target)
        return Path(packed).read_bytes()


def export_file(
    project: Project, path: Path, format: str | None = None, annotator: str | None = None, *, state: str = "done"
) -> WriteReport:
    """Write the annotated documents to a file or folder.

    Args:
        project: The project.
        path: Where to write.
        format: Name of a format, or "review" for judged suggestions; by default from the suffix of the path.
        annotator: Whose annotations. None: the adjudicated one of each document, or else the one saved last.
        state: "done", or "started" to include documents that are not done.

    Raises:
        DataError: Nothing is annotated, or the format cannot represent a document.
    """
    if format == REVIEW:
        if state != "done":
            raise ConfigError("suggestions of unfinished documents are not judged yet", _LEAVE_OUT, option="unfinished")
        return write_review(project, path, annotator)
    documents = list(project.annotated_documents(annotator, state=state))
    if not documents:
        whose = "" if annotator is None else f" by {annotator!r}"
        raise DataError(f"no document of the project is annotated{whose}", "Mark documents as done first")
    return write_documents(documents, path, format)


def import_upload(
    project: Project, upload: BinaryIO, format: str, annotator: str, check: Callable[[], None] = lambda: None
) -> Imported:
    """Import a file from another machine, or a ZIP archive for a format that is a folder, within ``UPLOAD_LIMITS``.

    Raises:
        DataError: The file exceeds a limit. For other errors see :func:`import_documents`.
    """
    chosen = find_format(format)
    with TemporaryDirectory(prefix="cascade-srn-") as folder, reading_within(UPLOAD_LIMITS):
        stored = path = Path(folder) / file_name(project, format)
        with stored.open("wb") as handle:
            shutil.copyfileobj(upload, handle)
        try:
            if chosen.folder and zipfile.is_zipfile(stored):
                path = _unpack(stored, Path(folder) / "unpacked")
            documents = list(_checked(read_documents(path, format), check))
            if not documents:
                raise DataError("the file has no documents", "Check the file and its format", option="format")
            return import_documents(project, documents, annotator, check=check)
        except CascadeError as error:
            # The paths are those of temporary files.
            problem = error.problem.replace(str(path), "the file").replace(str(stored), "the file")
            raise type(error)(problem, error.hint) if type(error) in _PLAIN else error from None


def _checked(documents: Iterable[Document], check: Callable[[], None]) -> Iterator[Document]:
    n_words = 0
    for document in documents:
        check()
        n_words += sum(map(len, document.sentences))
        if n_words > MAX_UPLOAD_WORDS:
            raise DataError(f"the documents have more than {MAX_UPLOAD_WORDS:,} words", _UPLOAD_HINT)
        yield document


_PLAIN = (AnnotationError, DataError, SchemaError)


def import_file(project: Project, path: str | Path, format: str | None, annotator: str) -> Imported:
    """Import an annotated file or folder in any format; see :func:`import_documents`."""
    documents = list(read_documents(path, format))
    if not documents:
        raise DataError(f"{path} has no documents", "Check the file and its format", option="format")
    return import_documents(project, documents, annotator)


def _unpack(archive: Path, target: Path) -> Path:
    """Unpack an archive, and return the folder with its content."""
    target.mkdir()
    with open_archive(archive) as opened:
        opened.unpack(target)
    # An archive often has one folder with everything in it.
    inside = list(target.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target
