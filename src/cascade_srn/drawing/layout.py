"""A sentence as pieces that a browser can set: words, bars under them, arcs above them, in small grids.

**Why not one picture.** How wide a word is, only the browser knows: it has the font, the zoom and the script. So
nothing is measured or estimated to place anything. The sentence becomes a row of *chunks*, each a small CSS grid
whose columns are made by what stands in it: words, entity labels, relation labels. Chunks stand on one base and
their rows are equally high, so an arc goes on from chunk to chunk at its own height, and the browser may begin a new
line between any two of them, at any width of window and any size of type; a line is as high as its own arcs need.
No script is needed, nothing can be laid over anything else, and right-to-left text is mirrored by the grid itself.

**Arcs across lines** run out at the end of one line and come in at the same height, in the same colour and line
style, on the next. Long ones carry their label twice, once in each half, and an arrow in the label shows which
way the relation goes even where neither end is in view.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cascade_srn.drawing.labels import KEPT_TOGETHER, direction, extents, width
from cascade_srn.types import Sentence, Span, Triple


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


# An arc over more characters than this has its label twice.
LONG_ARC = 60

# The size of a label's type, its weight counted in, against that of the words.
LABEL_SIZE = 0.75

# The first word and the one after the last.
Words = tuple[int, int]
# Grid lines, counted from 1 within a chunk, as in CSS: the first and the one after the last column.
Columns = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """A word, and in ``aside`` the text after it that belongs to no word.

    ``entity`` is the one whose bar is next to the word; ``gap`` says whether white space follows, ``joined``
    whether that lies within the entity.
    """

    text: str
    columns: Columns
    entity: Span | None
    gap: bool
    joined: bool
    aside: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The part of an entity that lies in one chunk. Row 0 is next to the text; ``gap``: white space follows."""

    entity: Span
    row: int
    columns: Columns
    opens: bool
    closes: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """The part of an arc that lies in one chunk; ``number`` is that of the arc."""

    number: int
    arc: Arc
    columns: Columns
    left_end: bool
    right_end: bool
    labelled: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Words that stay on one line, and what is drawn around them."""

    cells: list[Cell] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    @property
    def n_levels(self) -> int:
        """How many levels of arcs it needs above its words."""
        return 1 + max((curve.arc.level for curve in self.curves), default=-1)


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole sentence: its chunks in order, how many rows of bars each of them has, its direction."""

    chunks: list[Chunk]
    n_rows: int
    direction: str


def lay_out(
    sentence: Sentence, *, between: Sequence[str] | None = None, labels: Mapping[Triple, str] | None = None
) -> Layout:
    """Lay a sentence out.

    ``between`` is the text after each word (left out: spaces where the offsets have gaps), ``labels`` what arcs have
    written on them (left out: the relation types).
    """
    between = gaps(sentence) if between is None else between
    written = {triple: triple.label for triple in sentence.triples} | dict(labels or {})
    arcs = place_arcs(sentence.triples)
    rows = stack(sentence.entities)
    nearest = _nearest(rows, len(sentence))
    columns = _Columns(sentence, arcs)
    spans = extents(sentence, between)
    for arc in arcs:
        spans = _with_room(width(written[arc.triple]), arc, spans, columns)
    chunks = [Chunk() for _ in spans]
    for chunk, (first, end) in zip(chunks, spans, strict=True):
        for word in range(first, end):
            chunk.cells.append(_cell(sentence, word, nearest, columns.of_words(word, word + 1, first), between[word]))
    starts = [first for first, _ in spans]
    for entity, row in rows.items():
        # Only the chunks that it lies in are looked at: there may be thousands of both.
        for at in range(bisect_right(starts, entity.start) - 1, bisect_left(starts, entity.end)):
            first, end = spans[at]
            low, high = max(entity.start, first), min(entity.end, end)
            place = columns.of_words(low, high, first)
            opens, closes = low == entity.start, high == entity.end
            chunks[at].bars.append(Bar(entity, row, place, opens, closes, closes and bool(between[high - 1])))
    for number, arc in enumerate(arcs):
        _add_curves(number, arc, chunks, spans, columns)
    return Layout(chunks, 1 + max(rows.values(), default=-1), direction(sentence.words))


def gaps(sentence: Sentence) -> list[str]:
    """What stands after each word as far as the offsets tell: a space or nothing."""
    starts = [start for start, _ in sentence.offsets[1:]]
    return [" " * (start > end) for start, (_, end) in zip(starts, sentence.offsets, strict=False)] + [""] * bool(
        sentence.words
    )


def stack(entities: Sequence[Span]) -> dict[Span, int]:
    """A row for each entity: those that share words in different rows, the longest next to the text.

    An entity inside another therefore has its bar directly under the other's.
    """
    ordered = sorted(entities, key=lambda entity: (entity.start - entity.end, entity.start))
    rows: dict[Span, int] = {}
    for entity in ordered:
        taken = {row for other, row in rows.items() if other.start < entity.end and entity.start < other.end}
        rows[entity] = next(row for row in range(len(rows) + 1) if row not in taken)
    return rows


