"""The package's JSON: one document per line, with its text, all positions as half-open character offsets.

``docs/document.schema.json`` describes the objects. :meth:`Document.to_dict`, the command line and the service write
the same ones.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascade_srn.errors import AnnotationError, DataError, did_you_mean, short_repr
from cascade_srn.formats.alignment import WordMap
from cascade_srn.formats.base import Format, ReadContext, read_strictly
from cascade_srn.formats.builder import (
    DocumentBuilder,
    PlacedEntity,
    clusters_field,
    place_by_characters,
    read_clusters,
    read_entity,
    read_word_offsets,
)
from cascade_srn.formats.files import read_json_lines, write_json_lines
from cascade_srn.formats.json_records import Value, is_encodable
from cascade_srn.formats.reports import Place
from cascade_srn.types import Document, Triple

FIELDS = ("id", "text", "sentences", "entities", "relations", "clusters")
# Earlier name of the field ``sentences``, which readers accept in version 0.1.
OLD_SENTENCES = "words"
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
    given = _get_sentences(record)
    record.note_unread((*FIELDS, OLD_SENTENCES, *SOURCE_FIELDS), context)
    made = given is None
    offsets = read_word_offsets(_segment(record, text, context) if given is None else given, text, context)
    words = WordMap(text, offsets, document=record.place.document, made=made)
    builder = DocumentBuilder(context, len(offsets), made=made)
    placed = [
        context.attempt("entity", _read_entity, item, number, words, builder) for number, item in enumerate(entities)
    ]
    for item in relations:
        context.attempt("relation", _read_relation, item, placed, builder)
    clusters = read_clusters(record.get_items("clusters"), place_by_characters(words, context), context)
    return builder.build(text, offsets, record.place.document, clusters)


def _get_sentences(record: Value) -> Value | None:
    given = record.get("sentences")
    return record.get(OLD_SENTENCES) if given is None else given


def _segment(record: Value, text: str, context: ReadContext) -> Value:
    """Return the words of the segmenter, as the missing field."""
    context.report.note("words made by the segmenter", replace(record, raw=text, path="text").example())
    return replace(record, raw=context.segment(text, record.place), path="words made by the segmenter")


def _read_entity(item: Value, number: int, words: WordMap, builder: DocumentBuilder) -> PlacedEntity:
    given = item.get("id")
    # Relations refer to positions. Ids of other programs, such as T1, are not read.
    if given is not None and type(given.raw) is int and given.raw != number:
        raise given.refuse("wrong id", f"but its position in the list is {number}", "Number the entities from 0")
    return read_entity(item, words, builder)


def _read_relation(item: Value, placed: list[Any], builder: DocumentBuilder) -> None:
    builder.add_relation_by_index(item, placed, "label", item.optional_score())


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one document per line. Nothing is lost."""
    write_json_lines(map(to_record, documents), path)


def to_record(document: Document) -> dict[str, Any]:
    """Return a document as strings, numbers, lists and dictionaries."""
    entities = [
        {"id": number, "text": e.text, "label": e.label, "start": e.start, "end": e.end, "score": check_score(e.score)}
        for number, e in enumerate(document.entities)
    ]
    relations = [
        {"head": head, "tail": tail, "label": relation.label, "score": check_score(relation.score)}
        | ({} if relation.score is None else {"status": relation.status})
        for relation, (_, head, tail) in zip(document.relations, index_relations(document), strict=True)
    ]
    return {
        "id": document.id,
        "text": document.text,
        "sentences": [[list(pair) for pair in sentence.offsets] for sentence in document.sentences],
        "entities": entities,
        "relations": relations,
    } | clusters_field(document)


def index_relations(document: Document) -> Iterator[tuple[Triple, int, int]]:
    """Yield each relation with the indices of its head and tail in the entities of the document."""
    n_before = 0
    for sentence in document.sentences:
        index = {span: number for number, span in enumerate(sentence.entities, n_before)}
        yield from ((triple, index[triple.head], index[triple.tail]) for triple in sentence.triples)
        n_before += len(index)


def check_score(score: float | None) -> float | None:
    """Return a score as a float. Refuse numbers that could not be read back."""
    if score is None:
        return None
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise DataError(f"the score {score} is not a number from 0 to 1", "Use such a number, or None")
    return float(score)


_ENTITY_FIELDS = ("id", "text", "label", "start", "end", "score")
_RELATION_FIELDS = ("head", "tail", "label", "score", "status")


def to_plain(document: Document) -> dict[str, Any]:
    """Return the record of a document that was not checked before."""
    if any(start == end for sentence in document.sentences for start, end in sentence.offsets):
        raise AnnotationError(f"document {document.id!r} has an empty word", "Remove it")
    if not all(map(is_encodable, (document.id, document.text))):
        raise AnnotationError(
            f"document {document.id!r} contains half a surrogate pair, which UTF-8 cannot encode",
            "Write the whole character",
        )
    _check_labels(document)
    return to_record(document)


def _check_labels(document: Document) -> None:
    """Refuse labels that :func:`from_plain` would refuse."""
    place = Place(f"document {document.id!r}")
    labels = {
        "entities": [span.label for sentence in document.sentences for span in sentence.entities],
        "relations": [triple.label for sentence in document.sentences for triple in sentence.triples],
    }
    for name, given in labels.items():
        for label in dict.fromkeys(given):
            # Subclasses of str, such as enumerations and numpy strings, are written as plain strings.
            plain = str.__str__(label) if isinstance(label, str) else label
            read_strictly(Value(plain, place, f"{name}[{given.index(label)}].label").label)


def from_plain(record: Mapping[str, Any]) -> Document:
    """Return the document of :func:`to_plain`. Errors name the path in the record."""
    plain = dict(record) if isinstance(record, Mapping) else record
    return read_strictly(_read_plain, Value(plain, Place("the document's dictionary")))


def _read_plain(record: Value) -> Document:
    """Read a record whose keys are all known, and which has its words."""
    record = record.with_document_id("id")
    _refuse_unknown(record, (*FIELDS, OLD_SENTENCES, *SOURCE_FIELDS))
    for name, known in (("entities", _ENTITY_FIELDS), ("relations", _RELATION_FIELDS)):
        for item in record.get_items(name):
            _refuse_unknown(item, known)
    if _get_sentences(record) is None:
        record.field("sentences")  # refuses its absence
    return read_document(record, ReadContext())


def _refuse_unknown(value: Value, known: tuple[str, ...]) -> None:
    value.get("")  # refuses a value that is not an object
    for key in value.raw:
        if key not in known:
            problem = f"{value.place}: {value.path or 'the record'} has an unknown key {short_repr(key)}"
            raise value.refuse_saying("unknown key", problem, did_you_mean(str(key), known))


JSONL = Format("jsonl", (".jsonl",), sniff, read, write, keeps_clusters=True)
