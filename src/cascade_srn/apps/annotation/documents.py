"""Documents of a project: texts with their words, as ``documents.jsonl`` has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.base import ReadContext, read_strictly
from cascade_srn.formats.files import to_json
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import read_document, to_record
from cascade_srn.formats.reports import Place
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document

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
    return f"{to_json({key: record[key] for key in ('id', 'text', 'words')})}\n"
