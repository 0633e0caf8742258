"""Join the pieces of text on the pages of a PDF to lines and paragraphs in reading order."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median

Piece = tuple[str, float, float, float]
"""Text with x, y and size of its first character. Coordinates grow to the right and upwards."""

# So many rows at the top and bottom of a page may be headers and footers.
_EDGE_ROWS = 3
_SAME_PLACE = 6.0
# Columns that are drawn row by row have many rows of long lines, unlike tables.
_MIN_ROWS = 8
_MIN_COLUMN_CHARACTERS = 18
_MAX_COLUMNS = 6
_MAX_SIZE = 100
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\n]+")
_DIGITS = re.compile(r"[0-9]+")
_SENTENCE_END = (".", "?", "!", ":", '."', ".”", ".)")


@dataclass(frozen=True, slots=True)
class PdfLine:
    """Line of text. ``x``, ``y`` and ``size`` are those of its start, baseline and main font."""

    text: str
    x: float
    y: float
    size: float
    pieces: tuple[Piece, ...]


def join_pages(pages: Iterable[Sequence[Piece]]) -> str:
    """Return the text of pages: lines end with a line break, paragraphs with a blank line.

    Headers, footers and page numbers are removed if they repeat on several pages. Paragraphs continue over columns and
    pages. Hyphens at the end of lines and ligatures are kept.
    """
    lines = [_order_columns(_find_lines(pieces)) for pieces in pages]
    return _join_lines(_without_repeated(lines))


def _find_lines(pieces: Sequence[Piece]) -> list[PdfLine]:
    lines: list[PdfLine | None] = []
    current: list[Piece] = []
    for text, x, y, size in pieces:
        *ended, rest = _CONTROL.sub("", _SURROGATE.sub("�", text)).split("\n")
        for part in ended:
            lines.append(_make_line([*current, (part, x, y, size)]))
            current = []
        if rest:
            current.append((rest, x, y, size))
    lines.append(_make_line(current))
    return [line for line in lines if line is not None]


def _make_line(pieces: Sequence[Piece]) -> PdfLine | None:
    text = _BLANKS.sub(" ", "".join(piece[0] for piece in pieces)).strip()
    if not text:
        return None
    drawn = [piece for piece in pieces if piece[0].strip()]
    _, _, y, size = max(drawn, key=lambda piece: len(piece[0]))
    return PdfLine(text, drawn[0][1], y, size, tuple(pieces))


def _order_columns(lines: list[PdfLine], depth: int = 0) -> list[PdfLine]:
    """Return the lines of a page column by column, if the page draws its columns row by row."""
    start = _find_second_column(lines) if depth < _MAX_COLUMNS else None
    if start is None:
        return lines
    left: list[PdfLine] = []
    right: list[PdfLine] = []
    for line in lines:
        at = _position_of(line, start)
        for column, pieces in ((left, line.pieces[:at]), (right, line.pieces[at:])):
            part = _make_line(pieces)
            if part is not None:
                column.append(part)
    top, bottom = max(line.y for line in right), min(line.y for line in right)
    # Lines above and below the columns, such as a title, cross the gap.
    above = [line for line in left if line.y > top + line.size / 2]
    below = [line for line in left if line.y < bottom - 2 * line.size and _may_cross(line, start)]
    outside = {*map(id, above), *map(id, below)}
    inside = [line for line in left if id(line) not in outside]
    return [*above, *_order_columns(inside, depth + 1), *_order_columns(right, depth + 1), *below]


def _find_second_column(lines: Sequence[PdfLine]) -> float | None:
    """Return the left edge of a column to the right of another, if many lines contain the text of both."""
    rows: Counter[int] = Counter()
    before: Counter[int] = Counter()
    after: Counter[int] = Counter()
    for line in lines:
        length = 0
        for text, x, _, size in line.pieces:
            if length and x > line.x + size and text.strip():
                at = round(x)
                rows[at] += 1
                before[at] += length
                after[at] += len(line.text) - length
            length += len(text)
    likely = [
        at
        for at, count in rows.items()
        if count >= max(_MIN_ROWS, len(lines) / 3) and min(before[at], after[at]) >= _MIN_COLUMN_CHARACTERS * count
    ]
    return max(likely, key=lambda at: rows[at]) - 1.0 if likely else None


def _position_of(line: PdfLine, start: float) -> int:
    """Return the position of the first piece of a line that is right of ``start``."""
    return next((at for at, (text, x, _, _) in enumerate(line.pieces) if text.strip() and x >= start), len(line.pieces))


def _may_cross(line: PdfLine, start: float) -> bool:
    return line.x + len(line.text) * line.size * 0.4 > start


def _without_repeated(pages: Sequence[Sequence[PdfLine]]) -> list[list[PdfLine]]:
    """Remove lines at the top or bottom edge that other pages have at the same height, apart from numbers."""
    edges = [(_find_rows(lines), _find_rows(lines)[::-1]) for lines in pages]
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


def _find_rows(lines: Sequence[PdfLine]) -> list[list[PdfLine]]:
    """Return the lines of each height, from the bottom to the top."""
    rows: defaultdict[float, list[PdfLine]] = defaultdict(list)
    for line in lines:
        rows[line.y].append(line)
    return [rows[y] for y in sorted(rows)]


def _without_numbers(line: PdfLine) -> str:
    return _DIGITS.sub("0", line.text)


def _join_lines(pages: Sequence[Sequence[PdfLine]]) -> str:
    leading = _find_leading(pages)
    text: list[str] = []
    last: PdfLine | None = None
    turned = False
    for lines in pages:
        indents = _find_indents(lines)
        length = median(len(line.text) for line in lines) if lines else 0
        for line in lines:
            if last is not None:
                turned = turned or line.y > last.y + last.size
                if turned:
                    ends = last.text.endswith(_SENTENCE_END) and len(last.text) < 0.8 * length
                else:
                    ends = last.y - line.y > 1.3 * leading.get(round(last.size), 1.2 * last.size)
                ends = ends or indents[round(line.x)] or abs(line.size - last.size) > 0.08 * last.size
                text.append("\n\n" if ends else "\n")
            text.append(line.text)
            last, turned = line, False
        turned = True
    return "".join(text)


def _find_leading(pages: Sequence[Sequence[PdfLine]]) -> dict[int, float]:
    """Return the usual distance of lines for each size of the font."""
    gaps: defaultdict[int, list[float]] = defaultdict(list)
    for lines in pages:
        for first, second in pairwise(lines):
            gap = first.y - second.y
            if round(first.size) == round(second.size) and 0 < gap < 2.5 * first.size:
                gaps[round(first.size)].append(gap)
    return {size: median(found) for size, found in gaps.items()}


def _find_indents(lines: Sequence[PdfLine]) -> dict[int, bool]:
    """Return whether lines that start at each x are indented: many more start up to four ems to the left."""
    starts = Counter(round(line.x) for line in lines)
    sizes = {round(line.x): min(line.size, _MAX_SIZE) for line in lines}
    return {
        x: any(starts[x - step] >= max(3, 2 * count) for step in range(int(sizes[x] / 2) + 1, int(4 * sizes[x]) + 1))
        for x, count in starts.items()
    }
