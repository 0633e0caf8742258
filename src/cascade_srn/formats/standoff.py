"""Documents of a text, entities by character offsets and relations by the ids of their entities.

Most annotation tools export this in a form of their own. A reader of such a form turns each item into
:class:`StandoffEntity` and :class:`Link`; this module aligns them with words, checks them and builds the document.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cascade_srn.formats.alignment import WordMap
from cascade_srn.formats.base import ReadContext
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity, check_text, read_word_offsets
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place
from cascade_srn.types import Document, Offsets

# Number of records at the beginning of a file that decide its format.
_SNIFFED = 200


@dataclass(frozen=True, slots=True)
class StandoffEntity:
    """Entity of a tool's export."""

    key: object  # Id that relations refer to
    start: int  # First character
    end: int  # Character after the last
    label: str  # Entity type
    text: str | None = None  # Text of the entity as the export states it, to check the offsets; None if it does not
    score: float | None = None  # Score of a model


@dataclass(frozen=True, slots=True)
class Link:
    """Relation of a tool's export, between the keys of two entities."""

    head: object
    label: str
    tail: object
    score: float | None = None


@dataclass(frozen=True)
class StandoffReader:
    """Builder of a document from the items of a record."""

    record: Value
    text: str
    context: ReadContext
    words: Sequence[Offsets] | None = None

    def build(
        self,
        mentions: Iterable[Value],
        read_mention: Callable[[Value], StandoffEntity],
        links: Iterable[Value] = (),
        read_link: Callable[[Value], Iterable[Link]] = lambda item: (),
    ) -> Document:
        """Read all items and return the document. Malformed items are skipped where the context allows it."""
        words = self.context.segment(self.text, self.record.place) if self.words is None else self.words
        place = Value(words, self.record.place, "words")
        offsets = read_word_offsets(place, self.text, self.context)
        id = self.record.place.document
        aligned = WordMap(self.text, offsets, document=id, made=True)
        builder = DocumentBuilder(self.context, len(offsets), made=True)
        placed: dict[object, PlacedEntity | None] = {}
        spans: dict[object, set[tuple[int, int]]] = {}
        for item in mentions:
            self.context.attempt("entity", self._place, item, read_mention, aligned, builder, placed, spans)
        # A region with several labels has one id, but one span.
        shared = {key for key, places in spans.items() if len(places) > 1}
        for item in links:
            self.context.attempt("relation", self._link, item, read_link, placed, shared, builder)
        return builder.build(self.text, offsets, id)

    def _place(
        self,
        item: Value,
        read_mention: Callable[[Value], StandoffEntity],
        words: WordMap,
        builder: DocumentBuilder,
        placed: dict[object, PlacedEntity | None],
        spans: dict[object, set[tuple[int, int]]],
    ) -> None:
        mention = read_mention(item)
        spans.setdefault(mention.key, set()).add((mention.start, mention.end))
        # None until the entity is placed, so that its relations are reported as those of a skipped entity.
        placed.setdefault(mention.key, None)
        start, end = mention.start, mention.end
        if mention.text is not None:
            start, end = self._correct_units(item, mention)
        item.check_half_open(start, end, len(self.text), "characters in the text")
        if mention.text is not None:
            check_text(item, self.text[start:end], mention.text)
        start, end = self._trim(item, start, end)
        entity = builder.add_entity_at(item, words, start, end, mention.label, mention.score, merge=True)
        placed[mention.key] = placed[mention.key] or entity

    def _correct_units(self, item: Value, mention: StandoffEntity) -> tuple[int, int]:
        """Return the offsets in characters. Tools that run in a browser count an emoji as two."""
        start, end = mention.start, mention.end
        if self.text[max(start, 0) : max(end, 0)] == mention.text or self.text.isascii():
            return start, end
        encoded = self.text.encode("utf-16-le")
        before, inside = encoded[: 2 * start], encoded[2 * start : 2 * end]
        if 0 <= start <= end and inside == (mention.text or "").encode("utf-16-le"):
            self.context.report.note("offsets in UTF-16 units converted to characters", item.example())
            start = len(before.decode("utf-16-le", errors="replace"))
            end = start + len(mention.text or "")
        return start, end

    def _trim(self, item: Value, start: int, end: int) -> tuple[int, int]:
        """Return the offsets without whitespace at the ends, which a mouse selects easily."""
        text = self.text[start:end]
        if not text.strip():
            raise item.refuse("blank entity", "whose text is only whitespace", "Remove it")
        if text != text.strip():
            self.context.report.note("whitespace around an entity left out", item.example())
            start, end = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
        return start, end

    def _link(
        self,
        item: Value,
        read_link: Callable[[Value], Iterable[Link]],
        placed: dict[object, PlacedEntity | None],
        shared: set[object],
        builder: DocumentBuilder,
    ) -> None:
        for link in read_link(item):
            for key in (link.head, link.tail):
                if key in shared:
                    problem = f"whose id {key!r} belongs to several entities"
                    raise item.refuse("repeated id", problem, "Give each entity its own id")
                if key not in placed:
                    problem = f"but no entity has the id {key!r}"
                    raise item.refuse("missing entity", problem, "Add that entity, or remove the relation")
            builder.add_relation(item, placed[link.head], link.label, placed[link.tail], link.score)


def group_words(text: str, words: Sequence[tuple[int, int]], context: ReadContext, place: Place) -> list[Offsets]:
    """Split words of a file into the sentences that the segmenter finds in the text."""
    starts = [sentence[0][0] for sentence in context.segment(text, place) if sentence]
    sentences: list[list[tuple[int, int]]] = [[]]
    number = 0
    for start, end in words:
        while number < len(starts) and starts[number] <= start:
            number += 1
            sentences.append([])
        sentences[-1].append((start, end))
    return [tuple(sentence) for sentence in sentences if sentence]


def first_records(head: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects at the beginning of a file: JSON lines, or the items of an array."""
    return islice((item for item in _first_values(head) if isinstance(item, dict)), _SNIFFED)


def _first_values(head: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    text = head.lstrip()
    at = 1 if text.startswith("[") else 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] == ","):
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def has_item(record: dict[str, Any], field: str, *keys: str) -> bool:
    """Return whether a field of a record is a list whose first item is an object with these keys."""
    items = record.get(field)
    return isinstance(items, list) and bool(items) and isinstance(items[0], dict) and all(k in items[0] for k in keys)
