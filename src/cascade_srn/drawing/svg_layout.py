"""Where everything stands in a picture of a sentence: words in lines, bars under them, arcs above them.

Unlike in :mod:`~cascade_srn.drawing.layout`, there is no browser that could do it, so places are computed, from
estimated widths. Room for labels is made between words where there is too little. Arcs are given their heights line
by line, by the room that they and their labels really take, so that no two lie over each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cascade_srn.drawing.labels import BOLD, cut_to_width, extents, text_width
from cascade_srn.drawing.layout import Arc, pack, place_arcs, stack
from cascade_srn.types import Sentence, Span

TYPE, SMALL = 16.0, 11.0  # the sizes of words and of labels
LINE, ROW, LEVEL, FEET = 22.0, 16.0, 18.0, 8.0  # the heights of words, of bars, of arcs, of what is below the lowest
SPACE, STOP, AROUND = 5.0, 10.0, 12.0  # between words, between ends of arcs on a word, what a label needs beside it


@dataclass(slots=True)
class Cell:
    """A word, a part of one that is too long for a line, or text between words (then ``word`` is None)."""

    text: str
    word: int | None
    width: float
    gap: float
    stops: list[int] = field(default_factory=list)
    x: float = 0.0


@dataclass(frozen=True, slots=True)
class BarPart:
    """The part of an entity on one line, in the row below its words; ``opens`` where the entity begins."""

    entity: Span
    left: float
    right: float
    row: int
    opens: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class ArcPart:
    """The part of an arc on one line, at a level above its words; ``label`` is where its label is centred, if any."""

    arc: Arc
    left: float
    right: float
    left_end: bool
    right_end: bool
    level: int
    label: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a sentence."""

    cells: list[Cell]
    bars: list[BarPart]
    arcs: list[ArcPart]
    n_levels: int
    n_rows: int

    @property
    def above(self) -> float:
        """The height of its arcs."""
        return self.n_levels * LEVEL + FEET if self.n_levels else 0.0

    @property
    def height(self) -> float:
        """The height of all of it."""
        return self.above + LINE + self.n_rows * ROW


def label_width(label: str) -> float:
    """How wide a label is."""
    return BOLD * text_width(label, SMALL)


def lay_out_lines(sentence: Sentence, *, between: Sequence[str], labels: Sequence[str], width: float) -> list[Line]:
    """The lines of a sentence, each no wider than ``width``.

    ``between`` is the text after each word; ``labels`` are those of the arcs that :func:`place_arcs` gives, in order.
    """
    arcs = place_arcs(sentence.triples)
    cells = _cells(sentence, between, arcs, width)
    first = {cell.word: at for at, cell in reversed(list(enumerate(cells))) if cell.word is not None}
    last = {cell.word: at for at, cell in enumerate(cells) if cell.word is not None}
    _make_room_for_bars(sentence, cells, first, last)
    _make_room_for_arcs(arcs, labels, cells, first, width)
    rows = stack(sentence.entities)
    lines = []
    parts = [range(*ends) for ends in _broken(cells, _chunks(sentence, between, first, len(cells)), width)]
    needed = [label_width(label) + AROUND for label in labels]
    segments = [_segments(arcs, needed, cells, first, part, width) for part in parts]
    roomy = {segment.arc for found in segments for segment in found if segment.room >= segment.needed}
    begins = [part.start for part in parts]
    barred: list[list[BarPart]] = [[] for _ in parts]
    for entity, row in rows.items():
        low, high = first[entity.start], last[entity.end - 1]
        # Only the lines that it lies in are looked at: there may be hundreds, and thousands of entities.
        for at in range(bisect_right(begins, low) - 1, bisect_right(begins, high)):
            barred[at].append(_bar(entity, row, low, high, cells, parts[at]))
    for part, found, bars in zip(parts, segments, barred, strict=True):
        legs = sorted(_stop_at(cells[at], stop) for at in part for stop in cells[at].stops)
        shown = _arc_parts(found, roomy, legs, width)
        n_levels = 1 + max((arc.level for arc in shown), default=-1)
        n_rows = 1 + max((bar.row for bar in bars), default=-1)
        lines.append(Line(cells[part.start : part.stop], bars, shown, n_levels, n_rows))
    return lines


def _cells(sentence: Sentence, between: Sequence[str], arcs: Sequence[Arc], width: float) -> list[Cell]:
    ends = sorted([(a.left, a.left_word) for a in arcs] + [(a.right, a.right_word) for a in arcs])
    stops: dict[int, list[int]] = {}
    for stop, word in ends:
        stops.setdefault(word, []).append(stop)
    cells = []
    for word, (text, after) in enumerate(zip(sentence.words, between, strict=True)):
        pieces = cut_to_width(" ".join(text.split()) or " ", TYPE, width / 2)
        for number, piece in enumerate(pieces):
            own = stops.get(word, []) if not number else []
            wanted = max(text_width(piece, TYPE), STOP * (len(own) + 1) if own else 0.0)
            cells.append(Cell(piece, word, wanted, 0.0, own))
        cells[-1].gap = SPACE * after[:1].isspace()
        if aside := " ".join(after.split()):
            cells += [Cell(piece, None, text_width(piece, TYPE), 0.0) for piece in cut_to_width(aside, TYPE, width / 2)]
            cells[-1].gap = SPACE * after[-1:].isspace()
    return cells


def _make_room_for_bars(sentence: Sentence, cells: list[Cell], first: dict[int, int], last: dict[int, int]) -> None:
    """An entity is at least as wide as its label, short ones first, as long ones may hold them."""
    for entity in sorted(sentence.entities, key=lambda entity: entity.end - entity.start):
        held = cells[first[entity.start] : last[entity.end - 1] + 1]
        missing = label_width(entity.label) + SPACE - _extent(held)
        if missing > 0:
            for cell in held:
                cell.width += missing / len(held)


