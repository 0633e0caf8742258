"""Annotations on their way into sentences: what every format checks of entities and relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cascade_srn.data.alignment import SPLIT_OTHERWISE, MisalignedSpan, WordMap
from cascade_srn.data.formats.base import ReadContext, Refused
from cascade_srn.data.formats.records import Value
from cascade_srn.data.reports import OUTWARD
from cascade_srn.errors import AnnotationError, shown
from cascade_srn.types import Document, Offsets, Sentence, Span, Triple


@dataclass(frozen=True, slots=True)
class Placed:
    """An entity that was taken, and the number of its sentence."""

    sentence: int
    span: Span


class Draft:
    """The entities and relations of some sentences, collected while they are read.

    An entity that repeats another is refused; a relation between sentences is refused; a relation that
    repeats another is kept and noted, because published corpora hold some. ``made`` says that the sentences come from a
    segmenter.
    """

    def __init__(self, context: ReadContext, n_sentences: int = 1, *, made: bool = False) -> None:
        self.context = context
        self.made = made
        self.entities: list[dict[Span, None]] = [{} for _ in range(n_sentences)]
        self.triples: list[list[Triple]] = [[] for _ in range(n_sentences)]
        self._seen: list[set[Triple]] = [set() for _ in range(n_sentences)]

    def entity(self, value: Value, span: Span, sentence: int = 0) -> Placed:
        """Take an entity given in words."""
        if span in self.entities[sentence]:
            raise value.refuse(
                "duplicate",
                f"which gives the entity {span.label!r} at words [{span.start}, {span.end}) of sentence "
                f"{sentence} a second time, but each entity is expected once; remove the repeat",
            )
        self.entities[sentence][span] = None
        return Placed(sentence, span)

    def entity_at(
        self, value: Value, words: WordMap, start: int, end: int, label: str, score: float | None = None
    ) -> Placed:
        """Take an entity given in characters."""
        try:
            found = words.place(start, end, align=self.context.align)
        except MisalignedSpan as misaligned:
            message = f"{value.place.file}, {value.place.where}: {value.path}: {misaligned}"
            raise value.refuse_saying(misaligned.kind, message, error=AnnotationError) from None
        placed = self.entity(value, Span(found.start, found.end, label, score), found.sentence)
        if not found.exact:
            self.context.report.note(OUTWARD, value.example())
        return placed

    def relation(
        self, value: Value, head: Placed | None, label: str, tail: Placed | None, score: float | None = None
    ) -> None:
        """Take a relation between two entities; None stands for an entity that was skipped."""
        if head is None or tail is None:
            raise value.refuse(
                "needs a skipped entity",
                f"whose {'head' if head is None else 'tail'} is an entity that was skipped; mend that entity",
            )
        if head.sentence != tail.sentence:
            mend = f"or, where the text is cut wrongly, {SPLIT_OTHERWISE}" if self.made else "or join the sentences"
            raise value.refuse(
                "crosses a sentence boundary",
                f"whose head is in sentence {head.sentence} and tail in sentence {tail.sentence}, but both "
                f"were expected in one; remove it, {mend}",
            )
        triple = Triple(head.span, label, tail.span, score)
        if triple in self._seen[head.sentence]:
            self.context.report.note("relation repeated", value.example())
        self._seen[head.sentence].add(triple)
        self.triples[head.sentence].append(triple)

    def document(self, text: str, offsets: Sequence[Offsets], id: str) -> Document:
        """The document, given its text and the offsets of the words of each sentence."""
        sentences = tuple(
            Sentence(tuple(text[a:b] for a, b in words), tuple(words), tuple(entities), tuple(triples))
            for words, entities, triples in zip(offsets, self.entities, self.triples, strict=True)
        )
        return Document(text, sentences, id)


def word_offsets(value: Value, text: str, context: ReadContext) -> list[Offsets]:
    """The word offsets of each sentence, from a list of lists of pairs; a bad sentence may be skipped."""
    sentences: list[Offsets] = []
    at = 0
    for sentence in value.items():
        offsets = context.attempt("sentence", _sentence_offsets, sentence, text, at)
        if offsets is not None:
            sentences.append(offsets)
            at = offsets[-1][1] if offsets else at
    return sentences


def _sentence_offsets(value: Value, text: str, at: int) -> Offsets:
    pairs = []
    for number in range(value.length()):
        pair = value.raw[number]
        # The check of a good word, without making a Value of it; a corpus has millions.
        if type(pair) not in (list, tuple) or [type(bound) for bound in pair] != [int, int]:
            raise _refused_word(value.at(number), len(text), at)
        start, end = pair
        if not at <= start < end <= len(text):
            raise _refused_word(value.at(number), len(text), at)
        pairs.append((start, end))
        at = end
    return tuple(pairs)


def _refused_word(word: Value, size: int, at: int) -> Refused:
    start, end = (bound.integer() for bound in word.items(2, 2))
    word.half_open(start, end, size, "characters in the text")
    return word.refuse(
        "words out of order",
        f"which starts before the previous word's end at {at}, but offsets that rise were expected; "
        "list the words in the order of the text",
    )


def check_text(value: Value, found: str, said: str) -> None:
    """Refuse an entity whose text is not what stands at its offsets."""
    if found != said:
        raise value.refuse(
            "text mismatch",
            f"which says its text is {shown(said)}, but {shown(found)} stands there; mend the offsets "
            "(half-open, counted in characters) or the text",
        )
