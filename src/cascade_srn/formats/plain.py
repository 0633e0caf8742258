"""Convert documents to plain values and back, for :meth:`Document.to_dict` and :meth:`Document.from_dict`."""

from collections.abc import Mapping
from typing import Any

from cascade_srn.errors import AnnotationError, did_you_mean, short_repr
from cascade_srn.formats.alignment import WordMap
from cascade_srn.formats.base import ReadContext, read_strictly
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity, read_entity, read_word_offsets
from cascade_srn.formats.clusters import clusters_field, place_by_characters, read_clusters
from cascade_srn.formats.json_records import Value, is_encodable
from cascade_srn.formats.jsonl import check_score, number_entities
from cascade_srn.formats.reports import Place
from cascade_srn.types import Document

FIELDS = ("id", "text", "sentences", "entities", "relations", "clusters")
ENTITY_FIELDS = ("id", "text", "label", "start", "end", "score")
RELATION_FIELDS = ("head", "tail", "label", "score")


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
    numbers = number_entities(document)
    return {
        "id": document.id,
        "text": document.text,
        "sentences": [[list(pair) for pair in sentence.offsets] for sentence in document.sentences],
        "entities": [
            {
                "id": number,
                "text": entity.text,
                "label": entity.label,
                "start": entity.start,
                "end": entity.end,
                "score": check_score(entity.score),
            }
            for number, entity in enumerate(document.entities)
        ],
        "relations": [
            {
                "head": numbers[at, triple.head],
                "tail": numbers[at, triple.tail],
                "label": triple.label,
                "score": check_score(triple.score),
            }
            for at, sentence in enumerate(document.sentences)
            for triple in sentence.triples
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
    return read_strictly(_read_document, Value(plain, Place("the document's dictionary")))


def _read_document(record: Value) -> Document:
    record = record.with_document_id("id")
    _refuse_unknown(record, FIELDS)
    text = record.field("text").string()
    context = ReadContext()
    offsets = read_word_offsets(record.field("sentences"), text, context)
    words = WordMap(text, offsets, document=record.place.document)
    builder = DocumentBuilder(context, len(offsets))
    entities, relations = record.get_items("entities"), record.get_items("relations")
    placed = [_read_entity(item, number, words, builder) for number, item in enumerate(entities)]
    for item in relations:
        _refuse_unknown(item, RELATION_FIELDS)
        builder.add_relation_by_index(item, placed, "label", item.optional_score())
    clusters = read_clusters(record.get_items("clusters"), place_by_characters(words, context), context)
    return builder.build(text, offsets, record.place.document, clusters)


def _read_entity(item: Value, number: int, words: WordMap, builder: DocumentBuilder) -> PlacedEntity:
    _refuse_unknown(item, ENTITY_FIELDS)
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
