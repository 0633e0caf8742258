"""Draw a document as a standalone SVG picture without scripts, HTML or external resources.

The layout is that of HTML. Grid columns get their widths from estimated text widths, which the font of the viewer is
fitted to. On each line, arcs have the lowest levels that they and their labels leave free.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from cascade_srn.config import require_range
from cascade_srn.drawing.colours import DARK, LIGHT, SEEDS, LabelColours, Marks, Theme, make_shades
from cascade_srn.drawing.layout import (
    BOLD,
    MAX_CHUNK_WIDTH,
    Arc,
    Bar,
    Chunk,
    WordCell,
    assign_levels,
    cut_to_width,
    lay_out,
    text_width,
)
from cascade_srn.drawing.render import build_legend, document_gaps
from cascade_srn.drawing.view import Descriptions, add_arrow, describe_all
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span

MARGIN, LINE_GAP, SENTENCE_GAP = 20.0, 8.0, 22.0
MIN_WIDTH = 160
FONT_SIZE, LABEL_FONT_SIZE = 16.0, 11.0
# Heights of words, bars, arc levels, and the ends below the lowest level.
TEXT_HEIGHT, ROW_HEIGHT, LEVEL_HEIGHT, END_HEIGHT = 22.0, 16.0, 18.0, 8.0
# Distances between words, between arc ends on a word, and around the label of an arc.
SPACE, STOP_GAP, LABEL_MARGIN = 5.0, 10.0, 12.0
# Characters that XML does not allow, not even escaped.
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw_svg(document: Document, *, schema: Schema | None = None, width: int = 960) -> str:
    """Draw a document as a standalone SVG picture of the given width in pixels.

    Colours are those of :func:`~cascade_srn.drawing.draw_document`. The theme follows the system of the viewer. Scores
    are in the titles of bars and arcs, and the description contains everything as text.
    """
    require_range("width", width, MIN_WIDTH)
    labels = LabelColours.collect(schema or document.schema, document.sentences)
    picture = _Picture(width - 2 * MARGIN)
    if document.id:
        picture.add_heading(document.id)
    for sentence in document.sentences:
        picture.add_sentence(sentence, document_gaps(document, sentence), labels)
    picture.add_legend(labels, document.sentences)
    return picture.to_svg(document, width, labels)


class PlacedChunk(NamedTuple):
    """A chunk on a line, with the x coordinates of its grid lines. ``scale`` is below 1 if it is too wide for one."""

    chunk: Chunk
    xs: list[float]
    scale: float


@dataclass(slots=True)
class BarPart:
    """The part of an entity on one line."""

    bar: Bar
    left: float
    right: float = 0.0


@dataclass(slots=True)
class ArcPart:
    """The part of an arc on one line. ``label_x`` is the centre of its label, or None without a label."""

    arc: Arc
    left: float
    left_end: bool
    right: float = 0.0
    right_end: bool = False
    level: int = 0
    label_x: float | None = None


@dataclass(frozen=True, slots=True)
class SvgLine:
    """A line of a sentence."""

    chunks: list[PlacedChunk]
    bars: list[BarPart]
    arcs: list[ArcPart]

    @property
    def arcs_height(self) -> float:
        """Height of the arcs above the words."""
        return (1 + max(part.level for part in self.arcs)) * LEVEL_HEIGHT + END_HEIGHT if self.arcs else 0.0

    @property
    def height(self) -> float:
        """Height of arcs, words and bars."""
        n_rows = 1 + max((part.bar.row for part in self.bars), default=-1)
        return self.arcs_height + TEXT_HEIGHT + n_rows * ROW_HEIGHT


def place_lines(chunks: Sequence[Chunk], labels: Mapping[Arc, str], width: float) -> list[SvgLine]:
    """Place the chunks of a sentence on lines. ``labels`` are those of the arcs."""
    lines: list[list[PlacedChunk]] = []
    x = 0.0
    for chunk in chunks:
        widths = _column_widths(chunk, labels)
        scale = min(1.0, width / sum(widths))
        chunk_width = scale * sum(widths)
        if not lines or x + chunk_width - SPACE * scale * chunk.cells[-1].gap > width:
            lines.append([])
            x = 0.0
        lines[-1].append(PlacedChunk(chunk, list(accumulate((scale * w for w in widths), initial=x)), scale))
        x += chunk_width
    return [SvgLine(line, _join_bars(line), _join_arcs(line, labels, width)) for line in lines]


def _column_widths(chunk: Chunk, labels: Mapping[Arc, str]) -> list[float]:
    """Return widths that words fit into, and the labels of what is in this chunk only.

    Narrow ones come first, since wide ones may contain them.
    """
    needed = [(cell.columns, _cell_width(cell)) for cell in chunk.cells]
    needed += [
        (bar.columns, label_width(bar.entity.label) + SPACE * (1 + bar.gap))
        for bar in chunk.bars
        if bar.opens and bar.closes
    ]
    needed += [
        (curve.columns, label_width(labels[curve.arc]) + LABEL_MARGIN)
        for curve in chunk.curves
        if curve.left_end and curve.right_end
    ]
    widths = [0.0] * (chunk.cells[-1].columns[1] - 1)
    for (first, end), width in sorted(needed, key=lambda item: item[0][1] - item[0][0]):
        missing = width - sum(widths[first - 1 : end - 1])
        for column in range(first - 1, end - 1):
            widths[column] += max(missing, 0.0) / (end - first)
    return widths


def _cell_width(cell: WordCell) -> float:
    first, end = cell.columns
    stops_width = STOP_GAP * (end - first) if end - first > 1 else 0.0
    return max(sum(width for _, width, _ in _cell_texts(cell)), stops_width) + SPACE * cell.gap


def _cell_texts(cell: WordCell) -> Iterator[tuple[str, float, str]]:
    """Yield the word and the text after it, with their widths and the spaces that follow them."""
    word, aside = " ".join(cell.text.split()) or " ", " ".join(cell.after.split())
    space = " " * cell.after[:1].isspace()
    yield word, text_width(word, FONT_SIZE) + (SPACE * len(space) if aside else 0.0), space
    if aside:
        yield aside, text_width(aside, FONT_SIZE), " " * cell.after[-1:].isspace()


def _join_bars(line: Sequence[PlacedChunk]) -> list[BarPart]:
    parts: dict[Span, BarPart] = {}
    for chunk, xs, scale in line:
        for bar in chunk.bars:
            part = parts.setdefault(bar.entity, BarPart(bar, xs[bar.columns[0] - 1]))
            part.right = xs[bar.columns[1] - 1] - SPACE * scale * bar.gap
    return list(parts.values())


def _join_arcs(line: Sequence[PlacedChunk], labels: Mapping[Arc, str], width: float) -> list[ArcPart]:
    """Join the curves of each arc, and assign levels and places of labels."""
    parts: dict[Arc, ArcPart] = {}
    labelled: set[Arc] = set()
    for chunk, xs, _ in line:
        for curve in chunk.curves:
            part = parts.setdefault(curve.arc, ArcPart(curve.arc, xs[curve.columns[0] - 1], curve.left_end))
            part.right, part.right_end = xs[curve.columns[1] - 1] if curve.right_end else width, curve.right_end
            labelled |= {curve.arc} if curve.labelled else set()
    legs = sorted(x for part in parts.values() for x in (part.left, part.right))
    intervals: list[tuple[int, int]] = []
    for part in parts.values():
        low, high = part.left, part.right
        half = (label_width(labels[part.arc]) + LABEL_MARGIN) / 2
        if part.arc in labelled or high - low >= 2 * half:
            centre = _find_clear_centre(legs, low, high, 2 * half)
            part.label_x = min(max(centre, half), max(half, width - half))
            low, high = min(low, part.label_x - half), max(high, part.label_x + half)
        intervals.append((round(low) - 2, round(high) + 2))
    for part, level in zip(parts.values(), assign_levels(intervals), strict=True):
        part.level = level
    return list(parts.values())


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


class _Picture:
    """Collects the parts of a picture from top to bottom."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.y = MARGIN
        self.parts: list[str] = []

    def add_heading(self, text: str) -> None:
        for piece in cut_to_width(" ".join(text.split()), FONT_SIZE, self.width / BOLD):
            self.y += TEXT_HEIGHT
            self.parts.append(f'<text class="h" x="0" y="{_n(self.y - 6)}">{_text(piece)}</text>')
        self.y += LINE_GAP

    def add_sentence(self, sentence: Sentence, gaps: Sequence[str], labels: LabelColours) -> None:
        layout = lay_out(sentence, gaps=gaps, max_width=min(MAX_CHUNK_WIDTH, int(self.width / 8)))
        arcs = {curve.arc for chunk in layout.chunks for curve in chunk.curves}
        arc_labels = {arc: add_arrow(arc.triple.label, *arc.arrows(labels.symmetric), layout.direction) for arc in arcs}
        marks = labels.make_marks(sentence)
        descriptions = describe_all(sentence, marks, labels.symmetric)
        mirror_width = self.width if layout.direction == "rtl" else None
        lines = place_lines(layout.chunks, arc_labels, self.width)
        for line in lines:
            drawing = _LineDrawing(line, marks, descriptions, labels.symmetric, mirror_width)
            curves = (drawing.curve(part) for part in line.arcs)
            parts = (*drawing.bars(), *curves, drawing.words(layout.direction), *drawing.labels(arc_labels))
            self.parts.append(f'<g transform="translate(0 {_n(self.y)})">{"".join(parts)}</g>')
            self.y += line.height + LINE_GAP
        self.y += SENTENCE_GAP - LINE_GAP if lines else 0.0

    def add_legend(self, labels: LabelColours, sentences: Sequence[Sentence]) -> None:
        for group in build_legend(labels, sentences):
            x = 0.0
            for number, entry in enumerate(group["entries"]):
                entry_width = 24 + text_width(entry["label"], LABEL_FONT_SIZE) + 14
                if number and x + entry_width > self.width:
                    x = 0.0
                    self.y += ROW_HEIGHT
                self.parts.append(_legend_entry(entry, x, self.y))
                x += entry_width
            self.y += ROW_HEIGHT + 4 if group["entries"] else 0.0

    def to_svg(self, document: Document, width: int, labels: LabelColours) -> str:
        height = round(self.y + MARGIN - 4)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img"><title>{_text(document.id or "document")}</title>'
            f"<desc>{_text(_describe(document, labels))}</desc><style>{_style()}</style>"
            f'<rect class="paper" width="{width}" height="{height}"/>'
            f'<g transform="translate({_n(MARGIN)} 0)">{"".join(self.parts)}</g></svg>\n'
        )


