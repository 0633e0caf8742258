"""Which characters of a text its words cover, so that nothing of it is lost unseen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a text lies in the words of its sentences; whitespace (``str.isspace``) does not count.

    ``missed`` holds the half-open character offsets of what does not, whitespace around it left off.
    """

    n_characters: int
    n_covered: int
    missed: tuple[tuple[int, int], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every character that is no whitespace lies in a word of a sentence."""
        return not self.missed

    @property
    def share(self) -> float:
        """The share of the characters that do, from 0 to 1; 1 where there are none."""
        return self.n_covered / self.n_characters if self.n_characters else 1.0


def coverage_of(text: str, words: Iterable[tuple[int, int]]) -> Coverage:
    """The coverage of a text by words, given as half-open offsets that rise."""
    n_characters = n_covered = at = 0
    missed = []
    for start, end in (*words, (len(text), len(text))):
        between = text[at:start]
        if bare := between.strip():
            first = at + len(between) - len(between.lstrip())
            missed.append((first, first + len(bare)))
            n_characters += _n_visible(bare)
        covered = _n_visible(text[start:end])
        n_characters, n_covered, at = n_characters + covered, n_covered + covered, end
    return Coverage(n_characters, n_covered, tuple(missed))


def _n_visible(text: str) -> int:
    return sum(map(len, text.split()))
