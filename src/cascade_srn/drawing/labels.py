"""How wide text is in a plain sans-serif font, where there is no browser to ask.

An estimate: whoever draws by it also says how wide a text was taken to be, for the viewer to fit it in.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cascade_srn.drawing.colours import colour_class
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# Overlapping entities stay on one line as long as they take no more characters than fit on a telephone.
KEPT_TOGETHER = 30


def extents(sentence: Sentence, between: Sequence[str]) -> list[tuple[int, int]]:
    """The words ``[first, end)`` of each chunk: a line may begin where the text has white space, not in an entity.

    Entities too long for that, or a chain of overlapping ones, are broken into parts that fit.
    """
    breaks = {at for at in range(1, len(sentence)) if any(map(str.isspace, between[at - 1]))}
    widths = [width(word) + 1 for word in sentence.words]
    for start, end in _clusters(sentence):
        room = KEPT_TOGETHER
        for at in range(start, end):
            room -= widths[at]
            if at == start:
                continue
            if room >= 0:
                breaks.discard(at)
            elif at in breaks:
                room = KEPT_TOGETHER - widths[at]
    return list(pairwise([0, *sorted(breaks), len(sentence)])) if len(sentence) else []


def width(text: str) -> int:
    """How many columns of a terminal the text would take: two for a wide character, none for a combining one."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def direction(words: Sequence[str]) -> str:
    """``rtl`` where most letters belong to scripts written from right to left, ``ltr`` otherwise."""
    classes = [unicodedata.bidirectional(char) for word in words for char in word]
    return "rtl" if sum(c in ("R", "AL") for c in classes) > classes.count("L") else "ltr"


def _clusters(sentence: Sentence) -> list[tuple[int, int]]:
    """The words of entities, overlapping ones taken together."""
    found: list[tuple[int, int]] = []
    for entity in sorted(sentence.entities):
        if found and entity.start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], entity.end))
        else:
            found.append((entity.start, entity.end))
    return found


@dataclass(frozen=True, slots=True)
class Mark:
    """How one entity or relation looks: CSS classes that set its colour, a tag after its label, a note on hover."""

    css: str
    tag: str = ""
    note: str = ""


Marks = Mapping[Span | Triple, Mark]


@dataclass(frozen=True, slots=True)
class Labels:
    """Entity types and relation types in the order that decides their colours, and the symmetric relations."""

    entity_types: tuple[str, ...] = ()
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, schema: Schema | None, sentences: Iterable[Sentence]) -> Labels:
        """Those of the schema, then in alphabetical order those of the sentences that it does not hold."""
        sentences = list(sentences)
        known = cls() if schema is None else cls(schema.entity_types, schema.relation_types, schema.symmetric)
        entities = {entity.label for sentence in sentences for entity in sentence.entities}
        relations = {triple.label for sentence in sentences for triple in sentence.triples}
        return cls(
            known.entity_types + tuple(sorted(entities - set(known.entity_types))),
            known.relation_types + tuple(sorted(relations - set(known.relation_types))),
            known.symmetric,
        )

    def css(self, item: Span | Triple) -> str:
        """The classes that give an entity or a relation the colour of its label."""
        return colour_class(item.label, self.entity_types if isinstance(item, Span) else self.relation_types)

    def marks(self, sentence: Sentence) -> dict[Span | Triple, Mark]:
        """Every entity and relation of a sentence in the colour of its label."""
        items: list[Span | Triple] = [*sentence.entities, *sentence.triples]
        return {item: Mark(self.css(item)) for item in items}


# Widths in hundredths of the size of the type, of a common sans-serif font; letters that share one together.
_BY_WIDTH = {
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
_WIDTHS = {char: width / 100 for width, chars in _BY_WIDTH.items() for char in chars}
_OTHER, _WIDE = 0.62, 1.02
BOLD = 1.08
"""How much wider bold type is."""


def text_width(text: str, size: float) -> float:
    """The width of a text in type of a size."""
    return size * sum(_WIDTHS.get(char) or _char_width(char) for char in text)


def _char_width(char: str) -> float:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return _WIDE if unicodedata.east_asian_width(char) in "WF" or ord(char) > 0xFFFF else _OTHER


def cut_to_width(text: str, size: float, most: float) -> list[str]:
    """A text in pieces that are each no wider than ``most``, as long as a character is not wider itself."""
    pieces, at, width = [], 0, 0.0
    for position, char in enumerate(text):
        step = size * (_WIDTHS.get(char) or _char_width(char))
        if position > at and width + step > most:
            pieces.append(text[at:position])
            at, width = position, 0.0
        width += step
    return [*pieces, text[at:]]