@dataclass(frozen=True, slots=True)
class _LineDrawing:
    """Draws one line. Right-to-left lines are mirrored at ``mirror_width``."""

    line: SvgLine
    marks: Marks
    descriptions: Descriptions
    symmetric: frozenset[str]
    mirror_width: float | None

    def x(self, x: float) -> float:
        """Return the x coordinate in the picture."""
        return x if self.mirror_width is None else self.mirror_width - x

    def interval(self, left: float, right: float) -> tuple[float, float]:
        """Return the start and the length of an interval in the picture."""
        return min(self.x(left), self.x(right)), right - left

    def words(self, direction: str) -> str:
        """Draw all words as one text, so that they can be selected and copied together."""
        spans = []
        for chunk, xs, scale in self.line.chunks:
            for cell in chunk.cells:
                texts = list(_cell_texts(cell))
                left, right = xs[cell.columns[0] - 1], xs[cell.columns[1] - 1] - SPACE * scale * cell.gap
                x = (left + right - scale * sum(width for _, width, _ in texts)) / 2
                for number, (text, width, space) in enumerate(texts):
                    fit = f'textLength="{_n(scale * text_width(text, FONT_SIZE))}" lengthAdjust="spacingAndGlyphs"'
                    css = ' class="q"' if number else ""
                    # The space after a word is only there for copying, so each word has its own position.
                    spans.append(f'<tspan x="{_n(self.x(x))}" {fit}{css}>{_text(text)}</tspan>{space}')
                    x += scale * width
        base = self.line.arcs_height + FONT_SIZE
        return f'<text class="w" direction="{direction}" y="{_n(base)}">{"".join(spans)}</text>'

    def bars(self) -> list[str]:
        """Draw the bars of entities and the tints behind their words."""
        # The tint of the bar next to a word must cover the others.
        nearest_last = sorted(self.line.bars, key=lambda part: -part.bar.row)
        return [self._tint(part) for part in nearest_last] + [self._bar(part) for part in self.line.bars]

    def _tint(self, part: BarPart) -> str:
        x, width = self.interval(part.left, part.right)
        css, y = self.marks[part.bar.entity].css, self.line.arcs_height
        return f'<rect class="t {css}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(TEXT_HEIGHT)}"/>'

    def _bar(self, part: BarPart) -> str:
        x, width = self.interval(part.left, part.right)
        entity, y = part.bar.entity, self.line.arcs_height + TEXT_HEIGHT + part.bar.row * ROW_HEIGHT
        css = self.marks[entity].css
        title = f"<title>{_text(self.descriptions[entity])}</title>"
        shape = f'<rect class="f" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(ROW_HEIGHT - 1.5)}" rx="2"/>'
        if " " in css:  # a pattern
            shape += f'<path class="u" d="M{_n(x)} {_n(y + ROW_HEIGHT - 3)}h{_n(width)}"/>'
        if part.bar.opens and (label := _fit_label(entity.label, width - SPACE / 2)):
            shape += _label_text(label, "k", x + width / 2, y + ROW_HEIGHT - 5)
        return f'<g class="{css}">{title}{shape}</g>'

    def curve(self, part: ArcPart) -> str:
        """Draw the line of an arc, with an arrow at the object."""
        y = self._arc_y(part)
        foot = self.line.arcs_height - 1
        turn = 0 if part.left_end and part.right_end and part.right - part.left < 10 else 5
        left, right, triple = _n(self.x(part.left)), _n(self.x(part.right)), part.arc.triple
        path, ends = f"M{left} {_n(y)}", ""
        to_left, to_right = part.arc.arrows(self.symmetric)
        if part.left_end:
            path = f"M{left} {_n(foot)}V{_n(y + turn)}Q{left} {_n(y)} {_n(self.x(part.left + turn))} {_n(y)}"
            ends += _arc_end(self.x(part.left), foot, to_left)
        if part.right_end:
            path += f"H{_n(self.x(part.right - turn))}Q{right} {_n(y)} {right} {_n(y + turn)}V{_n(foot)}"
            ends += _arc_end(self.x(part.right), foot, to_right)
        else:
            path += f"H{right}"
        title = f"<title>{_text(self.descriptions[triple])}</title>"
        return f'<g class="{self.marks[triple].css}">{title}<path class="l" d="{path}"/>{ends}</g>'

    def labels(self, arc_labels: Mapping[Arc, str]) -> list[str]:
        """Draw the labels of arcs, on top of everything else."""
        parts = []
        for part in self.line.arcs:
            if part.label_x is None:
                continue
            label = arc_labels[part.arc]
            x, y, half = self.x(part.label_x), self._arc_y(part), label_width(label) / 2 + 3
            title = f"<title>{_text(self.descriptions[part.arc.triple])}</title>"
            back = f'<rect class="paper" x="{_n(x - half)}" y="{_n(y - 7)}" width="{_n(2 * half)}" height="14"/>'
            text = _label_text(label, "r", x, y + 4)
            parts.append(f'<g class="{self.marks[part.arc.triple].css}">{title}{back}{text}</g>')
        return parts

    def _arc_y(self, part: ArcPart) -> float:
        return self.line.arcs_height - END_HEIGHT - part.level * LEVEL_HEIGHT - LEVEL_HEIGHT / 2


