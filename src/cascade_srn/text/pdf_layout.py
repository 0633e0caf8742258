"""Join the words on the pages of a PDF to lines and paragraphs in reading order, from their places."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

from cascade_srn.text.pdf_worker import BOLD, MATH

KEEPABLE = ("headers", "references")
"""Parts that are left out unless they are to be kept. Headers include footers and page numbers."""

# Distances are shares of the size of the font. Words of a row that are further apart belong to two segments.
_SEGMENT_GAP = 0.9
_CELL_GAP = 1.1
_EQUAL_GAPS = 0.1
_MAX_STRETCH = 3.0
_INDENT = 0.8
_SAME_SIZE = 0.08
_LARGER_GAP = 1.3
# Columns have many long lines next to each other, unlike tables.
_MIN_COLUMN_LINES = 8
_MIN_COLUMN_CHARACTERS = 15
_MAX_DEPTH = 4
_MAX_CANDIDATES = 40
_MAX_HEIGHT = 20_000
# So many rows at the top and bottom of a page may be headers and footers, if they repeat at the same height.
_EDGE_ROWS = 3
_SAME_PLACE = 6.0
# So many tables, captions and footnotes may stand between the parts of a paragraph.
_MAX_FLOATS = 8
_END = re.compile(r"[.?!:;…][\"'”’)\]]*\Z")
_DIGITS = re.compile(r"[0-9]+")
_CAPTION = re.compile(r"(?:Figure|Fig\.|FIGURE|Table|TABLE|Tab\.|Algorithm|Listing)\s?\d")
_OPERATOR = re.compile(r"[=<>≤≥≈≡∼∝→←↔⇒∈⊂⊆∑∏∫√∞±×∂∇:+|]")
_EQUATION_NUMBER = re.compile(r"\(\d{1,3}(?:\.\d{1,3})?[a-z]?\)\Z")
_NAME = re.compile(r"[^\W\d_]{3,}")
_REFERENCES = re.compile(
    r"(?:(?:\d{1,2}|[IVX]{1,5}|[A-Z])\.?\s)?(?i:references(?: and notes| cited)?|bibliography|works cited"
    r"|literature cited|reference list)\s?:?\Z"
)
_AFTER_REFERENCES = re.compile(
    r"(?:(?:\w|[IVX]{1,5})\.?\s)?(?i:appendix|appendices|acknowledge?ments?|supplement\w*|author contributions"
    r"|biograph(?:y|ies))\b.{0,60}\Z"
)
_MAX_HEADING = 90


Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


class Word(NamedTuple):
    """A word on a page. Coordinates are points and grow to the right and upwards; ``y`` is the baseline."""

    text: str
    left: float
    right: float
    y: float
    size: float
    style: int = 0

    @property
    def box(self) -> Box:
        """Left, bottom, right and top."""
        return self.left, self.y - 0.22 * self.size, self.right, self.y + 0.75 * self.size


class Placed(NamedTuple):
    """A word of the text: its first character, its page, which counts from 0, and its box."""

    start: int
    end: int
    page: int
    box: Box


@dataclass(slots=True)
class PdfLine:
    """Line of text in a column, which extends from ``left`` to ``right``."""

    words: list[Word]
    page: int = 0
    left: float = 0.0
    right: float = 0.0
    kind: str = "text"
    column: int = 0
    y: float = field(init=False)
    size: float = field(init=False)

    def __post_init__(self) -> None:
        sizes: Counter[tuple[float, float]] = Counter()
        for word in self.words:
            sizes[word.size, word.y] += len(word.text)
        self.size, self.y = max(sizes, key=lambda key: sizes[key])

    @property
    def start(self) -> float:
        """Left edge of the first word."""
        return self.words[0].left

    @property
    def end(self) -> float:
        """Right edge of the last word."""
        return self.words[-1].right

    @property
    def text(self) -> str:
        """Text of the line."""
        return " ".join(word.text for word in self.words)

    @property
    def is_bold(self) -> bool:
        """Whether most of the line is bold."""
        return 2 * sum(len(word.text) for word in self.words if word.style & BOLD) > sum(
            len(w.text) for w in self.words
        )

    def cells(self) -> list[list[Word]]:
        """Return the words between wide gaps. The equal gaps of a justified line of prose are not wide."""
        found = [self.words[:1]]
        if self._is_stretched():
            return [self.words]
        for before, word in pairwise(self.words):
            if word.left - before.right > _CELL_GAP * self.size:
                found.append([])
            found[-1].append(word)
        return found

    def _is_stretched(self) -> bool:
        """Return whether a line fills its column by equal gaps, and most of its words have letters."""
        gaps = [word.left - before.right for before, word in pairwise(self.words)]
        return (
            len(gaps) > 1
            and max(gaps) - min(gaps) <= _EQUAL_GAPS * self.size
            and max(abs(self.start - self.left), abs(self.end - self.right)) <= _INDENT * self.size
            and sum(word.text[0].isalpha() for word in self.words) > 0.7 * len(self.words)
        )


class _Segment(NamedTuple):
    row: int
    words: list[Word]

    @property
    def left(self) -> float:
        return self.words[0].left

    @property
    def right(self) -> float:
        return max(word.right for word in self.words)


@dataclass(slots=True)
class _Paragraph:
    lines: list[PdfLine]
    kind: str


def join_pages(pages: Iterable[Sequence[Word]], keep: Collection[str] = ()) -> tuple[str, list[Placed], dict[str, int]]:
    """Return the text of pages, the places of its words, and the number of lines of each part that was left out.

    Lines end with a line break, paragraphs with a blank line, and cells of tables with a tab. Paragraphs continue over
    columns, pages, and the figures and footnotes between them. Hyphens at the end of lines are kept.
    """
    lines = [_order_lines(words, number) for number, words in enumerate(pages)]
    dropped: dict[str, int] = {}
    if "headers" not in keep:
        kept = _without_repeated(lines)
        dropped["headers"] = sum(map(len, lines)) - sum(map(len, kept))
        lines = kept
    for page in lines:
        _mark_tables(page)
        _mark_equations(page)
    paragraphs = _find_paragraphs([line for page in lines for line in page])
    if "references" not in keep:
        body = list(_without_references(paragraphs))
        n_lines = sum(len(paragraph.lines) for paragraph in paragraphs)
        dropped["references"] = n_lines - sum(len(paragraph.lines) for paragraph in body)
        paragraphs = body
    return (*_write(_join_interrupted(paragraphs)), {name: count for name, count in dropped.items() if count})


# Lines


def _order_lines(words: Sequence[Word], page: int) -> list[PdfLine]:
    """Return the lines of a page, column by column."""
    segments = [
        _Segment(number, part) for number, row in enumerate(_find_rows(words)) for part in _split_row(row, _SEGMENT_GAP)
    ]
    lines: list[PdfLine] = []
    for column, members in enumerate(_order_columns(segments)):
        # A large heading in one column can share its height with two lines of another.
        rows = _find_rows([word for segment in members for word in segment.words])
        found = [PdfLine(row, page) for row in rows]
        starts, ends = sorted(line.start for line in found), sorted(line.end for line in found)
        for line in found:
            line.left, line.right = starts[len(starts) // 10], ends[len(ends) * 9 // 10]
            line.column = column
        lines += found
    return lines


def _find_rows(words: Sequence[Word]) -> list[list[Word]]:
    """Return the words that are next to each other, from the top to the bottom."""
    rows: list[tuple[Word, list[Word]]] = []
    for word in sorted(words, key=lambda word: -word.y):
        for at in range(len(rows) - 1, max(-1, len(rows) - 4), -1):
            main = rows[at][0]
            smaller, larger = sorted((word.size, main.size))
            _, low, _, high = word.box
            _, bottom, _, top = main.box
            if larger <= 2.2 * smaller and min(high, top) - max(low, bottom) >= 0.5 * smaller:
                rows[at][1].append(word)
                # Not a large sign, such as a brace or a sum, which can be as high as two lines.
                if word.size > main.size and sum(map(str.isalnum, word.text)) > 1:
                    rows[at] = word, rows[at][1]
                break
        else:
            rows.append((word, [word]))
    return [sorted(row, key=lambda word: word.left) for _, row in sorted(rows, key=lambda row: -row[0].y)]


def _split_row(row: list[Word], gap: float) -> Iterator[list[Word]]:
    """Split a row at wide gaps, but not at those that a justified line has between all of its words."""
    gaps, end = [], row[0].right
    for before, word in pairwise(row):
        gaps.append((word.left - end) / max(before.size, word.size))
        end = max(end, word.right)
    first = 0
    for at, width in enumerate(gaps, 1):
        is_stretched = width <= _MAX_STRETCH and any(
            abs(width - other) <= _EQUAL_GAPS / 2 for other in (*gaps[max(0, at - 2) : at - 1], *gaps[at : at + 1])
        )
        if width > gap and not is_stretched:
            yield row[first:at]
            first = at
    yield row[first:]


def _order_columns(segments: list[_Segment], depth: int = 0) -> Iterator[list[_Segment]]:
    """Yield the segments of each column, or of each part of a page without columns, in reading order."""
    start = _find_second_column(segments) if depth < _MAX_DEPTH else None
    if start is None:
        if segments:
            yield segments
        return
    rows: defaultdict[int, list[_Segment]] = defaultdict(list)
    for segment in segments:
        rows[segment.row] += _split_at(segment, start)
    across: list[_Segment] = []
    left: list[_Segment] = []
    right: list[_Segment] = []
    for row in sorted(rows):
        crosses = any(segment.left < start - 1 and segment.right > start + 1 for segment in rows[row])
        if crosses and (left or right):
            yield from _order_columns(left, depth + 1)
            yield from _order_columns(right, depth + 1)
            left, right = [], []
        elif not crosses and across:
            yield across
            across = []
        if crosses:
            across += rows[row]
        else:
            left += [segment for segment in rows[row] if segment.left < start - 1]
            right += [segment for segment in rows[row] if segment.left >= start - 1]
    if across:
        yield across
    yield from _order_columns(left, depth + 1)
    yield from _order_columns(right, depth + 1)


def _split_at(segment: _Segment, start: float) -> list[_Segment]:
    """Split a segment where a column starts, if the gap before it is wider than others but not wide."""
    gaps = [word.left - before.right for before, word in pairwise(segment.words)]
    for at, (word, gap) in enumerate(zip(segment.words[1:], gaps, strict=True), 1):
        if abs(word.left - start - 1) <= 1.5 and gap > max(0.3 * word.size, 1.4 * median_low(gaps)):
            return [_Segment(segment.row, segment.words[:at]), _Segment(segment.row, segment.words[at:])]
    return [segment]


def _find_second_column(segments: Sequence[_Segment]) -> float | None:
    """Return where a column starts to the right of another, if they share enough of the height of the page."""
    if not segments:
        return None
    size = median_low(segment.words[0].size for segment in segments)
    places = [
        (segment.left, segment.right, _height_mask(segment), sum(len(word.text) for word in segment.words))
        for segment in segments
    ]
    found: dict[int, int] = {}
    starts = Counter(round(segment.left) for segment in segments)
    for start, _ in starts.most_common(_MAX_CANDIDATES):
        heights, lengths = [0, 0, 0], [0, 0, 0]  # of the column before it, of those from it on, and across
        for left, right, mask, length in places:
            side = 1 if left >= start - 1 else 0 if right <= start else 2
            heights[side] |= mask
            lengths[side] += length
        shared = (heights[0] & heights[1] & ~heights[2]).bit_count()
        is_prose = all(
            1.2 * size * lengths[side] >= _MIN_COLUMN_CHARACTERS * heights[side].bit_count() for side in (0, 1)
        )
        if is_prose and shared >= _MIN_COLUMN_LINES * size:
            found[start] = shared
    # Most lines start at the edge of the column, but a line or two of the column before it may end there, too.
    likely = [start for start, shared in found.items() if shared >= 0.9 * max(found.values())]
    return max(likely, key=lambda start: (starts[start], -start)) - 1.0 if likely else None


def _height_mask(segment: _Segment) -> int:
    """Return the points of the height that a segment covers with the space below it, as bits."""
    word = segment.words[0]
    low = min(max(0, round(word.y - 0.3 * word.size)), _MAX_HEIGHT)
    return ((1 << min(max(1, round(1.3 * word.size)), 100)) - 1) << low


# Parts of a page that are no prose


def _without_repeated(pages: Sequence[Sequence[PdfLine]]) -> list[list[PdfLine]]:
    """Remove lines at the top or bottom edge that other pages have at the same height, apart from numbers."""
    edges = [(_rows_of(lines), _rows_of(lines)[::-1]) for lines in pages]
    seen: defaultdict[tuple[int, str], set[tuple[int, float]]] = defaultdict(set)
    for number, both in enumerate(edges):
        for edge, rows in enumerate(both):
            for line in (line for row in rows[:_EDGE_ROWS] for line in row):
                seen[edge, _without_numbers(line)].add((number, line.y))

    @cache
    def repeats(edge: int, text: str, height: float) -> bool:
        others = {number for number, y in seen[edge, text] if abs(y - height) <= _SAME_PLACE}
        return len(others) >= min(max(2, len(pages)), 3)

    kept = []
    for lines, both in zip(pages, edges, strict=True):
        removed: set[int] = set()
        for edge, rows in enumerate(both):
            # From the edge inwards, so that a row of a table is kept below a line that differs.
            for row in rows[:_EDGE_ROWS]:
                if not all(repeats(edge, _without_numbers(line), line.y) for line in row):
                    break
                removed.update(map(id, row))
        kept.append([line for line in lines if id(line) not in removed])
    return kept


def _rows_of(lines: Sequence[PdfLine]) -> list[list[PdfLine]]:
    """Return the lines of each height, from the bottom to the top."""
    rows: defaultdict[float, list[PdfLine]] = defaultdict(list)
    for line in lines:
        rows[line.y].append(line)
    return [rows[y] for y in sorted(rows)]


def _without_numbers(line: PdfLine) -> str:
    return _DIGITS.sub("0", line.text)


def _mark_tables(lines: Sequence[PdfLine]) -> None:
    """Mark rows of cells: two rows of three cells, or three of two. One other line may be between them."""
    cells = [len(line.cells()) for line in lines]
    at = 0
    while at < len(lines):
        end, last = at, at
        while end < len(lines) and end - last <= 1 and lines[end].column == lines[at].column:
            if cells[end] > 1:
                last = end
            end += 1
        rows = [number for number in range(at, last + 1) if cells[number] > 1]
        if cells[at] > 1 and (len(rows) >= 3 or (len(rows) == 2 and min(cells[number] for number in rows) > 2)):
            for number in range(at, last + 1):
                lines[number].kind = "table"
            at = last
        at += 1


def _mark_equations(lines: Sequence[PdfLine]) -> None:
    """Mark indented lines that have an operator or a number of an equation and hardly any names, and parts of them."""
    parts = []
    for at, line in enumerate(lines):
        text = line.text
        names = sum(len(name) for word in line.words if not word.style & MATH for name in _NAME.findall(word.text))
        if line.kind == "text" and line.start > line.left + _INDENT * line.size and names <= 0.35 * len(text):
            parts.append(at)
            if _OPERATOR.search(text) or _EQUATION_NUMBER.search(text):
                line.kind = "equation"
    for numbers, step in ((parts, -1), (parts[::-1], 1)):
        for at in numbers:
            other = lines[at + step] if 0 <= at + step < len(lines) else lines[at]
            if other.kind == "equation" and _follows(other, lines[at]):
                lines[at].kind = "equation"


# Paragraphs


def _find_paragraphs(lines: Sequence[PdfLine]) -> list[_Paragraph]:
    found: list[_Paragraph] = []
    gaps = _find_gaps(lines)
    for at, line in enumerate(lines):
        if found and not _ends(lines[at - 1], line, gaps[at]):
            found[-1].lines.append(line)
        else:
            found.append(_Paragraph([line], line.kind))
    return found


def _find_gaps(lines: Sequence[PdfLine]) -> list[float]:
    """Return the usual distance of lines near each line: wide leading does not end a paragraph."""
    between = [0.0]
    for first, second in pairwise(lines):
        between.append(first.y - second.y if _follows(first, second) and _same_size(first, second) else 0.0)
    usual = []
    for at, line in enumerate(lines):
        near = range(max(0, at - 3), min(len(lines), at + 4))
        gaps = [between[other] for other in near if between[other] > 0 and _same_size(lines[other], line)]
        usual.append(median_low(gaps) if gaps else 1.2 * line.size)
    return usual


def _same_size(first: PdfLine, second: PdfLine) -> bool:
    return abs(first.size - second.size) <= _SAME_SIZE * first.size


def _follows(first: PdfLine, second: PdfLine) -> bool:
    return first.page == second.page and first.column == second.column


def _ends(last: PdfLine, line: PdfLine, usual: float) -> bool:
    """Return whether a paragraph ends between two lines."""
    if last.kind != line.kind:
        return True
    if line.kind != "text":
        return not _follows(last, line)
    is_turn = not _follows(last, line)
    gap = 0.0 if is_turn else last.y - line.y
    if _CAPTION.match(line.text) and (is_turn or gap > 1.1 * usual):
        return True
    goes_on = _goes_on(last, line)
    if not _same_size(last, line):
        return is_turn or not goes_on or gap > _LARGER_GAP * max(usual, 1.2 * last.size)
    if goes_on:
        return gap > 2 * _LARGER_GAP * usual
    if last.is_bold != line.is_bold:
        return True
    # The first word of the line would have had room at the end of the last one.
    first = line.words[0]
    is_short = last.end + 0.3 * last.size + first.right - first.left < last.right
    is_indented = line.start > line.left + _INDENT * line.size
    if is_turn:
        return bool(_END.search(last.text)) and (is_short or is_indented)
    if _are_centred(last, line):
        return gap > _LARGER_GAP * usual or bool(_END.search(last.text))
    if is_indented and abs(last.start - line.start) > 0.3 * line.size:
        return True
    if is_short and _END.search(last.text):
        return True
    return gap > (_LARGER_GAP if is_short or _END.search(last.text) else 1.5) * usual


def _are_centred(first: PdfLine, second: PdfLine) -> bool:
    shift = (first.start + first.end - second.start - second.end) / 2
    return abs(shift) < 0.5 * second.size < abs(first.start - second.start)


def _goes_on(last: PdfLine, line: PdfLine) -> bool:
    """Return whether a line continues the sentence of the one before it for sure."""
    return not _END.search(last.text) and line.text[0].islower()


def _without_references(paragraphs: Sequence[_Paragraph]) -> Iterator[_Paragraph]:
    heading: PdfLine | None = None
    for at, paragraph in enumerate(paragraphs):
        first = paragraph.lines[0]
        if heading is None:
            is_last = at + 1 == len(paragraphs) and len(paragraph.lines) == 1
            if _REFERENCES.match(first.text) and not is_last:
                heading = first
        elif _AFTER_REFERENCES.match(first.text) or _is_heading_like(first, heading):
            heading = None
        if heading is None:
            yield paragraph


def _is_heading_like(line: PdfLine, heading: PdfLine) -> bool:
    """Return whether a line has the style of the heading of the references, which that of the entries is not."""
    return (
        len(line.text) <= _MAX_HEADING
        and heading.is_bold
        and line.is_bold
        and abs(line.size - heading.size) <= 0.03 * heading.size
        and not _REFERENCES.match(line.text)
    )


def _join_interrupted(paragraphs: list[_Paragraph]) -> list[_Paragraph]:
    """Join paragraphs that a table, a figure or a footnote interrupts, and put that after them."""
    sizes: Counter[int] = Counter()
    for line in (line for paragraph in paragraphs for line in paragraph.lines):
        sizes[round(line.size)] += len(line.text)
    body = max(sizes, key=lambda size: sizes[size]) if sizes else 0

    def is_prose(paragraph: _Paragraph) -> bool:
        first = paragraph.lines[0]
        return paragraph.kind == "text" and abs(first.size - body) <= 0.6 and not _CAPTION.match(first.text)

    found: list[_Paragraph] = []
    waiting = list(reversed(paragraphs))
    while waiting:
        paragraph = waiting.pop()
        found.append(paragraph)
        while is_prose(paragraph) and not paragraph.lines[-1].is_bold:
            n_floats = 0
            while n_floats < min(_MAX_FLOATS, len(waiting) - 1) and not _is_in_flow(waiting[-1 - n_floats], is_prose):
                n_floats += 1
            following = waiting[-1 - n_floats] if n_floats < len(waiting) else None
            if n_floats == 0 or following is None or not is_prose(following):
                break
            if not _goes_on(paragraph.lines[-1], following.lines[0]):
                break
            waiting.pop(-1 - n_floats)
            paragraph.lines += following.lines
    return found


def _is_in_flow(paragraph: _Paragraph, is_prose: Callable[[_Paragraph], bool]) -> bool:
    return paragraph.kind == "equation" or is_prose(paragraph)


# Text


def _write(paragraphs: Iterable[_Paragraph]) -> tuple[str, list[Placed]]:
    parts: list[str] = []
    placed: list[Placed] = []
    at = 0

    def put(text: str) -> None:
        nonlocal at
        parts.append(text)
        at += len(text)

    for paragraph in paragraphs:
        put("\n\n" if parts else "")
        for number, line in enumerate(paragraph.lines):
            put("\n" if number else "")
            for cell_number, cell in enumerate(line.cells() if line.kind == "table" else [line.words]):
                put("\t" if cell_number else "")
                for word_number, word in enumerate(cell):
                    put(" " if word_number else "")
                    placed.append(Placed(at, at + len(word.text), line.page, word.box))
                    put(word.text)
    return "".join(parts), placed
