"""Sentences and their annotations. Positions are half-open word indices in the sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.errors import AnnotationError, short_repr
from cascade_srn.text.status import find_status

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """An entity of a sentence.

    Spans are compared and hashed by position and label, without the score.

    Attributes:
        start: Index of the first word.
        end: Index after the last word.
        label: Entity type.
        score: Score of the model from 0 to 1, or None for an annotation.

    Raises:
        AnnotationError: If the span is empty or negative.
    """

    start: int
    end: int
    label: str
    score: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise AnnotationError(
                f"the span [{self.start}, {self.end}) of label {self.label!r} is empty or negative",
                "Give half-open word indices with 0 <= start < end",
            )


@dataclass(frozen=True, slots=True, order=True)
class Triple:
    """A relation of a sentence.

    Attributes:
        head: The subject.
        label: Relation type.
        tail: The object.
        score: Score of the model from 0 to 1, or None for an annotation.
    """

    head: Span
    label: str
    tail: Span
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence and their annotations.

    Entities may nest, cross and share words. Repeated relations are kept, because published corpora contain some.

    Attributes:
        words: The words.
        offsets: Half-open character offsets of each word in the text of the document.
        entities: The entities, each of them once.
        triples: The relations. Head and tail are among the entities.
        escaped: The words as their file writes them, if it escapes some (``-LRB-``); else empty. Not compared.
        source: Text of the document, set by the document. Not compared.

    Raises:
        AnnotationError: If the annotations do not fit the words or each other.
    """

    words: tuple[str, ...]
    offsets: Offsets
    entities: tuple[Span, ...] = ()
    triples: tuple[Triple, ...] = ()
    escaped: tuple[str, ...] = field(default=(), compare=False, repr=False)
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.words) != len(self.offsets):
            raise AnnotationError(
                f"a sentence has {len(self.words)} words, but {len(self.offsets)} offsets", "Give one pair per word"
            )
        if self.escaped and len(self.escaped) != len(self.words):
            raise AnnotationError(
                f"a sentence has {len(self.words)} words, but {len(self.escaped)} escaped ones", "Give all or none"
            )
        known = set(self.entities)
        if len(known) != len(self.entities):
            repeated = next(entity for entity, count in Counter(self.entities).items() if count > 1)
            raise AnnotationError(f"{_describe(repeated)} is repeated", "Remove the repetition")
        for entity in self.entities:
            if entity.end > len(self.words):
                raise AnnotationError(
                    f"{_describe(entity)} ends after the sentence ({len(self.words)} words)", "Check the word indices"
                )
        for triple in self.triples:
            for role, argument in (("head", triple.head), ("tail", triple.tail)):
                if argument not in known:
                    raise AnnotationError(
                        f"the {role} of a relation {triple.label!r}, {_describe(argument)}, is not an entity of the "
                        "sentence",
                        "Add it to the entities",
                    )

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        entities: Iterable[Span] = (),
        triples: Iterable[Triple] = (),
        *,
        at: int = 0,
        escaped: Sequence[str] = (),
    ) -> Sentence:
        """Make a sentence from words. Its text is the words joined by single spaces.

        Args:
            words: The words. Each has at least one character.
            entities: The entities.
            triples: The relations.
            at: Character offset of the first word in the text of the document.
            escaped: The words as their file writes them, if it escapes some.

        Raises:
            AnnotationError: If the words are not a list of strings, or the annotations do not fit.
        """
        return cls._join(_check_words(words), entities, triples, at, tuple(escaped))

    @classmethod
    def _join(
        cls,
        words: tuple[str, ...],
        entities: Iterable[Span],
        triples: Iterable[Triple],
        at: int = 0,
        escaped: tuple[str, ...] = (),
    ) -> Sentence:
        offsets = []
        for word in words:
            end = at + len(word)
            offsets.append((at, end))
            at = end + 1
        return cls(words, tuple(offsets), tuple(entities), tuple(triples), escaped)

    def annotated(self, entities: Iterable[Span], triples: Iterable[Triple]) -> Sentence:
        """Return a sentence with the same words and other annotations."""
        return Sentence(self.words, self.offsets, tuple(entities), tuple(triples), self.escaped, self.source)

    def with_predictions(self, entities: Iterable[Span], triples: Iterable[Triple]) -> Sentence:
        """Do what :meth:`annotated` does, for annotations that a search found in this sentence and that are valid."""
        return Sentence._unchecked(
            self.words, self.offsets, tuple(entities), tuple(triples), self.escaped, source=self.source
        )

    @classmethod
    def of_text(cls, text: str, offsets: Offsets) -> Sentence:
        """Make a sentence from the offsets of its words in a text, which are valid."""
        return cls._unchecked(tuple([text[start:end] for start, end in offsets]), offsets, source=text)

    @staticmethod
    def _unchecked(
        words: tuple[str, ...],
        offsets: Offsets,
        entities: tuple[Span, ...] = (),
        triples: tuple[Triple, ...] = (),
        escaped: tuple[str, ...] = (),
        *,
        source: str,
    ) -> Sentence:
        """Make a sentence without the checks of the constructor, which take longer than most steps of decoding."""
        made = object.__new__(Sentence)
        set_field = object.__setattr__
        set_field(made, "words", words)
        set_field(made, "offsets", offsets)
        set_field(made, "entities", entities)
        set_field(made, "triples", triples)
        set_field(made, "escaped", escaped)
        set_field(made, "source", source)
        return made

    @property
    def start(self) -> int:
        """Offset of the first character in the text of the document, or 0 if there are no words."""
        return self.offsets[0][0] if self.offsets else 0

    @property
    def end(self) -> int:
        """Offset after the last character in the text of the document, or 0 if there are no words."""
        return self.offsets[-1][1] if self.offsets else 0

    @property
    def text(self) -> str:
        """The text from the first word to the last. Without a document, it has spaces where no word is."""
        if self.source:
            return self.source[self.start : self.end]
        parts, at = [], self.start
        for word, (start, end) in zip(self.words, self.offsets, strict=True):
            parts.append(" " * (start - at) + word)
            at = end
        return "".join(parts)

    def status(self, triple: Triple) -> str:
        """Return "asserted", "negated" or "hedged": whether the words say that the relation holds.

        Rules for English decide. See :mod:`cascade_srn.text.status`.
        """
        head, tail = triple.head, triple.tail
        return find_status(self.words, (head.start, head.end), (tail.start, tail.end), triple.label)

    def with_source(self, text: str) -> Sentence:
        """Return this sentence as part of a text that its offsets refer to."""
        if self.source == text:
            return self
        # Annotations are not checked again, because this is called for every sentence of every document.
        copied = copy(self) if self.source else self
        object.__setattr__(copied, "source", text)
        return copied

    def __len__(self) -> int:
        return len(self.words)


def _describe(entity: Span) -> str:
    return f"the entity {entity.label!r} at words [{entity.start}, {entity.end})"


def _check_words(words: object) -> tuple[str, ...]:
    """Return the words as a tuple, or raise an AnnotationError if they are not valid words."""
    if isinstance(words, str | bytes) or not isinstance(words, Iterable):
        raise AnnotationError(
            f"the words of a sentence are {short_repr(words)}, not a list of strings",
            "Give a list of words, or use Document.from_text for a text",
        )
    checked: tuple[Any, ...] = tuple(words)
    for number, word in enumerate(checked):
        if not isinstance(word, str):
            raise AnnotationError(f"word {number} of a sentence is {short_repr(word)}, not a string")
        if not word:
            raise AnnotationError(f"word {number} of a sentence is empty", "Remove it")
        if not word.isascii() and any("\ud800" <= char <= "\udfff" for char in word):
            raise AnnotationError(
                f"word {number} of a sentence is {short_repr(word)}, which contains an unpaired surrogate",
                "Remove it, or give the complete character",
            )
    return checked