def _make_room_for_arcs(
    arcs: Sequence[Arc], labels: Sequence[str], cells: list[Cell], first: dict[int, int], width: float
) -> None:
    """An arc is at least as long as its label, unless it is of one that no line has room for."""
    for arc, label in sorted(zip(arcs, labels, strict=True), key=lambda pair: pair[0].right - pair[0].left):
        left, right = first[arc.left_word], first[arc.right_word]
        _set(cells)
        missing = label_width(label) + AROUND - (_stop_at(cells[right], arc.right) - _stop_at(cells[left], arc.left))
        if left == right:
            # Stops divide the word evenly, so all of it has to grow for two of them to part.
            stops = cells[left].stops
            missing *= (len(stops) + 1) / (stops.index(arc.right) - stops.index(arc.left))
        if missing > 0 and _extent(cells[left : right + 1]) + missing < width:
            if left == right:
                cells[left].width += missing
            else:
                cells[right - 1].gap += missing


def _chunks(sentence: Sentence, between: Sequence[str], first: dict[int, int], n_cells: int) -> list[int]:
    """The cells that a line may begin with."""
    return [first[start] for start, _ in extents(sentence, between)] + [n_cells]


def _broken(cells: list[Cell], starts: Sequence[int], width: float) -> list[tuple[int, int]]:
    """The cells ``[begin, end)`` of each line, with their places set."""
    begins: list[int] = [0] if cells else []
    x = 0.0
    chunk_ends = dict(pairwise(starts))
    for at, cell in enumerate(cells):
        # What has to fit: the whole chunk that begins here; within one that is wider than a line, only the cell.
        needed = _extent(cells[at : chunk_ends[at]]) if at in chunk_ends else cell.width
        if at > begins[-1] and x + needed > width:
            begins.append(at)
            x = 0.0
        cell.x = x
        x += cell.width + cell.gap
    return list(zip(begins, [*begins[1:], len(cells)], strict=True)) if cells else []


def _set(cells: Sequence[Cell]) -> None:
    """Places as they are while everything stands on one line."""
    x = 0.0
    for cell in cells:
        cell.x = x
        x += cell.width + cell.gap


def _extent(cells: Sequence[Cell]) -> float:
    return sum(cell.width + cell.gap for cell in cells) - (cells[-1].gap if cells else 0.0)


def _stop_at(cell: Cell, stop: int) -> float:
    """Where an end of an arc stands on a word: the ends on it divide it evenly."""
    return cell.x + cell.width * (cell.stops.index(stop) + 1) / (len(cell.stops) + 1)


def _bar(entity: Span, row: int, low: int, high: int, cells: Sequence[Cell], part: range) -> BarPart:
    begin, end = max(low, part.start), min(high + 1, part.stop)
    right = cells[end - 1].x + cells[end - 1].width
    return BarPart(entity, cells[begin].x, right, row, begin == low, end == high + 1)


@dataclass(frozen=True, slots=True)
class _Segment:
    """What of an arc is on one line, and how much room its label needs."""

    arc: Arc
    low: float
    high: float
    left_end: bool
    right_end: bool
    needed: float

    @property
    def room(self) -> float:
        return self.high - self.low


def _segments(
    arcs: Sequence[Arc],
    needed: Sequence[float],
    cells: Sequence[Cell],
    first: dict[int, int],
    part: range,
    width: float,
) -> list[_Segment]:
    found = []
    for arc, room in zip(arcs, needed, strict=True):
        left, right = first[arc.left_word], first[arc.right_word]
        if left < part.stop and right >= part.start:
            left_end, right_end = left >= part.start, right < part.stop
            low = _stop_at(cells[left], arc.left) if left_end else 0.0
            high = _stop_at(cells[right], arc.right) if right_end else width
            found.append(_Segment(arc, low, high, left_end, right_end, room))
    return found


def _arc_parts(segments: Sequence[_Segment], roomy: set[Arc], legs: Sequence[float], width: float) -> list[ArcPart]:
    """The arcs of a line with their heights. A label stands wherever it has room, or else where its arc begins."""
    centres: list[float | None] = []
    taken: list[tuple[int, int]] = []
    for segment in segments:
        begin, end = segment.low, segment.high
        if segment.room >= segment.needed or (segment.left_end and segment.arc not in roomy):
            half = segment.needed / 2
            centre = _clear_of(legs, segment.low, segment.high, segment.needed)
            centre = min(max(centre, half), max(half, width - half))
            begin, end = min(begin, centre - half), max(end, centre + half)
            centres.append(centre)
        else:
            centres.append(None)
        taken.append((round(begin) - 2, round(end) + 2))
    return [
        ArcPart(segment.arc, segment.low, segment.high, segment.left_end, segment.right_end, level, centre)
        for segment, centre, level in zip(segments, centres, pack(taken), strict=True)
    ]


def _clear_of(legs: Sequence[float], low: float, high: float, needed: float) -> float:
    """The place for a label that is nearest to the middle of its arc and that no end of an arc runs through.

    Where there is none, the middle: labels lie over lines.
    """
    middle = (low + high) / 2
    edges = [low, *(leg for leg in legs if low < leg < high), high]
    places = [
        min(max(middle, left + needed / 2), right - needed / 2)
        for left, right in pairwise(edges)
        if right - left >= needed
    ]
    return min(places, key=lambda place: abs(place - middle), default=middle)
