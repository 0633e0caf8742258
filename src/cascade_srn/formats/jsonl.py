"""The package's JSON lines: one document per line, with its text, all positions as half-open character offsets."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.alignment import WordMap
from cascade_srn.formats.base import Format, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, read_entity, read_word_offsets
from cascade_srn.formats.clusters import clusters_field, place_by_characters, read_clusters
from cascade_srn.formats.files import open_for_writing, read_json_lines, to_json
from cascade_srn.formats.json_records import Value
from cascade_srn.types import Document, Span

FIELDS = ("id", "text", "words", "entities", "relations", "clusters")
# Checksum of the model and version of the package that made the annotations. Only graphs use them.
SOURCE_FIELDS = ("model", "version")
_KEY = re.compile(r'(?<!\\)"text"\s*:')


def sniff(head: str, path: Path) -> bool:
    """Return whether the text starts with an object that has a field ``text``."""
    return head.lstrip().startswith("{") and _KEY.search(head) is not None


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a file line by line."""
    return read_json_lines(path, context, read_document)


def read_document(record: Value, context: ReadContext) -> Document:
    """Read one record."""
    record = record.with_document_id("id")
    text = record.field("text").string()
    entities, relations = record.get_items("entities"), record.get_items("relations")
    record.note_unread((*FIELDS, *SOURCE_FIELDS), context)
    made = record.get("words") is None
    offsets = read_word_offsets(_get_words(record, text, context), text, context)
    words = WordMap(text, offsets, document=record.place.document, made=made)
    builder = DocumentBuilder(context, len(offsets), made=made)
    placed = [context.attempt("entity", read_entity, item, words, builder) for item in entities]
    for item in relations:
        context.attempt("relation", _read_relation, item, placed, builder)
    clusters = read_clusters(record.get_items("clusters"), place_by_characters(words, context), context)
    return builder.build(text, offsets, record.place.document, clusters)


def _get_words(record: Value, text: str, context: ReadContext) -> Value:
    """Return the field ``words``, or the words of the segmenter if it is absent."""
    given = record.get("words")
    if given is not None:
        return given
    context.report.note("words made by the segmenter", replace(record, raw=text, path="text").example())
    return replace(record, raw=context.segment(text, record.place), path="words made by the segmenter")


def _read_relation(item: Value, placed: list[Any], builder: DocumentBuilder) -> None:
    builder.add_relation_by_index(item, placed, "label", item.optional_score())


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one document per line. Nothing is lost."""
    with open_for_writing(path) as handle:
        for document in documents:
            handle.write(f"{to_json(to_record(document))}\n".encode())


def to_record(document: Document) -> dict[str, Any]:
    """Return a document as the JSON object of its line."""
    index = number_entities(document)
    entities = [
        {"start": e.start, "end": e.end, "label": e.label, "text": e.text} | _score_field(e.score)
        for e in document.entities
    ]
    relations = [
        {"head": index[number, t.head], "label": t.label, "tail": index[number, t.tail]} | _score_field(t.score)
        for number, sentence in enumerate(document.sentences)
        for t in sentence.triples
    ]
    return {
        "id": document.id,
        "text": document.text,
        "words": [[list(pair) for pair in sentence.offsets] for sentence in document.sentences],
        "entities": entities,
        "relations": relations,
    } | clusters_field(document)


def number_entities(document: Document) -> dict[tuple[int, Span], int]:
    """Return the index of each entity in the document by its sentence number and span."""
    index: dict[tuple[int, Span], int] = {}
    for number, sentence in enumerate(document.sentences):
        index |= {(number, span): len(index) + n for n, span in enumerate(sentence.entities)}
    return index


def check_score(score: float | None) -> float | None:
    """Return a score as a float. Refuse numbers that could not be read back."""
    if score is None:
        return None
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise DataError(f"the score {score} is not a number from 0 to 1", "Use such a number, or None")
    return float(score)


def _score_field(score: float | None) -> dict[str, float]:
    checked = check_score(score)
    return {} if checked is None else {"score": checked}


JSONL = Format("jsonl", (".jsonl",), sniff, read, write, keeps_clusters=True)
