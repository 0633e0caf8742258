"""The package's JSON lines: one document per line, with its text, all positions as half-open character offsets.

The values of :meth:`Document.to_dict` have the same content, with all fields.
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
from cascade_srn.types import Document, Relation, Triple

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
    write_json_lines(map(to_record, documents), path)


def to_record(document: Document) -> dict[str, Any]:
    """Return a document as the JSON object of its line."""
    entities = [
        {"start": e.start, "end": e.end, "label": e.label, "text": e.text} | _score_field(e.score)
        for e in document.entities
    ]
    relations = [
        {"head": head, "label": relation.label, "tail": tail} | _score_field(relation.score) | _status_field(relation)
        for relation, (_, head, tail) in zip(document.relations, index_relations(document), strict=True)
    ]
    return {
        "id": document.id,
        "text": document.text,
        "words": [[list(pair) for pair in sentence.offsets] for sentence in document.sentences],
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


def _score_field(score: float | None) -> dict[str, float]:
    checked = check_score(score)
    return {} if checked is None else {"score": checked}


def _status_field(relation: Relation) -> dict[str, str]:
    """Return the status of an extracted relation. Readers ignore it, because it follows from the sentence."""
    return {} if relation.score is None else {"status": relation.status}


_PLAIN_FIELDS = ("id", "text", "sentences", "entities", "relations", "clusters")
_ENTITY_FIELDS = ("id", "text", "label", "start", "end", "score")
_RELATION_FIELDS = ("head", "tail", "label", "score", "status")


def to_plain(document: Document) -> dict[str, Any]:
    """Return a document as strings, numbers, lists and dictionaries."""
    if any(start == end for sentence in document.sentences for start, end in sentence.offsets):
        raise AnnotationError(f"document {document.id!r} has an empty word", "Remove it")
    if not all(map(is_encodable, (document.id, document.text))):
        raise AnnotationError(
            f"document {document.id!r} contains half a surrogate pair, which UTF-8 cannot encode",
            "Write the whole character",
        )
    _check_labels(document)
    record = to_record(document)
    numbered = [{"id": number} | entity for number, entity in enumerate(record["entities"])]
    return {
        "id": document.id,
        "text": document.text,
        "sentences": record["words"],
        "entities": [{name: entity.get(name) for name in _ENTITY_FIELDS} for entity in numbered],
        "relations": [
            {name: plain.get(name) for name in _RELATION_FIELDS[:-1]} | {"status": relation.status}
            for plain, relation in zip(record["relations"], document.relations, strict=True)
        ],
    } | clusters_field(document)


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
    record = record.with_document_id("id")
    _refuse_unknown(record, _PLAIN_FIELDS)
    text = record.field("text").string()
    context = ReadContext()
    offsets = read_word_offsets(record.field("sentences"), text, context)
    words = WordMap(text, offsets, document=record.place.document)
    builder = DocumentBuilder(context, len(offsets))
    entities, relations = record.get_items("entities"), record.get_items("relations")
    placed = [_read_plain_entity(item, number, words, builder) for number, item in enumerate(entities)]
    for item in relations:
        _refuse_unknown(item, _RELATION_FIELDS)
        builder.add_relation_by_index(item, placed, "label", item.optional_score())
    clusters = read_clusters(record.get_items("clusters"), place_by_characters(words, context), context)
    return builder.build(text, offsets, record.place.document, clusters)


def _read_plain_entity(item: Value, number: int, words: WordMap, builder: DocumentBuilder) -> PlacedEntity:
    _refuse_unknown(item, _ENTITY_FIELDS)
    given = item.get("id")
    if given is not None and given.integer() != number:
        raise given.refuse("wrong id", f"but its position in the list is {number}", "Number the entities from 0")
    return read_entity(item, words, builder)


def _refuse_unknown(value: Value, known: tuple[str, ...]) -> None:
    value.get("")  # refuses a value that is not an object
    for key in value.raw:
        if key not in known:
            problem = f"{value.place}: {value.path or 'the record'} has an unknown key {short_repr(key)}"
            raise value.refuse_saying("unknown key", problem, did_you_mean(str(key), known))


JSONL = Format("jsonl", (".jsonl",), sniff, read, write, keeps_clusters=True)
