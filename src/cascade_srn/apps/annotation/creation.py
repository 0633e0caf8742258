"""Create projects from raw text and annotated data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cascade_srn.apps.annotation.labels import Labels, read_labels
from cascade_srn.apps.annotation.project import Project, ProjectSettings
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.registry import read_documents
from cascade_srn.inputs.sources import Sources, Unreadable
from cascade_srn.schema import Schema
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
        format: Format of the data; None to detect it.
        align: How to treat offsets of the data within words: "exact" or "expand".
        segmenter: Splits texts into sentences and words. None: rules for English.
        annotator: Name of the annotator of the data.
    """

    texts: Sequence[str] = ()
    data: Sequence[str | Path] = ()
    labels: str | Path | None = None
    model: str | None = None
    guidelines: str | Path | None = None
    per: str = "auto"
    field: str = "text"
    id_field: str = "id"
    format: str | None = None
    align: Align = "exact"
    segmenter: Segmenter | None = None
    annotator: str = "imported"


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

    Args:
        project: The project.
        given: The texts, and how to read them. Its other fields are not used.
        tell: Called with a sentence about each text that is left out.

    Returns:
        The number of documents that are new. Those that the project has already are not added again.

    Raises:
        DataError: A text has the id of another one.
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
        yield from read_documents(path, given.format, align=given.align, segmenter=given.segmenter)


def _read_texts(given: ProjectInput, tell: Callable[[str], None]) -> Iterable[Document]:
    if not given.texts:
        return
    for source in Sources(given.texts, per=given.per, field=given.field, id_field=given.id_field, tell=tell):
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


def _find_labels(given: ProjectInput, annotated: Sequence[Document]) -> Labels:
    if given.labels is not None:
        return read_labels(given.labels)
    known = None if given.model is None else _model_schema(given.model)
    if any(document.entities for document in annotated):
        found = Schema.from_documents(annotated)
        symmetric = known.symmetric & set(found.relation_types) if known is not None else frozenset()
        return Labels(replace(found, symmetric=frozenset(symmetric)))
    if known is None:
        raise ConfigError(
            "the project has no labels: there is no file with labels, no annotated data and no model",
            "Give a file with labels",
            option="labels",
        )
    return Labels(replace(known, constraints={}))


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
