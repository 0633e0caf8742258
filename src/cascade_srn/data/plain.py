"""A document as plain values and back: what :meth:`Document.to_dict` and :meth:`Document.from_dict` do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cascade_srn.data.alignment import WordMap
from cascade_srn.data.formats.base import ReadContext, strictly
from cascade_srn.data.formats.builder import Draft, Placed, check_text, word_offsets
from cascade_srn.data.formats.records import Value, encodable
from cascade_srn.data.reports import Place
from cascade_srn.errors import AnnotationError, DataError, did_you_mean, shown
from cascade_srn.types import Document, Span

FIELDS = ("id", "text", "sentences", "entities", "relations")
ENTITY_FIELDS = ("id", "text", "label", "start", "end", "score")
RELATION_FIELDS = ("head", "tail", "label", "score")


def to_plain(document: Document) -> dict[str, Any]:
    """Strings, numbers, lists and dictionaries, ready for JSON."""
    if any(start == end for sentence in document.sentences for start, end in sentence.offsets):
        raise AnnotationError(f"document {document.id!r} has an empty word, which no offsets can tell; remove it")
    if not all(map(encodable, (document.id, document.text))):
        raise AnnotationError(
            f"document {document.id!r} holds half a surrogate pair, which JSON as UTF-8 cannot hold; "
            "write the whole character or leave it out"
        )
    _check_labels(document)
    numbers: dict[tuple[int, Span], int] = {}
    for at, sentence in enumerate(document.sentences):
        numbers |= {(at, span): len(numbers) + n for n, span in enumerate(sentence.entities)}
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
                "score": _score(entity.score),
            }
            for number, entity in enumerate(document.entities)
        ],
        "relations": [
            {
                "head": numbers[at, triple.head],
                "tail": numbers[at, triple.tail],
                "label": triple.label,
                "score": _score(triple.score),
            }
            for at, sentence in enumerate(document.sentences)
            for triple in sentence.triples
        ],
    }


def _check_labels(document: Document) -> None:
    """Refuse the labels that :func:`from_plain` would."""
    place = Place(f"document {document.id!r}")
    labels = {
        "entities": [span.label for sentence in document.sentences for span in sentence.entities],
        "relations": [triple.label for sentence in document.sentences for triple in sentence.triples],
    }
    for name, given in labels.items():
        for label in dict.fromkeys(given):
            # An enumeration's member or numpy's string is written as what it says.
            told = str.__str__(label) if isinstance(label, str) else label
            strictly(Value(told, place, f"{name}[{given.index(label)}].label").label)


def from_plain(record: Mapping[str, Any]) -> Document:
    """The inverse of :func:`to_plain`; what does not fit together is refused with its path in the record."""
    plain = dict(record) if isinstance(record, Mapping) else record
    return strictly(_document, Value(plain, Place("the document's dictionary")))


def _document(record: Value) -> Document:
    record = record.identified("id")
    _refuse_unknown(record, FIELDS)
    text = record.field("text").string()
    context = ReadContext()
    offsets = word_offsets(record.field("sentences"), text, context)
    words = WordMap(text, offsets, document=record.place.document)
    draft = Draft(context, len(offsets))
    entities, relations = (value.items() if (value := record.get(name)) else [] for name in ("entities", "relations"))
    placed = [_entity(item, number, words, draft) for number, item in enumerate(entities)]
    for item in relations:
        _relation(item, placed, draft)
    return draft.document(text, offsets, record.place.document)


def _entity(item: Value, number: int, words: WordMap, draft: Draft) -> Placed:
    _refuse_unknown(item, ENTITY_FIELDS)
    given = item.get("id")
    if given is not None and given.integer() != number:
        raise given.refuse("wrong id", f"but {number}, its place in the list, was expected; relations count by it")
    start, end = item.field("start").integer(), item.field("end").integer()
    item.half_open(start, end, len(words.text), "characters in the text")
    said = item.get("text")
    if said is not None:
        check_text(item, words.text[start:end], said.string())
    return draft.entity_at(item, words, start, end, item.field("label").label(), _read_score(item))


def _relation(item: Value, placed: list[Placed], draft: Draft) -> None:
    _refuse_unknown(item, RELATION_FIELDS)
    head, tail = (placed[item.field(role).index(len(placed), "entity")] for role in ("head", "tail"))
    draft.relation(item, head, item.field("label").label(), tail, _read_score(item))


def _refuse_unknown(value: Value, known: tuple[str, ...]) -> None:
    value.get("")  # refuses what is no object
    for key in value.raw:
        if key not in known:
            owner = value.path or "the record"
            message = f"{value.place}: {owner} has an unknown key {shown(key)}. {did_you_mean(str(key), known)}"
            raise value.refuse_saying("unknown key", message)


def _read_score(item: Value) -> float | None:
    score = item.get("score")
    return None if score is None else score.score()


def _score(score: float | None) -> float | None:
    if score is not None and not math.isfinite(score):
        raise DataError(f"the score {score} is no finite number, which JSON cannot hold; give one, or None")
    if score is not None and not 0 <= score <= 1:
        raise DataError(f"the score {score} is not from 0 to 1, and would not be read back; give one that is, or None")
    return None if score is None else float(score)
