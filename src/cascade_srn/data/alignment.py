"""From character offsets to words: which words of which sentence a span of the text covers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

from cascade_srn.errors import AnnotationError, ConfigError, did_you_mean, shown
from cascade_srn.types import Offsets

Align = Literal["exact", "expand"]

SPLIT_OTHERWISE = (
    "give its sentences in the data ('words' of jsonl, 'sentences' of dygie), since here the segmenter made them, or "
    "split it otherwise by --segmenter of convert or segmenter= in Python"
)
"""What to do with a text whose sentences were made, and not where they were annotated."""


class MisalignedSpan(AnnotationError):
    """A span of characters that no run of words within a sentence covers; ``kind`` says why, for counts."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class WordSpan:
    """The words ``[start, end)`` of a sentence; ``exact`` is False where it was aligned outward."""

    sentence: int
    start: int
    end: int
    exact: bool


def check_align(align: str) -> None:
    """Refuse a value of ``align`` that does not exist."""
    if align not in get_args(Align):
        raise ConfigError(
            f"align={align!r} is no way of aligning. {did_you_mean(str(align), get_args(Align))} "
            "Pass 'exact' to refuse spans that do not fall on word boundaries, 'expand' to take whole words"
        )


class WordMap:
    """The words of a document by their character offsets, for looking up many spans.

    ``sentences`` holds the half-open offsets of the words of each sentence, rising through the text; ``made`` says that
    they come from a segmenter, and not with the text.
    """

    def __init__(self, text: str, sentences: Sequence[Offsets], *, document: str = "", made: bool = False) -> None:
        self.text = text
        self.document = document
        self.made = made
        self._starts = [start for sentence in sentences for start, _ in sentence]
        self._ends = [end for sentence in sentences for _, end in sentence]
        self._first_words = [0, *accumulate(len(sentence) for sentence in sentences)][:-1]

    def place(self, start: int, end: int, *, align: Align = "exact") -> WordSpan:
        """The words that the characters ``[start, end)`` cover.

        With ``align="exact"`` both offsets must fall on word boundaries. With ``align="expand"`` every word
        the span touches is taken whole. A span that touches no word, or words of several sentences, is
        refused either way.
        """
        check_align(align)
        if not 0 <= start < end <= len(self.text):
            raise self._misaligned(
                "index out of range",
                start,
                end,
                f"is empty or outside the text's {len(self.text)} characters",
                "give half-open character offsets with 0 <= start < end <= length of the text",
            )
        first = bisect_right(self._ends, start)  # the first word that ends after the span starts
        last = bisect_left(self._starts, end) - 1  # the last word that starts before the span ends
        if first > last:
            raise self._misaligned(
                "touches no word",
                start,
                end,
                f"touches no word; the nearest are {self._named(last, first)}",
                "mend the offsets or the words",
            )
        exact = self._starts[first] == start and self._ends[last] == end
        if not exact and align == "exact":
            raise self._misaligned(
                "not on word boundaries",
                start,
                end,
                f"does not start and end on word boundaries; nearest words: {self._named(first, last)}",
                "mend the offsets, or take whole words by --align expand of convert, evaluate and calibrate, "
                'data.align=expand of train or align="expand" in Python',
            )
        return self._within_sentence(first, last, start, end, exact)

    def _within_sentence(self, first: int, last: int, start: int, end: int, exact: bool) -> WordSpan:
        sentence = bisect_right(self._first_words, first) - 1
        ending = bisect_right(self._first_words, last) - 1
        if sentence != ending:
            raise self._misaligned(
                "crosses a sentence boundary",
                start,
                end,
                f"reaches from sentence {sentence} ({self._named(first)}) into sentence {ending} ({self._named(last)})",
                f"shorten it; or, where the text is cut wrongly, {SPLIT_OTHERWISE}"
                if self.made
                else "shorten it, or join the sentences",
            )
        base = self._first_words[sentence]
        return WordSpan(sentence, first - base, last + 1 - base, exact)

    def _misaligned(self, kind: str, start: int, end: int, problem: str, mend: str) -> MisalignedSpan:
        text = shown(self.text[max(start, 0) : max(end, 0)])
        return MisalignedSpan(
            kind, f"the span [{start}, {end}) {text} of document {shown(self.document)} {problem}; {mend}"
        )

    def _named(self, *numbers: int) -> str:
        words = [
            f"{shown(self.text[self._starts[n] : self._ends[n]])} [{self._starts[n]}, {self._ends[n]})"
            for n in dict.fromkeys(numbers)
            if 0 <= n < len(self._starts)
        ]
        return " and ".join(words) or "none, the document having no words"
