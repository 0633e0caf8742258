"""Appearance of labels, and text measurements shared by the HTML and the SVG layout."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cascade_srn.drawing.colours import colour_class
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# Overlapping entities stay on one line up to this number of characters, which fits on a phone.
MAX_CHUNK_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Mark:
    """The appearance of one entity or relation: CSS classes, a tag after its label, and a note on hover."""

    css: str
    tag: str = ""
    note: str = ""


Marks = Mapping[Span | Triple, Mark]


@dataclass(frozen=True, slots=True)
class Labels:
    """Entity types and relation types in the order of their colours, and the symmetric relations."""

    entity_types: tuple[str, ...] = ()
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())

    @classmethod
    def collect(cls, schema: Schema | None, sentences: Iterable[Sentence]) -> Labels:
        """Return the labels of the schema, then all other labels of the sentences in alphabetical order."""
        sentences = list(sentences)
        known = cls() if schema is None else cls(schema.entity_types, schema.relation_types, schema.symmetric)
        entities = {entity.label for sentence in sentences for entity in sentence.entities}
        relations = {triple.label for sentence in sentences for triple in sentence.triples}
        return cls(
            known.entity_types + tuple(sorted(entities - set(known.entity_types))),
            known.relation_types + tuple(sorted(relations - set(known.relation_types))),
            known.symmetric,
        )

    def make_marks(self, sentence: Sentence) -> dict[Span | Triple, Mark]:
        """Return a mark with the colour of its label for each entity and relation."""
        marks: dict[Span | Triple, Mark] = {}
        for entity in sentence.entities:
            marks[entity] = Mark(colour_class(entity.label, self.entity_types))
        for triple in sentence.triples:
            marks[triple] = Mark(colour_class(triple.label, self.relation_types))
        return marks


def split_chunks(sentence: Sentence, gaps: Sequence[str]) -> list[tuple[int, int]]:
    """Split a sentence into chunks ``[first, end)`` of words that stay on one line.

    Lines break at white space, but not inside entities. Long entities and long chains of overlapping entities are split
    into parts of at most ``MAX_CHUNK_WIDTH``.
    """
    breaks = {i for i in range(1, len(sentence)) if any(map(str.isspace, gaps[i - 1]))}
    widths = [terminal_width(word) + 1 for word in sentence.words]
    for start, end in _merge_overlapping(sentence.entities):
        room = MAX_CHUNK_WIDTH
        for i in range(start, end):
            room -= widths[i]
            if i == start:
                continue
            if room >= 0:
                breaks.discard(i)
            elif i in breaks:
                room = MAX_CHUNK_WIDTH - widths[i]
    return list(pairwise([0, *sorted(breaks), len(sentence)])) if len(sentence) else []


def _merge_overlapping(entities: Iterable[Span]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for entity in sorted(entities):
        if merged and entity.start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], entity.end))
        else:
            merged.append((entity.start, entity.end))
    return merged


def terminal_width(text: str) -> int:
    """Return the width of a text in terminal columns: 2 for a wide character, 0 for a combining one."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def text_direction(words: Sequence[str]) -> str:
    """Return ``rtl`` if most letters belong to right-to-left scripts, else ``ltr``."""
    classes = [unicodedata.bidirectional(char) for word in words for char in word]
    return "rtl" if sum(c in ("R", "AL") for c in classes) > classes.count("L") else "ltr"


# Character widths of a common sans-serif font, in hundredths of the font size.
_CHARS_BY_WIDTH = {
    20: "'ijl|",
    29: " !,./:;I[\\]ft",
    36: '"()-`r{}',
    42: "*^",
    53: "Jcksvxyz",
    58: "#$0123456789?L_abdeghnopqu",
    61: "+<=>~FTZ",
    70: "&ABEKPSVXY",
    76: "CDHNRUw",
    81: "GOQ",
    89: "Mm%",
    98: "W@",
}
_CHAR_WIDTHS = {char: width / 100 for width, chars in _CHARS_BY_WIDTH.items() for char in chars}
_OTHER_WIDTH, _WIDE_WIDTH = 0.62, 1.02
# Width of bold text relative to regular text.
BOLD = 1.08


def text_width(text: str, font_size: float) -> float:
    """Estimate the width of a text in a sans-serif font."""
    return font_size * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if char in _CHAR_WIDTHS:
        return _CHAR_WIDTHS[char]
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return _WIDE_WIDTH if unicodedata.east_asian_width(char) in "WF" or ord(char) > 0xFFFF else _OTHER_WIDTH


def cut_to_width(text: str, font_size: float, max_width: float) -> list[str]:
    """Cut a text into pieces of at most ``max_width``, each with at least one character."""
    pieces, start, piece_width = [], 0, 0.0
    for i, char in enumerate(text):
        step = font_size * _char_width(char)
        if i > start and piece_width + step > max_width:
            pieces.append(text[start:i])
            start, piece_width = i, 0.0
        piece_width += step
    return [*pieces, text[start:]]
