"""Lay out a sentence as chunks: words, bars under them and arcs above them, in small grids.

Only the browser knows the width of a word, since it knows the font, the zoom and the script. So this layout contains no
lengths. A sentence is a row of *chunks*. Each chunk is a grid whose columns get their widths from words, entity labels
and relation labels: from the browser in HTML, where it is a CSS grid, and from estimates in SVG. All chunks share a
base line and row heights, so an arc continues from chunk to chunk at the same height, and lines can break between any
two chunks. Nothing overlaps, no script is needed, and CSS mirrors right-to-left text by itself.

An arc that crosses a line break continues on the next line at the same height and in the same colour. Long arcs have
their label twice, once in each half, with an arrow that shows the direction of the relation.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from cascade_srn.types import Sentence, Span, Triple

# Overlapping entities stay on one line up to this number of characters, which fits on a phone.
MAX_CHUNK_WIDTH = 30
# An arc over more characters has its label twice.
LONG_ARC = 60
# Font size of labels relative to words, with their weight.
LABEL_SIZE = 0.75

# Character widths of a common sans-serif font, in hundredths of the font size.
_CHARS_BY_WIDTH = {
    20: "'ijl|",
    29: " !,./:;I[\\]ft",
    36: '"()-`r{}',
    42: "*^",
    53: "Jcksvxyz",
    58: "#$0123456789?L_abdeghnopqu",
    61: "+<=>~FTZ",
    70: "&ABEKPSVXY",
    76: "CDHNRUw",
    81: "GOQ",
    89: "Mm%",
    98: "W@",
}
_CHAR_WIDTHS = {char: width / 100 for width, chars in _CHARS_BY_WIDTH.items() for char in chars}
_OTHER_WIDTH, _WIDE_WIDTH = 0.62, 1.02
# Width of bold text relative to regular text.
BOLD = 1.08

# The first word and the one after the last.
WordRange = tuple[int, int]
# CSS grid lines, counted from 1 within a chunk: the first column and the one after the last.
ColumnRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Arc:
    """A relation as an arc. ``left`` and ``right`` are its positions among all arc ends of the sentence.

    Level 0 is next to the text. ``forward``: the object is at the right end.
    """

    triple: Triple
    left_word: int
    right_word: int
    left: int
    right: int
    level: int
    forward: bool

    def arrows(self, symmetric: Collection[str]) -> tuple[bool, bool]:
        """Return whether the left and the right end have an arrow."""
        directed = self.triple.label not in symmetric
        return directed and not self.forward, directed and self.forward


@dataclass(frozen=True, slots=True)
class WordCell:
    """A word with the entity whose bar is next to it, and in ``after`` the text up to the next word.

    ``joined``: that text is inside the entity.
    """

    text: str
    columns: ColumnRange
    entity: Span | None
    after: str
    joined: bool

    @property
    def gap(self) -> bool:
        """Whether white space follows."""
        return any(map(str.isspace, self.after))


@dataclass(frozen=True, slots=True)
class Bar:
    """The part of an entity in one chunk. Row 0 is next to the text. ``gap``: white space follows."""

    entity: Span
    row: int
    columns: ColumnRange
    opens: bool
    closes: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """The part of an arc in one chunk. ``number`` is the position of the arc in the sentence."""

    number: int
    arc: Arc
    columns: ColumnRange
    left_end: bool
    right_end: bool
    labelled: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """Words that stay on one line, with their bars and arcs."""

    cells: list[WordCell] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    @property
    def n_levels(self) -> int:
        """Number of arc levels above the words."""
        return 1 + max((curve.arc.level for curve in self.curves), default=-1)


@dataclass(frozen=True, slots=True)
class SentenceLayout:
    """A sentence as chunks. ``n_rows`` is the number of bar rows of each chunk."""

    chunks: list[Chunk]
    n_rows: int
    direction: str


def lay_out(
    sentence: Sentence,
    *,
    gaps: Sequence[str] | None = None,
    labels: Mapping[Triple, str] | None = None,
    max_width: int = MAX_CHUNK_WIDTH,
) -> SentenceLayout:
    """Lay out a sentence. ``gaps`` is the text after each word, ``labels`` are those of the arcs."""
    gaps = offset_gaps(sentence) if gaps is None else gaps
    arc_labels = {triple: triple.label for triple in sentence.triples} | dict(labels or {})
    arcs = place_arcs(sentence.triples)
    rows = assign_rows(sentence.entities)
    nearest = _find_nearest(rows, len(sentence))
    columns = _GridColumns(sentence, arcs)
    spans = split_chunks(sentence, gaps, max_width)
    for arc in arcs:
        spans = _join_for_label(terminal_width(arc_labels[arc.triple]), arc, spans, columns, max_width)
    chunks = [Chunk() for _ in spans]
    for chunk, (first, end) in zip(chunks, spans, strict=True):
        for word in range(first, end):
            entity = nearest[word]
            joined = entity is not None and entity == nearest[word + 1]
            place = columns.of_words(word, word + 1, first)
            chunk.cells.append(WordCell(sentence.words[word], place, entity, gaps[word], joined))
    starts = [first for first, _ in spans]
    for entity, row in rows.items():
        # Bisection, since there may be thousands of entities and chunks.
        for at in range(bisect_right(starts, entity.start) - 1, bisect_left(starts, entity.end)):
            first, end = spans[at]
            low, high = max(entity.start, first), min(entity.end, end)
            place = columns.of_words(low, high, first)
            opens, closes = low == entity.start, high == entity.end
            chunks[at].bars.append(Bar(entity, row, place, opens, closes, closes and bool(gaps[high - 1])))
    for number, arc in enumerate(arcs):
        _add_curves(number, arc, chunks, spans, columns)
    return SentenceLayout(chunks, 1 + max(rows.values(), default=-1), text_direction(sentence.words))


def offset_gaps(sentence: Sentence) -> list[str]:
    """Return a space or nothing after each word, as the offsets say."""
    starts = [start for start, _ in sentence.offsets[1:]]
    return [" " * (start > end) for start, (_, end) in zip(starts, sentence.offsets, strict=False)] + [""] * bool(
        sentence.words
    )


def terminal_width(text: str) -> int:
    """Return the width of a text in terminal columns: 2 for a wide character, 0 for a combining one."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def text_width(text: str, font_size: float) -> float:
    """Estimate the width of a text in a sans-serif font."""
    return font_size * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    if char in _CHAR_WIDTHS:
        return _CHAR_WIDTHS[char]
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return _WIDE_WIDTH if unicodedata.east_asian_width(char) in "WF" or ord(char) > 0xFFFF else _OTHER_WIDTH