def _nearest(rows: Mapping[Span, int], n_words: int) -> list[Span | None]:
    """For each word the entity whose bar is next to it."""
    found: list[Span | None] = [None] * n_words
    for entity in sorted(rows, key=rows.__getitem__, reverse=True):
        found[entity.start : entity.end] = [entity] * (entity.end - entity.start)
    return found


def _cell(sentence: Sentence, word: int, nearest: Sequence[Span | None], columns: Columns, after: str) -> Cell:
    entity = nearest[word]
    joined = entity is not None and word + 1 < len(nearest) and entity == nearest[word + 1]
    return Cell(sentence.words[word], columns, entity, any(map(str.isspace, after)), joined, after.strip())


class _Columns:
    """Grid columns of a whole sentence: a word that n arcs stand on has n + 1, and they stand between them."""

    def __init__(self, sentence: Sentence, arcs: Sequence[Arc]) -> None:
        ends = sorted([(a.left, a.left_word) for a in arcs] + [(a.right, a.right_word) for a in arcs])
        words_of_stops = [word for _, word in ends]
        self.starts = [0]
        self.widths: list[float] = []
        for number, word in enumerate(sentence.words):
            n_columns = 1 + words_of_stops.count(number)
            self.starts.append(self.starts[-1] + n_columns)
            self.widths += [(width(word) + 1) / n_columns] * n_columns
        # Every stop before it has added a column, and so has every word up to its own.
        self.stops = [stop + word + 1 for stop, word in enumerate(words_of_stops)]

    def of_words(self, low: int, high: int, first: int) -> Columns:
        """The columns of words ``[low, high)`` in the chunk that begins with the word ``first``."""
        return self.starts[low] - self.starts[first] + 1, self.starts[high] - self.starts[first] + 1


def _add_curves(number: int, arc: Arc, chunks: Sequence[Chunk], spans: Sequence[Words], columns: _Columns) -> None:
    """Cut an arc at the borders of chunks and put its label where there is most room."""
    left, right = columns.stops[arc.left], columns.stops[arc.right]
    pieces = _pieces(arc, spans, columns)
    labelled = [_widest(pieces, part) for part in _parts(pieces)]
    for at, piece in enumerate(pieces):
        begin = columns.starts[spans[piece.chunk][0]]
        place = (piece.low - begin + 1, piece.high - begin + 1)
        ends = {"left_end": piece.low == left, "right_end": piece.high == right}
        chunks[piece.chunk].curves.append(Curve(number, arc, place, **ends, labelled=at in labelled))


class _Piece(NamedTuple):
    """Where an arc crosses a chunk: from which column to which, and how much room there is."""

    chunk: int
    low: int
    high: int
    room: float


def _pieces(arc: Arc, spans: Sequence[Words], columns: _Columns) -> list[_Piece]:
    left, right = columns.stops[arc.left], columns.stops[arc.right]
    found = []
    for chunk, (first, end) in enumerate(spans):
        low, high = max(left, columns.starts[first]), min(right, columns.starts[end])
        if low < high:
            found.append(_Piece(chunk, low, high, sum(columns.widths[low:high])))
    return found


def _parts(pieces: Sequence[_Piece]) -> list[range]:
    """The parts of an arc that have a label each: all of it, or the halves of a long one."""
    whole = range(len(pieces))
    if sum(piece.room for piece in pieces) <= LONG_ARC or len(whole) < 4:
        return [whole]
    middle = len(whole) // 2
    return [whole[:middle], whole[middle:]]


def _widest(pieces: Sequence[_Piece], part: range) -> int:
    return max(part, key=lambda at: pieces[at].room)


def _with_room(label_width: int, arc: Arc, spans: list[Words], columns: _Columns) -> list[Words]:
    """Chunks joined under an arc until its label has room over them; short ones would be spread apart by it."""
    needed = LABEL_SIZE * label_width + 3
    joined = list(spans)
    pieces = _pieces(arc, spans, columns)
    # From the end, so that joining leaves the places before it as they are.
    for part in reversed(_parts(pieces)):
        first = last = _widest(pieces, part)
        while sum(piece.room for piece in pieces[first : last + 1]) < needed and last - first + 1 < len(part):
            before = pieces[first - 1].room if first > part.start else -1
            after = pieces[last + 1].room if last + 1 < part.stop else -1
            first, last = (first - 1, last) if before > after else (first, last + 1)
        one, other = pieces[first].chunk, pieces[last].chunk
        low, high = spans[one][0], spans[other][1]
        if sum(columns.widths[columns.starts[low] : columns.starts[high]]) <= KEPT_TOGETHER:
            joined[one : other + 1] = [(low, high)]
    return joined