def _label_text(label: str, css: str, x: float, y: float) -> str:
    fit = f'textLength="{_n(label_width(label))}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="{css}" x="{_n(x)}" y="{_n(y)}" {fit}>{_text(label)}</text>'


def _fit_label(label: str, max_width: float) -> str:
    """Shorten a label to a width; return an empty string if nothing fits."""
    if label_width(label) <= max_width:
        return label
    if max_width <= 3 * LABEL_FONT_SIZE:
        return ""
    return f"{cut_to_width(label, LABEL_FONT_SIZE * BOLD, max_width - label_width('…'))[0]}…"


def _arc_end(x: float, y: float, arrow: bool) -> str:
    if arrow:
        return f'<path class="a" d="M{_n(x - 4)} {_n(y - 6)}h8l-4 7z"/>'
    return f'<circle class="a" cx="{_n(x)}" cy="{_n(y - 2)}" r="2.6"/>'


def _legend_entry(entry: dict[str, str], x: float, y: float) -> str:
    if entry["shape"] == "box":
        shape = f'<rect class="f" x="{_n(x)}" y="{_n(y)}" width="16" height="11" rx="2"/>'
        if " " in entry["css"]:
            shape += f'<path class="u" d="M{_n(x)} {_n(y + 9)}h16"/>'
    else:
        shape = f'<path class="l" d="M{_n(x)} {_n(y + 5.5)}h18"/>'
    fit = f'textLength="{_n(text_width(entry["label"], LABEL_FONT_SIZE))}" lengthAdjust="spacingAndGlyphs"'
    label = f'<text class="g" x="{_n(x + 23)}" y="{_n(y + 9.5)}" {fit}>{_text(entry["label"])}</text>'
    return f'<g class="{entry["css"]}">{shape}{label}</g>'