def cut_to_width(text: str, font_size: float, max_width: float) -> list[str]:
    """Cut a text into pieces of at most ``max_width``, each with at least one character."""
    pieces, start, piece_width = [], 0, 0.0
    for i, char in enumerate(text):
        step = font_size * _char_width(char)
        if i > start and piece_width + step > max_width:
            pieces.append(text[start:i])
            start, piece_width = i, 0.0
        piece_width += step
    return [*pieces, text[start:]]


def text_direction(words: Sequence[str]) -> str:
    """Return ``rtl`` if most letters belong to right-to-left scripts, else ``ltr``."""
    classes = [unicodedata.bidirectional(char) for word in words for char in word]
    return "rtl" if sum(c in ("R", "AL") for c in classes) > classes.count("L") else "ltr"


def split_chunks(sentence: Sentence, gaps: Sequence[str], max_width: int = MAX_CHUNK_WIDTH) -> list[WordRange]:
    """Split a sentence into chunks ``[first, end)`` of words that stay on one line.

    Lines break at white space, but not inside entities. Long entities and long chains of overlapping entities are split
    into parts of at most ``max_width`` characters.
    """
    breaks = {i for i in range(1, len(sentence)) if any(map(str.isspace, gaps[i - 1]))}
    widths = [terminal_width(word) + 1 for word in sentence.words]
    for start, end in _merge_overlapping(sentence.entities):
        room = max_width
        for i in range(start, end):
            room -= widths[i]
            if i == start:
                continue
            if room >= 0:
                breaks.discard(i)
            elif i in breaks:
                room = max_width - widths[i]
    return list(pairwise([0, *sorted(breaks), len(sentence)])) if len(sentence) else []


