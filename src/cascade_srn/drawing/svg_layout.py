"""Lay out a sentence for SVG: words in lines, bars under them and arcs above them.

Unlike :mod:`~cascade_srn.drawing.layout`, this layout computes all positions, from estimated text widths. It widens the
space between words where labels need it. Each line assigns levels to its arcs by the space that they and their labels
take, so nothing overlaps.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cascade_srn.drawing.labels import BOLD, cut_to_width, split_chunks, text_width
from cascade_srn.drawing.layout import Arc, assign_levels, assign_rows, place_arcs
from cascade_srn.types import Sentence, Span

FONT_SIZE, LABEL_FONT_SIZE = 16.0, 11.0
# Heights of words, bars, arc levels, and the ends below the lowest level.
TEXT_HEIGHT, ROW_HEIGHT, LEVEL_HEIGHT, END_HEIGHT = 22.0, 16.0, 18.0, 8.0
# Distances between words, between arc ends on a word, and around the label of an arc.
SPACE, STOP_GAP, LABEL_MARGIN = 5.0, 10.0, 12.0


@dataclass(slots=True)
class TextBox:
    """A word, a part of a word that is too long for a line, or text between words (then ``word`` is None).

    ``gap`` is the space after the box, and ``stops`` are the arc ends on it.
    """

    text: str
    word: int | None
    width: float
    gap: float
    stops: list[int] = field(default_factory=list)
    x: float = 0.0

    def stop_x(self, stop: int) -> float:
        """Return the x coordinate of an arc end. The ends divide the box evenly."""
        return self.x + self.width * (self.stops.index(stop) + 1) / (len(self.stops) + 1)


@dataclass(frozen=True, slots=True)
class BarPart:
    """The part of an entity on one line. ``opens`` and ``closes``: it contains the start or end of the entity."""

    entity: Span
    left: float
    right: float
    row: int
    opens: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class ArcPart:
    """The part of an arc on one line. ``label_x`` is the centre of its label, or None without a label."""

    arc: Arc
    left: float
    right: float
    left_end: bool
    right_end: bool
    level: int
    label_x: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a sentence."""

    boxes: list[TextBox]
    bars: list[BarPart]
    arcs: list[ArcPart]

    @property
    def arcs_height(self) -> float:
        """Height of the arcs above the words."""
        return (1 + max(arc.level for arc in self.arcs)) * LEVEL_HEIGHT + END_HEIGHT if self.arcs else 0.0

    @property
    def height(self) -> float:
        """Height of arcs, words and bars."""
        n_rows = 1 + max((bar.row for bar in self.bars), default=-1)
        return self.arcs_height + TEXT_HEIGHT + n_rows * ROW_HEIGHT


def label_width(label: str) -> float:
    """Return the width of a label."""
    return BOLD * text_width(label, LABEL_FONT_SIZE)


def lay_out_lines(sentence: Sentence, *, gaps: Sequence[str], labels: Sequence[str], width: float) -> list[Line]:
    """Lay out a sentence in lines. ``gaps`` is the text after each word, ``labels`` those of the arcs, in order."""
    arcs = place_arcs(sentence.triples)
    boxes = _make_boxes(sentence, gaps, arcs, width)
    first = {box.word: at for at, box in reversed(list(enumerate(boxes))) if box.word is not None}
    last = {box.word: at for at, box in enumerate(boxes) if box.word is not None}
    _widen_for_bars(sentence, boxes, first, last)
    _widen_for_arcs(arcs, labels, boxes, first, width)
    chunk_starts = [first[start] for start, _ in split_chunks(sentence, gaps)] + [len(boxes)]
    parts = _break_lines(boxes, chunk_starts, width)
    label_widths = [label_width(label) + LABEL_MARGIN for label in labels]
    segments = [_make_segments(arcs, label_widths, boxes, first, part, width) for part in parts]
    fitting = {segment.arc for found in segments for segment in found if segment.fits_label}
    part_starts = [part.start for part in parts]
    bars: list[list[BarPart]] = [[] for _ in parts]
    for entity, row in assign_rows(sentence.entities).items():
        low, high = first[entity.start], last[entity.end - 1]
        # Bisection, since there may be hundreds of lines and thousands of entities.
        for at in range(bisect_right(part_starts, low) - 1, bisect_right(part_starts, high)):
            bars[at].append(_make_bar(entity, row, low, high, boxes, parts[at]))
    lines = []
    for part, found, line_bars in zip(parts, segments, bars, strict=True):
        own = boxes[part.start : part.stop]
        legs = sorted(box.stop_x(stop) for box in own for stop in box.stops)
        lines.append(Line(own, line_bars, _make_arc_parts(found, fitting, legs, width)))
    return lines


def _make_boxes(sentence: Sentence, gaps: Sequence[str], arcs: Sequence[Arc], width: float) -> list[TextBox]:
    ends = sorted([(a.left, a.left_word) for a in arcs] + [(a.right, a.right_word) for a in arcs])
    stops: dict[int, list[int]] = {}
    for stop, word in ends:
        stops.setdefault(word, []).append(stop)
    boxes = []
    for word, (text, gap) in enumerate(zip(sentence.words, gaps, strict=True)):
        for number, piece in enumerate(cut_to_width(" ".join(text.split()) or " ", FONT_SIZE, width / 2)):
            own = stops.get(word, []) if not number else []
            box_width = max(text_width(piece, FONT_SIZE), STOP_GAP * (len(own) + 1) if own else 0.0)
            boxes.append(TextBox(piece, word, box_width, 0.0, own))
        boxes[-1].gap = SPACE * gap[:1].isspace()
        if aside := " ".join(gap.split()):
            pieces = cut_to_width(aside, FONT_SIZE, width / 2)
            boxes += [TextBox(piece, None, text_width(piece, FONT_SIZE), 0.0) for piece in pieces]
            boxes[-1].gap = SPACE * gap[-1:].isspace()
    return boxes