def _describe(document: Document, labels: LabelColours) -> str:
    lines = [document.text]
    for sentence in document.sentences:
        lines += describe_all(sentence, labels.make_marks(sentence), labels.symmetric).values()
    return "\n".join(lines)


def _style() -> str:
    """Return the CSS without custom properties, which only browsers support."""
    return (
        "text{font-family:sans-serif;white-space:pre}.w{font-size:16px}.h{font-size:16px;font-weight:bold}"
        ".k,.r{font-size:11px;font-weight:bold;text-anchor:middle}.g{font-size:11px}"
        ".l,.u{fill:none;stroke-width:1.4}.u{stroke-width:2}"
        ".dashed .l,.dashed .u{stroke-dasharray:5 3}.dotted .l,.dotted .u{stroke-dasharray:1.5 2.5}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}@media print{{{_colours(LIGHT)}}}"
    )


def _colours(theme: Theme) -> str:
    rules = [f".paper{{fill:{theme.background}}}.w,.h,.g{{fill:{theme.text}}}.q{{fill:{theme.quiet}}}"]
    for number, seed in enumerate(SEEDS):
        shade = make_shades(seed, theme)
        rules.append(
            f".c{number} .f{{fill:{shade.fill}}}.c{number} .k{{fill:{shade.ink}}}.c{number} .u{{stroke:{shade.ink}}}"
            f".t.c{number}{{fill:{shade.tint}}}.c{number} .l{{stroke:{shade.line}}}.c{number} .a{{fill:{shade.line}}}"
            f".c{number} .r{{fill:{shade.word}}}"
        )
    return "".join(rules)


def _text(text: str) -> str:
    return escape(_INVALID_XML.sub("\ufffd", text))


def _n(number: float) -> str:
    """Format a number with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")


def label_width(label: str) -> float:
    """Return the width of a label."""
    return BOLD * text_width(label, LABEL_FONT_SIZE)
