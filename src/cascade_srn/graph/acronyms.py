"""Acronyms and their long forms, found in text by the algorithm of Schwartz and Hearst (2003).

Two orders are found: "named entity recognition (NER)" and "NER (named entity recognition)".
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cascade_srn.graph.normalise import DETERMINERS, display_form, normalise

_BRACKETS = re.compile(r"[(\[]([^()\[\]]{2,120})[)\]]")
_SENTENCE_END = re.compile(r"[.!?;:]\s+(?=[A-Z\"'(])|\n")
_SHORT_FORM = re.compile(r"^[^\W_](?:[\w&/+.-]*[^\W_])?$")
_PLURAL = re.compile(r"(?<=[A-Z0-9])s$")
_WORD_BEFORE = re.compile(r"([^\s()\[\],;:]+)\s*$")
_CUT = re.compile(r"[;,:]|\be\.g\b|\bi\.e\b")
_MAX_LENGTH = 10
# Words that a long form neither begins nor ends with.
_EDGES = DETERMINERS | {
    "of",
    "and",
    "or",
    "for",
    "in",
    "on",
    "by",
    "with",
    "to",
    "from",
    "as",
    "is",
    "are",
    "we",
    "using",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """An acronym that a text defines.

    Attributes:
        short: The acronym, without the s of a plural.
        long: The long form, as the text writes it.
        start: Offset of the long form.
    """

    short: str
    long: str
    start: int


def find_definitions(text: str) -> list[Definition]:
    """Return the acronyms that a text defines, in their order.

    Example:
        >>> [(d.short, d.long) for d in find_definitions("Named entity recognition (NER) with CRFs (conditional random fields)")]
        [('NER', 'Named entity recognition'), ('CRF', 'conditional random fields')]
    """
    found = []
    for match in _BRACKETS.finditer(text):
        first = match.start()
        inside = _CUT.split(match[1])[0].strip()
        before = _last_sentence(text[max(0, first - 200) : first])
        if is_short_form(inside):
            short = _PLURAL.sub("", inside)
            at = find_long_form(short, before)
            if at is not None:
                found.append(Definition(short, before[at:].strip(), first - len(before) + at))
                continue
        word = _WORD_BEFORE.search(before)
        if word is not None and is_short_form(word[1]) and len(inside.split()) >= 2:
            short = _PLURAL.sub("", word[1])
            if find_long_form(short, inside) == 0:
                start = match.start(1) + match[1].index(inside)
                found.append(Definition(short, inside, start))
    return found


def _last_sentence(text: str) -> str:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return text[ends[-1] :] if ends else text


def is_short_form(text: str) -> bool:
    """Return whether a text may be an acronym: one word of 2 to 10 characters, with two capitals at least."""
    stem = _PLURAL.sub("", text)
    return (
        2 <= len(stem) <= _MAX_LENGTH
        and _SHORT_FORM.match(stem) is not None
        and sum(char.isupper() for char in stem) >= 2
        and sum(char.isalpha() for char in stem) * 2 >= len(stem)
    )


def find_long_form(short: str, before: str) -> int | None:
    """Return where the long form of an acronym starts in the text before it; None if there is none.

    The characters of the acronym are matched from the right. The first one must begin a word.
    """
    words = list(re.finditer(r"\S+", before))
    n_words = min(len(short) + 5, 2 * len(short))
    if not words:
        return None
    low = words[-n_words].start() if len(words) > n_words else words[0].start()
    at = len(before)
    for number in range(len(short) - 1, -1, -1):
        char = short[number].casefold()
        if not char.isalnum():
            continue
        at -= 1
        while at >= low and (before[at].casefold() != char or (number == 0 and at > 0 and before[at - 1].isalnum())):
            at -= 1
        if at < low:
            return None
    return at if _is_plausible(short, before[at:].strip()) else None


def _is_plausible(short: str, long: str) -> bool:
    """Refuse long forms that only happen to have the letters."""
    words = re.findall(r"[^\W_]+", long)
    capitals = [char.casefold() for char in short if char.isalpha()]
    if len(words) < 2 or len(words) > len(short) + 3 or len(long) <= len(short) or short in words:
        return False
    if words[0].casefold() in _EDGES or words[-1].casefold() in _EDGES or any(char in long for char in '()[]{}"“”'):
        return False
    # At least two thirds of the letters begin a word, in order.
    initials = [word[0].casefold() for word in words]
    return _common(capitals, initials) * 3 >= 2 * len(capitals)


def _common(first: list[str], second: list[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for one in first:
        before = 0
        for at, other in enumerate(second, 1):
            before, row[at] = row[at], before + 1 if one == other else max(row[at], row[at - 1])
    return row[-1]