def _widen_for_bars(sentence: Sentence, boxes: list[TextBox], first: dict[int, int], last: dict[int, int]) -> None:
    """Make each entity as wide as its label. Short entities come first, since long ones may contain them."""
    for entity in sorted(sentence.entities, key=lambda entity: entity.end - entity.start):
        own = boxes[first[entity.start] : last[entity.end - 1] + 1]
        missing = label_width(entity.label) + SPACE - _total_width(own)
        if missing > 0:
            for box in own:
                box.width += missing / len(own)


def _widen_for_arcs(
    arcs: Sequence[Arc], labels: Sequence[str], boxes: list[TextBox], first: dict[int, int], width: float
) -> None:
    """Make each arc as wide as its label, unless it is too wide for a line."""
    for arc, label in sorted(zip(arcs, labels, strict=True), key=lambda pair: pair[0].right - pair[0].left):
        left, right = first[arc.left_word], first[arc.right_word]
        _place_in_one_line(boxes)
        arc_width = boxes[right].stop_x(arc.right) - boxes[left].stop_x(arc.left)
        missing = label_width(label) + LABEL_MARGIN - arc_width
        if left == right:
            # Stops divide the box evenly, so the whole box has to grow.
            stops = boxes[left].stops
            missing *= (len(stops) + 1) / (stops.index(arc.right) - stops.index(arc.left))
        if missing > 0 and _total_width(boxes[left : right + 1]) + missing < width:
            if left == right:
                boxes[left].width += missing
            else:
                boxes[right - 1].gap += missing


def _place_in_one_line(boxes: Sequence[TextBox]) -> None:
    x = 0.0
    for box in boxes:
        box.x = x
        x += box.width + box.gap


def _break_lines(boxes: list[TextBox], chunk_starts: Sequence[int], width: float) -> list[range]:
    """Place the boxes in lines, and return the boxes of each line."""
    starts: list[int] = [0] if boxes else []
    x = 0.0
    chunk_ends = dict(pairwise(chunk_starts))
    for at, box in enumerate(boxes):
        # At its start a chunk has to fit as a whole; inside a chunk wider than a line, only the box.
        needed = _total_width(boxes[at : chunk_ends[at]]) if at in chunk_ends else box.width
        if at > starts[-1] and x + needed > width:
            starts.append(at)
            x = 0.0
        box.x = x
        x += box.width + box.gap
    return [range(start, end) for start, end in pairwise([*starts, len(boxes)])]


def _total_width(boxes: Sequence[TextBox]) -> float:
    return sum(box.width + box.gap for box in boxes) - (boxes[-1].gap if boxes else 0.0)


def _make_bar(entity: Span, row: int, low: int, high: int, boxes: Sequence[TextBox], part: range) -> BarPart:
    begin, end = max(low, part.start), min(high + 1, part.stop)
    right = boxes[end - 1].x + boxes[end - 1].width
    return BarPart(entity, boxes[begin].x, right, row, begin == low, end == high + 1)


@dataclass(frozen=True, slots=True)
class _Segment:
    """The part of an arc on one line, before it has a level."""

    arc: Arc
    low: float
    high: float
    left_end: bool
    right_end: bool
    label_width: float

    @property
    def fits_label(self) -> bool:
        return self.high - self.low >= self.label_width


def _make_segments(
    arcs: Sequence[Arc],
    label_widths: Sequence[float],
    boxes: Sequence[TextBox],
    first: dict[int, int],
    part: range,
    width: float,
) -> list[_Segment]:
    segments = []
    for arc, needed in zip(arcs, label_widths, strict=True):
        left, right = first[arc.left_word], first[arc.right_word]
        if left < part.stop and right >= part.start:
            left_end, right_end = left >= part.start, right < part.stop
            low = boxes[left].stop_x(arc.left) if left_end else 0.0
            high = boxes[right].stop_x(arc.right) if right_end else width
            segments.append(_Segment(arc, low, high, left_end, right_end, needed))
    return segments


def _make_arc_parts(
    segments: Sequence[_Segment], fitting: set[Arc], legs: Sequence[float], width: float
) -> list[ArcPart]:
    """Assign levels and labels. A label is on every segment that it fits on, or else on the first one."""
    centres: list[float | None] = []
    intervals: list[tuple[int, int]] = []
    for segment in segments:
        low, high = segment.low, segment.high
        if segment.fits_label or (segment.left_end and segment.arc not in fitting):
            half = segment.label_width / 2
            centre = _find_clear_centre(legs, low, high, segment.label_width)
            centre = min(max(centre, half), max(half, width - half))
            low, high = min(low, centre - half), max(high, centre + half)
            centres.append(centre)
        else:
            centres.append(None)
        intervals.append((round(low) - 2, round(high) + 2))
    return [
        ArcPart(segment.arc, segment.low, segment.high, segment.left_end, segment.right_end, level, centre)
        for segment, centre, level in zip(segments, centres, assign_levels(intervals), strict=True)
    ]


def _find_clear_centre(legs: Sequence[float], low: float, high: float, needed: float) -> float:
    """Return the centre for a label that no arc end crosses and that is nearest to the middle of its arc.

    Without such a place the label is in the middle, on top of the lines.
    """
    middle = (low + high) / 2
    edges = [low, *(leg for leg in legs if low < leg < high), high]
    centres = [
        min(max(middle, left + needed / 2), right - needed / 2)
        for left, right in pairwise(edges)
        if right - left >= needed
    ]
    return min(centres, key=lambda centre: abs(centre - middle), default=middle)