def _merge_overlapping(entities: Iterable[Span]) -> list[WordRange]:
    merged: list[WordRange] = []
    for entity in sorted(entities):
        if merged and entity.start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], entity.end))
        else:
            merged.append((entity.start, entity.end))
    return merged


def anchor_word(entity: Span) -> int:
    """Return the word under the arc ends of an entity: the middle one, or the one before the middle."""
    return entity.start + (entity.end - entity.start - 1) // 2


def place_arcs(triples: Sequence[Triple]) -> list[Arc]:
    """Return an arc for each distinct triple, in order. No two arcs share a piece of a line."""
    triples = list(dict.fromkeys(triples))
    words = [(anchor_word(triple.head), anchor_word(triple.tail)) for triple in triples]
    ends = _sort_ends([(min(pair), max(pair)) for pair in words])
    stops = {end: stop for stop, end in enumerate(ends)}
    intervals = [(stops[number, "left"], stops[number, "right"]) for number in range(len(triples))]
    return [
        Arc(
            triple,
            min(pair),
            max(pair),
            *interval,
            level,
            forward=pair[0] < pair[1] or (pair[0] == pair[1] and triple.head <= triple.tail),
        )
        for triple, pair, interval, level in zip(triples, words, intervals, assign_levels(intervals), strict=True)
    ]


