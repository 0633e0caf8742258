"""Our own JSON lines: one document a line, the text kept, everything in half-open character offsets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascade_srn.data.alignment import WordMap
from cascade_srn.data.formats.base import Format, ReadContext
from cascade_srn.data.formats.builder import Draft, Placed, check_text, word_offsets
from cascade_srn.data.formats.files import json_lines, to_json, writing
from cascade_srn.data.formats.records import Value
from cascade_srn.errors import DataError
from cascade_srn.types import Document, Span

FIELDS = ("id", "text", "words", "entities", "relations")
_KEY = re.compile(r'(?<!\\)"text"\s*:')


def sniff(head: str, path: Path) -> bool:
    """Whether the text starts with an object that has a field ``text``."""
    return head.lstrip().startswith("{") and _KEY.search(head) is not None


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """The documents of a file, line by line."""
    return json_lines(path, context, _document)


def _document(record: Value, context: ReadContext) -> Document:
    record = record.identified("id")
    text = record.field("text").string()
    entities, relations = (value.items() if (value := record.get(name)) else [] for name in ("entities", "relations"))
    record.note_unread(FIELDS, context)
    offsets = word_offsets(_words(record, text, context), text, context)
    made = record.get("words") is None
    words = WordMap(text, offsets, document=record.place.document, made=made)
    draft = Draft(context, len(offsets), made=made)
    placed = [context.attempt("entity", _entity, item, words, draft) for item in entities]
    for item in relations:
        context.attempt("relation", _relation, item, placed, draft)
    return draft.document(text, offsets, record.place.document)


def _words(record: Value, text: str, context: ReadContext) -> Value:
    """The field ``words``, or where it is absent what the segmenter makes of the text."""
    given = record.get("words")
    if given is not None:
        return given
    context.report.note("words made by the segmenter", replace(record, raw=text, path="text").example())
    return replace(record, raw=context.segment(text), path="words made by the segmenter")


def _entity(item: Value, words: WordMap, draft: Draft) -> Placed:
    start, end = item.field("start").integer(), item.field("end").integer()
    item.half_open(start, end, len(words.text), "characters in the text")
    said = item.get("text")
    if said is not None:
        check_text(item, words.text[start:end], said.string())
    return draft.entity_at(item, words, start, end, item.field("label").label(), _score(item))


def _relation(item: Value, placed: list[Placed | None], draft: Draft) -> None:
    head, tail = (placed[item.field(role).index(len(placed), "entity")] for role in ("head", "tail"))
    draft.relation(item, head, item.field("label").label(), tail, _score(item))


def _score(item: Value) -> float | None:
    score = item.get("score")
    return None if score is None else score.score()


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one line a document; nothing is lost."""
    with writing(path) as handle:
        for document in documents:
            handle.write(f"{to_json(to_record(document))}\n".encode())


def to_record(document: Document) -> dict[str, Any]:
    """A document as the plain values of its line."""
    index: dict[tuple[int, Span], int] = {}
    for number, sentence in enumerate(document.sentences):
        index |= {(number, span): len(index) + n for n, span in enumerate(sentence.entities)}
    entities = [
        {"start": e.start, "end": e.end, "label": e.label, "text": e.text} | _scored(e.score) for e in document.entities
    ]
    relations = [
        {"head": index[number, t.head], "label": t.label, "tail": index[number, t.tail]} | _scored(t.score)
        for number, sentence in enumerate(document.sentences)
        for t in sentence.triples
    ]
    return {
        "id": document.id,
        "text": document.text,
        "words": [[list(pair) for pair in sentence.offsets] for sentence in document.sentences],
        "entities": entities,
        "relations": relations,
    }


def _scored(score: float | None) -> dict[str, float]:
    if score is not None and not math.isfinite(score):
        raise DataError(f"the score {score} is no finite number, which JSON cannot hold; give one, or None")
    if score is not None and not 0 <= score <= 1:
        raise DataError(f"the score {score} is not from 0 to 1, and would not be read back; give one that is, or None")
    return {} if score is None else {"score": float(score)}


JSONL = Format("jsonl", "our JSON lines, a document a line", (".jsonl",), sniff, read, write)
