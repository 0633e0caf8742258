"""Words that do not belong to the edge of an entity."""

import unicodedata
from collections.abc import Iterable, Sequence

_QUOTE_MARKS = frozenset("\"'`´“”„‘’‚«»‹›")
_BRACKETS = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "-LRB-": "-RRB-", "-LSB-": "-RSB-", "-LCB-": "-RCB-"}
_CLOSING = frozenset(_BRACKETS.values())
# First code point of the emoji. Symbols before it, such as ® and °, belong to names.
_EMOJI = 0x2600


def trim(words: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Return the bounds of an entity without quotes, emoji, control characters and single brackets at its edges.

    A quote stays if its partner is inside the entity, and a bracket if its partner is in it.

    Args:
        words: The words of the sentence.
        start: Index of the first word of the entity.
        end: Index after its last word.

    Returns:
        The new bounds. They are equal if no word is left.

    Example:
        >>> trim("the ( CRF model".split(), 1, 4), trim('a " deep " model'.split(), 1, 5)
        ((2, 4), (1, 5))
    """
    while start < end:
        first, last, inside = words[start], words[end - 1], words[start + 1 : end - 1]
        if _is_noise(first) or first in _CLOSING or (first in _BRACKETS and _BRACKETS[first] not in words[start:end]):
            start += 1
        elif _is_noise(last) or last in _BRACKETS or (last in _CLOSING and _is_unopened(last, words[start:end])):
            end -= 1
        elif _is_quote(first) and not any(map(_is_quote, inside)):
            start += 1
        elif _is_quote(last) and not any(map(_is_quote, inside)):
            end -= 1
        else:
            break
    return start, end


def any_edge(words: Iterable[str]) -> bool:
    """Return whether one of the words may have to be removed from an edge."""
    return any(map(_is_edge, words))


def _is_edge(word: str) -> bool:
    # Most words begin with a letter or a digit.
    return not word[:1].isalnum() and (_is_quote(word) or _is_noise(word) or word in _BRACKETS or word in _CLOSING)


def _is_quote(word: str) -> bool:
    return _QUOTE_MARKS.issuperset(word)


def _is_unopened(bracket: str, words: Sequence[str]) -> bool:
    return next(opening for opening, closing in _BRACKETS.items() if closing == bracket) not in words


def _is_noise(word: str) -> bool:
    """Return whether a word consists of emoji, variation selectors and control characters."""
    return (not word.isascii() or not word.isprintable()) and all(map(_is_noise_character, word))


def _is_noise_character(char: str) -> bool:
    kind = unicodedata.category(char)
    return (
        kind in ("Cc", "Cf", "Co", "Cn")
        or "\ufe00" <= char <= "\ufe0f"
        or (kind in ("So", "Sk") and ord(char) >= _EMOJI)
    )