def assign_levels(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Return the lowest free level of each interval, short intervals first.

    Intervals on one level do not overlap, but may touch. An interval inside another has a lower level than it: a level
    that is not free for the inner one is not free for the outer one either.
    """
    levels = [0] * len(intervals)
    taken: list[list[tuple[int, int]]] = []
    for number in sorted(range(len(intervals)), key=lambda n: (intervals[n][1] - intervals[n][0], intervals[n])):
        start, end = intervals[number]
        level = 0
        while level < len(taken) and any(start < high and low < end for low, high in taken[level]):
            level += 1
        if level == len(taken):
            taken.append([])
        taken[level].append((start, end))
        levels[number] = level
    return levels


def _sort_ends(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """Return all arc ends from left to right, as (number of the arc, side).

    On one word, arcs from the left end first, the shortest leftmost. Arcs within the word follow. Arcs to the right
    start last, the longest leftmost. So arcs nest instead of crossing where they can.
    """

    def sort_key(end: tuple[int, str]) -> tuple[int, ...]:
        number, side = end
        left, right = pairs[number]
        length = right - left
        if not length:
            return left, 1, 0, number, int(side == "right")
        if side == "right":
            return right, 0, length, -number, 0
        return left, 2, -length, number, 0

    return sorted(((n, side) for n in range(len(pairs)) for side in ("left", "right")), key=sort_key)


def assign_rows(entities: Sequence[Span]) -> dict[Span, int]:
    """Return the bar row of each entity. Overlapping entities have different rows, the longest next to the text."""
    rows: dict[Span, int] = {}
    for entity in sorted(entities, key=lambda entity: (entity.start - entity.end, entity.start)):
        taken = {row for other, row in rows.items() if other.start < entity.end and entity.start < other.end}
        rows[entity] = next(row for row in range(len(rows) + 1) if row not in taken)
    return rows


def _find_nearest(rows: Mapping[Span, int], n_words: int) -> list[Span | None]:
    """Return the entity whose bar is next to each word, and None for the end."""
    nearest: list[Span | None] = [None] * (n_words + 1)
    for entity in sorted(rows, key=rows.__getitem__, reverse=True):
        nearest[entity.start : entity.end] = [entity] * (entity.end - entity.start)
    return nearest


class _GridColumns:
    """Grid columns of a sentence. A word under n arc ends has n + 1 columns, with the ends between them."""

    def __init__(self, sentence: Sentence, arcs: Sequence[Arc]) -> None:
        ends = sorted([(a.left, a.left_word) for a in arcs] + [(a.right, a.right_word) for a in arcs])
        words_of_stops = [word for _, word in ends]
        self.starts = [0]
        self.widths: list[float] = []
        for number, word in enumerate(sentence.words):
            n_columns = 1 + words_of_stops.count(number)
            self.starts.append(self.starts[-1] + n_columns)
            self.widths += [(terminal_width(word) + 1) / n_columns] * n_columns
        # Each earlier stop and each word up to its own adds a column.
        self.stops = [stop + word + 1 for stop, word in enumerate(words_of_stops)]

    def of_words(self, low: int, high: int, first: int) -> ColumnRange:
        """Return the columns of words ``[low, high)`` in the chunk that starts at the word ``first``."""
        return self.starts[low] - self.starts[first] + 1, self.starts[high] - self.starts[first] + 1


def _add_curves(
    number: int, arc: Arc, chunks: Sequence[Chunk], spans: Sequence[WordRange], columns: _GridColumns
) -> None:
    """Cut an arc at the borders of chunks, and put its label on the widest piece."""
    left, right = columns.stops[arc.left], columns.stops[arc.right]
    pieces = _cut_arc(arc, spans, columns)
    labelled = [_find_widest(pieces, part) for part in _labelled_parts(pieces)]
    for at, piece in enumerate(pieces):
        begin = columns.starts[spans[piece.chunk][0]]
        place = (piece.low - begin + 1, piece.high - begin + 1)
        ends = {"left_end": piece.low == left, "right_end": piece.high == right}
        chunks[piece.chunk].curves.append(Curve(number, arc, place, **ends, labelled=at in labelled))


class _ArcPiece(NamedTuple):
    """The columns ``[low, high)`` of an arc in a chunk, and their estimated width."""

    chunk: int
    low: int
    high: int
    width: float


def _cut_arc(arc: Arc, spans: Sequence[WordRange], columns: _GridColumns) -> list[_ArcPiece]:
    left, right = columns.stops[arc.left], columns.stops[arc.right]
    pieces = []
    for chunk, (first, end) in enumerate(spans):
        low, high = max(left, columns.starts[first]), min(right, columns.starts[end])
        if low < high:
            pieces.append(_ArcPiece(chunk, low, high, sum(columns.widths[low:high])))
    return pieces


def _labelled_parts(pieces: Sequence[_ArcPiece]) -> list[range]:
    """Return the parts of an arc that have a label each: the whole arc, or both halves of a long one."""
    whole = range(len(pieces))
    if sum(piece.width for piece in pieces) <= LONG_ARC or len(whole) < 4:
        return [whole]
    middle = len(whole) // 2
    return [whole[:middle], whole[middle:]]


def _find_widest(pieces: Sequence[_ArcPiece], part: range) -> int:
    return max(part, key=lambda at: pieces[at].width)


def _join_for_label(
    label_width: int, arc: Arc, spans: list[WordRange], columns: _GridColumns, max_width: int
) -> list[WordRange]:
    """Join chunks under an arc until its label fits above them, so that it does not spread short words apart."""
    needed = LABEL_SIZE * label_width + 3
    joined = list(spans)
    pieces = _cut_arc(arc, spans, columns)
    # From the end, so that joining does not move earlier positions.
    for part in reversed(_labelled_parts(pieces)):
        first = last = _find_widest(pieces, part)
        while sum(piece.width for piece in pieces[first : last + 1]) < needed and last - first + 1 < len(part):
            before = pieces[first - 1].width if first > part.start else -1
            after = pieces[last + 1].width if last + 1 < part.stop else -1
            first, last = (first - 1, last) if before > after else (first, last + 1)
        first_chunk, last_chunk = pieces[first].chunk, pieces[last].chunk
        low, high = spans[first_chunk][0], spans[last_chunk][1]
        if sum(columns.widths[columns.starts[low] : columns.starts[high]]) <= max_width:
            joined[first_chunk : last_chunk + 1] = [(low, high)]
    return joined
