"""Where a drawn sentence may be broken into lines, and roughly how much room its words take.

The widths are only used to choose (what stays together, which part of an arc has room for its label), never to
place anything.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from cascade_srn.types import Sentence

# Overlapping entities stay on one line as long as they take no more characters than fit on a telephone.
KEPT_TOGETHER = 30


def extents(sentence: Sentence, between: Sequence[str]) -> list[tuple[int, int]]:
    """The words ``[first, end)`` of each chunk: a line may begin where the text has white space, not in an entity.

    Entities too long for that, or a chain of overlapping ones, are broken into parts that fit.
    """
    breaks = {at for at in range(1, len(sentence)) if any(map(str.isspace, between[at - 1]))}
    widths = [width(word) + 1 for word in sentence.words]
    for start, end in _clusters(sentence):
        room = KEPT_TOGETHER
        for at in range(start, end):
            room -= widths[at]
            if at == start:
                continue
            if room >= 0:
                breaks.discard(at)
            elif at in breaks:
                room = KEPT_TOGETHER - widths[at]
    return list(pairwise([0, *sorted(breaks), len(sentence)])) if len(sentence) else []


def width(text: str) -> int:
    """How many columns of a terminal the text would take: two for a wide character, none for a combining one."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def direction(words: Sequence[str]) -> str:
    """``rtl`` where most letters belong to scripts written from right to left, ``ltr`` otherwise."""
    classes = [unicodedata.bidirectional(char) for word in words for char in word]
    return "rtl" if sum(c in ("R", "AL") for c in classes) > classes.count("L") else "ltr"


def _clusters(sentence: Sentence) -> list[tuple[int, int]]:
    """The words of entities, overlapping ones taken together."""
    found: list[tuple[int, int]] = []
    for entity in sorted(sentence.entities):
        if found and entity.start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], entity.end))
        else:
            found.append((entity.start, entity.end))
    return found
