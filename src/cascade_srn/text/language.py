"""Recognise English, and texts in other languages, by frequent words and scripts."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

# Frequent words of English. They are 25 % of the words of SciERC and 19 % of those of the example corpus.
_ENGLISH = frozenset(
    {"the", "of", "and", "to", "in", "a", "is", "for", "with", "that", "on", "by", "as", "are", "this"}
)
# Frequent words of other languages in Latin script: German, Dutch, Swedish and Danish, French, Spanish, Portuguese,
# Italian, Polish and Czech, Turkish, Finnish. Single letters are left out, because formulas have them, too.
_WORDS = """
der die das und den dem des von zu mit im ist für auf ein eine nicht sich werden wird sind auch
de het een van en zijn dat voor met niet op te
och att det som på är av med til og af er ikke
le la les et du un une est que dans pour qui par sur pas au aux nous
el los las del por con se una su es como lo
os da em não uma dos ao
il che di per della non sono gli nel
na się nie jest oraz je že ve bir bu için ile ja ei
"""
_OTHER = frozenset(_WORDS.split())
_MIN_SHARE = 0.08
_MIN_WORDS = 20
# Words of a text that are looked at, so that the cost of a long one is bounded.
_MAX_WORDS = 500
_PLACE_IN_FILE = re.compile(r", (line|row) [0-9]+$")


@dataclass
class LanguageCounts:
    """Words of a text that are frequent in English, or in other languages."""

    words: int = 0
    english: int = 0
    other: int = 0

    def add(self, words: Iterable[str]) -> None:
        """Count words."""
        for word in words:
            lower = word.lower()
            self.words += 1
            self.english += lower in _ENGLISH
            self.other += lower in _OTHER or _is_other_script(lower)

    @property
    def is_english(self) -> bool:
        """Whether frequent English words have a share as in English."""
        return self.english >= _MIN_SHARE * max(1, self.words)

    @property
    def is_foreign(self) -> bool:
        """Whether a text of at least 20 words is in another language than English. Tables and names are not."""
        has_others = self.other >= _MIN_SHARE * self.words and self.other > self.english
        return self.words >= _MIN_WORDS and not self.is_english and has_others


def _is_other_script(word: str) -> bool:
    """Return whether a word has letters of another script. Single letters of Greek and Cyrillic may be formulas."""
    return word >= "\u0370" and word.isalpha() and (len(word) > 1 or word >= "\u0590")


class LanguageCheck:
    """Notes about texts that are not in the language of a model, one for each file.

    Args:
        read_languages: Returns the languages of the model, such as ``("en",)``. It is called for the first text in
            another language than English. Only models for English alone are checked.
    """

    def __init__(self, read_languages: Callable[[], Sequence[str]]) -> None:
        self._read_languages = read_languages
        self._is_on: bool | None = None
        self._noted: set[str] = set()

    def note(self, place: str, words: Iterable[str]) -> str:
        """Return a note about a text at a place such as ``a.jsonl, line 3``; empty if there is nothing to say."""
        file = _PLACE_IN_FILE.sub("", place)
        if self._is_on is False or file in self._noted:
            return ""
        counts = LanguageCounts()
        counts.add(word for word, _ in zip(words, range(_MAX_WORDS), strict=False))
        if not counts.is_foreign:
            return ""
        if self._is_on is None:
            self._is_on = tuple(self._read_languages()) == ("en",)
        if not self._is_on:
            return ""
        self._noted.add(file)
        return f"{place}: some text is not in English, the language of the model; it finds little there"
