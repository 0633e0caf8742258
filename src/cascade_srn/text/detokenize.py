"""Rebuild running text from tokens, with the spacing and the characters that a person would have typed.

Corpora such as SciERC publish tokens only. The rules are for English and for Penn Treebank tokens: punctuation, closing
brackets and contractions follow the word before them without a space, and the word after an opening bracket or quote
follows that without a space. A hyphen or dash that is a token of its own keeps its spaces.
"""

import re
from collections.abc import Sequence

from cascade_srn.text.forms import unescape

_NO_SPACE_BEFORE = re.compile(
    r"[,.;:!?%°)\]}”»’…]|\.{2,}+|[!?]{2,}+|(?i:n['’]t|['’](?:s|re|ve|ll|d|m))"  # punctuation and contractions
)
_NO_SPACE_AFTER = frozenset("([{“«„‘`¿¡")
_BEFORE_NUMBERS = ("$", "£", "€", "¥", "#")
_CONTRACTIONS = {("can", "not"), ("gim", "me"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("wan", "na")}


def detokenize(sentences: Sequence[Sequence[str]]) -> tuple[str, list[list[tuple[int, int]]]]:
    """Join the tokens of sentences to one paragraph.

    Args:
        sentences: The tokens of each sentence, with or without Penn Treebank escapes.

    Returns:
        The text, and the half-open character offsets of each token. The text at the offsets of a token is
        ``unescape(token)``. Between two tokens there is nothing or one space.

    Example:
        >>> text, offsets = detokenize([["A", "parser", "-LRB-", "Li", "'s", "-RRB-", "wo", "n't", "fail", "."]])
        >>> text
        "A parser (Li's) won't fail."
        >>> offsets[0][4]
        (12, 14)
    """
    parts: list[str] = []
    offsets: list[list[tuple[int, int]]] = []
    at = 0
    for tokens in sentences:
        placed: list[tuple[int, int]] = []
        for token, spaced in zip(map(unescape, tokens), _find_spaces(tokens), strict=True):
            # The first token of a sentence has a space before it, except at the start of the text.
            if spaced and parts:
                parts.append(" ")
                at += 1
            parts.append(token)
            placed.append((at, at + len(token)))
            at += len(token)
        offsets.append(placed)
    return "".join(parts), offsets


def _find_spaces(tokens: Sequence[str]) -> list[bool]:
    """Return whether a space is before each token of a sentence."""
    spaces: list[bool] = []
    sides = _find_quotes(tokens)
    words = [unescape(token) for token in tokens]
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        joined = number > 0 and (
            sides[number] == "close"
            or sides[number - 1] == "open"
            or bool(_NO_SPACE_BEFORE.fullmatch(word))
            or before in _NO_SPACE_AFTER
            or (before.endswith(_BEFORE_NUMBERS) and word[:1].isdigit())
            or (before.lower(), word.lower()) in _CONTRACTIONS
            or (word == "/" and before[-1:].isalnum() and _starts_word(words, number + 1))
            or (before == "/" and not spaces[-1] and word[:1].isalnum())
        )
        spaces.append(not joined)
    return spaces


def _starts_word(words: Sequence[str], number: int) -> bool:
    return number < len(words) and words[number][:1].isalnum()


def _find_quotes(tokens: Sequence[str]) -> list[str]:
    """Return "open", "close" or "" for each token: whether it is a quotation mark, and of which side.

    Straight quotes and ``''``, which some corpora use for both sides, open and close in turn.
    """
    sides = [""] * len(tokens)
    is_open = {'"': False, "'": False}
    for number, token in enumerate(tokens):
        mark = unescape(token)
        if token == "``":
            side = "open"
        elif mark not in is_open:
            if mark == "`":
                is_open["'"] = True
            continue
        elif is_open[mark]:
            side = "close"
        elif mark == "'":
            # An apostrophe after a plural, or the first of two quotes.
            plural = number > 0 and tokens[number - 1][-1:] in ("s", "S")
            side = "open" if not plural and "'" in tokens[number + 1 :] else "close"
        else:
            after = unescape(tokens[number + 1]) if number + 1 < len(tokens) else "."
            side = "close" if _NO_SPACE_BEFORE.fullmatch(after) else "open"
        is_open[mark] = side == "open"
        sides[number] = side
    return sides
