"""Share of a text that is covered by words, and the parts that are not."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextCoverage:
    """How much of a text is in the words of its sentences. Whitespace (``str.isspace``) does not count."""

    n_characters: int  # Number of non-whitespace characters
    n_covered: int  # Number of those that are in a word
    # Half-open character offsets of the text that is neither in a word nor markup, without whitespace around it
    missed: tuple[tuple[int, int], ...] = ()
    # Number of non-whitespace characters that are in no word because they are markup, such as bullets
    n_markup: int = 0

    @property
    def complete(self) -> bool:
        """Whether every non-whitespace character is in a word or markup."""
        return not self.missed

    @property
    def share(self) -> float:
        """Share of the non-whitespace characters outside markup that are in a word; 1 if there are none."""
        n_text = self.n_characters - self.n_markup
        return self.n_covered / n_text if n_text else 1.0


def measure_coverage(
    text: str, words: Iterable[tuple[int, int]], markup: Iterable[tuple[int, int]] = ()
) -> TextCoverage:
    """Measure how much of a text is covered by words. Markup in a word counts as covered.

    ``words`` and ``markup`` are half-open offsets, in ascending order.
    """
    n_characters = n_covered = n_markup = at = 0
    missed = []
    hidden = [(0, 0), *markup, (len(text), len(text))]
    number = 0
    for start, end in (*words, (len(text), len(text))):
        while at < start:
            while hidden[number][1] <= at < len(text) and number < len(hidden) - 1:
                number += 1
            is_markup = hidden[number][0] <= at
            stop = min(start, hidden[number][is_markup])
            between = text[at:stop]
            if bare := between.strip():
                visible = _n_visible(bare)
                n_characters += visible
                if is_markup:
                    n_markup += visible
                else:
                    first = at + len(between) - len(between.lstrip())
                    missed.append((first, first + len(bare)))
            at = stop
        covered = _n_visible(text[start:end])
        n_characters, n_covered, at = n_characters + covered, n_covered + covered, end
    return TextCoverage(n_characters, n_covered, tuple(missed), n_markup)


def _n_visible(text: str) -> int:
    return sum(map(len, text.split()))
