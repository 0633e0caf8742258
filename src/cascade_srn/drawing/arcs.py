"""Where relations are drawn: which word an arc stands on, at which height, in which order beside its neighbours.

Pure functions over word positions. Nothing is measured here: the order of arc ends along the text is all that
heights depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cascade_srn.types import Span, Triple


@dataclass(frozen=True, slots=True)
class Arc:
    """A relation as an arc. ``left`` and ``right`` are its ends in the order of the text.

    An end is a *stop*: a place among all arc ends of the sentence, counted from the first. ``left_word`` and
    ``right_word`` are the words it stands on. Level 0 is the height next to the text.
    """

    triple: Triple
    left_word: int
    right_word: int
    left: int
    right: int
    level: int
    forward: bool


def anchor(entity: Span) -> int:
    """The word that an entity's arcs stand on: the middle one, or the one before the middle."""
    return entity.start + (entity.end - entity.start - 1) // 2


def place_arcs(triples: Sequence[Triple]) -> list[Arc]:
    """An arc for each different triple, in the order given, so placed that no two share a piece of a line."""
    triples = list(dict.fromkeys(triples))
    words = [(anchor(triple.head), anchor(triple.tail)) for triple in triples]
    ends = _ends_in_order([(min(pair), max(pair)) for pair in words])
    stops = {end: stop for stop, end in enumerate(ends)}
    intervals = [(stops[number, "left"], stops[number, "right"]) for number in range(len(triples))]
    levels = pack(intervals)
    return [
        Arc(
            triple,
            min(pair),
            max(pair),
            *interval,
            level,
            forward=pair[0] < pair[1] or (pair[0] == pair[1] and triple.head <= triple.tail),
        )
        for triple, pair, interval, level in zip(triples, words, intervals, levels, strict=True)
    ]


def pack(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """A level for each interval, the lowest that is free, short intervals first.

    Intervals on one level do not overlap; they may touch. An interval inside another always gets the lower level
    of the two: whatever kept it from a level keeps the outer one from it too.
    """
    levels = [0] * len(intervals)
    taken: list[list[tuple[int, int]]] = []
    for number in sorted(range(len(intervals)), key=lambda n: (intervals[n][1] - intervals[n][0], intervals[n])):
        start, end = intervals[number]
        level = 0
        while level < len(taken) and any(start < stop and begin < end for begin, stop in taken[level]):
            level += 1
        if level == len(taken):
            taken.append([])
        taken[level].append((start, end))
        levels[number] = level
    return levels


def _ends_in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """All ends of all arcs from left to right, as (number of the arc, side).

    On one word, arcs from the left end first, the shortest leftmost; then come arcs within the word; then arcs
    to the right begin, the longest leftmost. So arcs that can nest do, and do not cross.
    """

    def place(end: tuple[int, str]) -> tuple[int, ...]:
        number, side = end
        left, right = pairs[number]
        length = right - left
        if not length:
            return left, 1, 0, number, int(side == "right")
        if side == "right":
            return right, 0, length, -number, 0
        return left, 2, -length, number, 0

    return sorted(((n, side) for n in range(len(pairs)) for side in ("left", "right")), key=place)
