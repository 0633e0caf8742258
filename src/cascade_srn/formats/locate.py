"""Find the words of a text that a string stands for: exactly, by normalised text, or by a fuzzy match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache

from cascade_srn.text.forms import model_form
from cascade_srn.types import Offsets

EXACT, NORMALISED, FUZZY = 0, 1, 2
# Lowest similarity of two words, and fewest letters of both. "NER" is one letter away from "NEL".
_MIN_SIMILARITY = 0.85
_MIN_WORD = 4
# Shorter strings have no fuzzy match.
_MIN_FUZZY = 6
_IGNORED = re.compile(r"[\s\-‐‑‒–—'\"]+")
_ARTICLES = frozenset(("a", "an", "the"))
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Match:
    """Words ``[start, end)`` of a sentence, and how they were found (``EXACT``, ``NORMALISED``, ``FUZZY``)."""

    sentence: int
    start: int
    end: int
    how: int

    def overlaps(self, other: Match) -> bool:
        """Return whether two matches share words."""
        return self.sentence == other.sentence and self.start < other.end and other.start < self.end


class Locator:
    """Places of strings in one document.

    Args:
        text: Text of the document.
        sentences: Half-open offsets of the words of each sentence.
        names: All strings that are looked for. An occurrence inside that of a longer name is not taken if the string
            also occurs elsewhere.
    """

    def __init__(self, text: str, sentences: Sequence[Offsets], names: Iterable[str] = ()) -> None:
        self._words = [[text[start:end] for start, end in sentence] for sentence in sentences]
        self._text = text
        self._sentences = sentences
        self._names = sorted(set(names), key=len, reverse=True)
        self._found: dict[tuple[str, bool], list[Match]] = {}

    def find(self, name: str, *, all_ways: bool = False) -> list[Match]:
        """Return the places of a string, found by the strictest way that finds any, or by all ways."""
        matches = self._find_all(name, all_ways)
        if len(matches) > 1:
            outside = [match for match in matches if not self._is_inside(match, name)]
            matches = outside or matches
        return matches

    def find_pairs(self, head: str, tail: str) -> list[tuple[Match, Match]]:
        """Return the pairs of places of two strings that are in one sentence and not the same words.

        If one string is not in the text, both may have been changed. All similar places are then returned: a string
        that was changed can be equal to words at another place.
        """
        places = self.find(head), self.find(tail)
        if any(match.how for found in places for match in found):
            places = self.find(head, all_ways=True), self.find(tail, all_ways=True)
        return [
            (first, second)
            for first in places[0]
            for second in places[1]
            if first.sentence == second.sentence and (first.start, first.end) != (second.start, second.end)
        ]

    def _find_all(self, name: str, all_ways: bool = False) -> list[Match]:
        if (name, all_ways) not in self._found:
            ways = (self._find_exactly, self._find_normalised, self._find_fuzzily)
            found: list[Match] = []
            for way in ways:
                more = [self._with_quotes(match, name) for match in way(name)]
                # The same words, without an article, are not another place.
                found += [match for match in more if not any(map(match.overlaps, found))]
                if found and not all_ways:
                    break
            self._found[name, all_ways] = found
        return self._found[name, all_ways]

    def _with_quotes(self, match: Match, name: str) -> Match:
        """Return a match with the quotes around it if the string has them, since quotes are not compared."""
        name = " ".join(_without_article(name)) if match.how else name
        words, (start, end) = self._words[match.sentence], (match.start, match.end)
        if match.how and not _normalise(name[:1]) and start and not _normalise_word(words[start - 1]):
            start -= 1
        if match.how and not _normalise(name[-1:]) and end < len(words) and not _normalise_word(words[end]):
            end += 1
        return replace(match, start=start, end=end)

    def _is_inside(self, match: Match, name: str) -> bool:
        """Return whether a match is within that of a longer name."""
        for other in self._names:
            if len(other) <= len(name):
                return False
            for around in self._find_all(other):
                longer = around.end - around.start > match.end - match.start
                covers = around.start <= match.start and match.end <= around.end
                if longer and covers and around.sentence == match.sentence:
                    return True
        return False

    def _find_exactly(self, name: str) -> list[Match]:
        name = name.strip()
        found = []
        for number, sentence in enumerate(self._sentences):
            starts = {start: n for n, (start, _) in enumerate(sentence)}
            ends = {end: n + 1 for n, (_, end) in enumerate(sentence)}
            for start, first in starts.items():
                end = start + len(name)
                if self._text.startswith(name, start) and end in ends:
                    found.append(Match(number, first, ends[end], EXACT))
        return found

    def _find_normalised(self, name: str) -> list[Match]:
        wanted = _normalise(name)
        if not wanted:
            return []
        found = []
        for number, words in enumerate(self._words):
            normal = [_normalise_word(word) for word in words]
            for first in range(len(words)):
                joined, last = "", first
                while last < len(words) and len(joined) < len(wanted):
                    joined += normal[last]
                    last += 1
                if joined == wanted and normal[first] and normal[last - 1]:
                    found.append(Match(number, first, last, NORMALISED))
        return found

    def _find_fuzzily(self, name: str) -> list[Match]:
        """Return the one place whose words are all similar, with the same numbers."""
        wanted = _split(name)
        if sum(map(len, wanted)) < _MIN_FUZZY:
            return []
        found = []
        for number, words in enumerate(self._words):
            # Pieces of words, with the position of the word.
            pieces = [(piece, at) for at, word in enumerate(words) for piece in _split_word(word)]
            for first in range(len(pieces) - len(wanted) + 1):
                window = pieces[first : first + len(wanted)]
                after = pieces[first + len(wanted)][1] if first + len(wanted) < len(pieces) else -1
                is_whole = (not first or pieces[first - 1][1] != window[0][1]) and after != window[-1][1]
                if is_whole and all(map(_is_similar, wanted, (piece for piece, _ in window))):
                    found.append(Match(number, window[0][1], window[-1][1] + 1, FUZZY))
        return found


@cache
def _is_similar(first: str, second: str) -> bool:
    """Return whether two words differ in an ending or a typing error: not in their first letter, not in a number."""
    if first == second:
        return True
    if min(len(first), len(second)) < _MIN_WORD or first[0] != second[0]:
        return False
    if _NUMBER.findall(first) != _NUMBER.findall(second):
        return False
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= _MIN_SIMILARITY


@cache
def _normalise_word(word: str) -> str:
    """Return a word in lower case with natural characters, without hyphens and quotes."""
    return _IGNORED.sub("", model_form(word)).casefold()


def _split_word(word: str) -> list[str]:
    """Return the parts of a word between hyphens, normalised."""
    return [part for part in map(_normalise_word, _IGNORED.split(model_form(word))) if part]


def _without_article(name: str) -> list[str]:
    words = name.split()
    return words[1:] if len(words) > 1 and words[0].casefold() in _ARTICLES else words


def _split(name: str) -> list[str]:
    return [part for word in _without_article(name) for part in _split_word(word)]


def _normalise(name: str) -> str:
    """Return a string as :func:`_normalise_word` does, without a leading article."""
    return "".join(map(_normalise_word, _without_article(name)))
