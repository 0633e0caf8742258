"""Map character offsets to the words of sentences."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

from cascade_srn.errors import AnnotationError, CascadeError, ConfigError, did_you_mean, short_repr
from cascade_srn.types import Document, Entity, Offsets, Span

Align = Literal["exact", "expand"]


class MisalignedSpan(AnnotationError):
    """A character span that does not match the words of one sentence. ``kind`` is short, for counts."""

    def __init__(self, kind: str, problem: str, hint: str = "", *, option: str = "") -> None:
        super().__init__(problem, hint, option=option)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class WordSpan:
    """The words ``[start, end)`` of a sentence; ``exact`` is False if the span was expanded to whole words."""

    sentence: int
    start: int
    end: int
    exact: bool


def check_align(align: str) -> None:
    """Raise a :class:`ConfigError` unless ``align`` is a known value."""
    if align not in get_args(Align):
        raise ConfigError(
            f"align is {align!r}. {did_you_mean(str(align), get_args(Align))}",
            "Use 'exact' to refuse spans that do not match word boundaries, or 'expand' to take whole words",
            option="align",
        )


class WordMap:
    """Words of a document by their character offsets, to look up many spans."""

    def __init__(self, text: str, sentences: Sequence[Offsets], *, document: str = "", made: bool = False) -> None:
        self.text = text
        self.document = document
        self.made = made
        self._starts = [start for sentence in sentences for start, _ in sentence]
        self._ends = [end for sentence in sentences for _, end in sentence]
        self._first_words = [0, *accumulate(len(sentence) for sentence in sentences)][:-1]

    def place(self, start: int, end: int, *, align: Align = "exact") -> WordSpan:
        """Return the words that the characters ``[start, end)`` cover.

        With ``"exact"``, both offsets must be word boundaries. With ``"expand"``, every word that the span touches is
        taken as a whole.
        """
        check_align(align)
        if not 0 <= start < end <= len(self.text):
            problem = f"is empty or outside the {len(self.text)} characters of the text"
            raise self._misaligned(
                "index out of range", start, end, problem, "Use half-open offsets with 0 <= start < end <= length"
            )
        first = bisect_right(self._ends, start)  # the first word that ends after the span starts
        last = bisect_left(self._starts, end) - 1  # the last word that starts before the span ends
        if first > last:
            problem = f"touches no word; nearest words: {self._describe_words(last, first)}"
            raise self._misaligned("touches no word", start, end, problem, "Fix the offsets or the words")
        exact = self._starts[first] == start and self._ends[last] == end
        if not exact and align == "exact":
            problem = f"does not start and end on word boundaries; nearest words: {self._describe_words(first, last)}"
            hint = "Fix the offsets, or use 'expand' to take whole words"
            raise self._misaligned("not on word boundaries", start, end, problem, hint, option="align")
        sentence, last_sentence = (bisect_right(self._first_words, word) - 1 for word in (first, last))
        if sentence != last_sentence:
            problem = (
                f"reaches from sentence {sentence} ({self._describe_words(first)}) into sentence {last_sentence} "
                f"({self._describe_words(last)})"
            )
            advice = ("Shorten or remove it, or join the sentences", "")
            if self.made:
                advice = ("Shorten or remove it, add the words to the data, or use another segmenter", "segmenter")
            raise self._misaligned("crosses a sentence boundary", start, end, problem, *advice)
        base = self._first_words[sentence]
        return WordSpan(sentence, first - base, last + 1 - base, exact)

    def _misaligned(self, kind: str, start: int, end: int, problem: str, hint: str, option: str = "") -> MisalignedSpan:
        text = short_repr(self.text[max(start, 0) : max(end, 0)])
        where = f"the span [{start}, {end}) {text} of document {short_repr(self.document)}"
        return MisalignedSpan(kind, f"{where} {problem}", hint, option=option)

    def _describe_words(self, *numbers: int) -> str:
        words = [
            f"{short_repr(self.text[self._starts[n] : self._ends[n]])} [{self._starts[n]}, {self._ends[n]})"
            for n in dict.fromkeys(numbers)
            if 0 <= n < len(self._starts)
        ]
        return " and ".join(words) or "none, because the document has no words"


def place_entities(document: Document, entities: Sequence[Entity], align: Align = "exact") -> Document:
    """Return a document with the same words and the given entities, which have character offsets.

    With ``"expand"``, entities of one label that fall on the same words become one.
    """
    words = WordMap(document.text, [s.offsets for s in document.sentences], document=document.id)
    spans: list[dict[Span, None]] = [{} for _ in document.sentences]
    for entity in entities:
        if not isinstance(entity, Entity):
            raise CascadeError(
                f"an entity is a {type(entity).__name__}", "Give Entity(start, end, label), with character offsets"
            )
        where = f"the entity {entity.label!r} at characters [{entity.start}, {entity.end})"
        if entity.score is not None and not 0 <= entity.score <= 1:
            raise CascadeError(f"{where} has the score {entity.score}", "Give a score from 0 to 1, or none")
        place = words.place(entity.start, entity.end, align=align)
        span = Span(place.start, place.end, entity.label, entity.score)
        if span in spans[place.sentence] and align == "exact":
            raise CascadeError(f"{where} is repeated", "Remove the repetition")
        spans[place.sentence].setdefault(span)
    sentences = [s.annotated(e, ()) for s, e in zip(document.sentences, spans, strict=True)]
    return Document(document.text, tuple(sentences), document.id)
