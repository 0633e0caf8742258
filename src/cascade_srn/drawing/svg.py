"""Draw a document as a standalone SVG picture without scripts, HTML or external resources."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from cascade_srn.config import require_range
from cascade_srn.drawing.colours import DARK, LIGHT, SEEDS, Theme, make_shades
from cascade_srn.drawing.labels import BOLD, Labels, Marks, cut_to_width, text_direction, text_width
from cascade_srn.drawing.layout import Arc, place_arcs
from cascade_srn.drawing.render import build_legend, document_gaps
from cascade_srn.drawing.svg_layout import (
    END_HEIGHT,
    FONT_SIZE,
    LABEL_FONT_SIZE,
    LEVEL_HEIGHT,
    ROW_HEIGHT,
    SPACE,
    TEXT_HEIGHT,
    ArcPart,
    BarPart,
    Line,
    label_width,
    lay_out_lines,
)
from cascade_srn.drawing.view import Descriptions, add_arrow, describe_all
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

MARGIN, LINE_GAP, SENTENCE_GAP = 20.0, 8.0, 22.0
MIN_WIDTH = 160
# Characters that XML does not allow, not even escaped.
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw_svg(document: Document, *, schema: Schema | None = None, width: int = 960) -> str:
    """Draw a document as a standalone SVG picture of the given width in pixels.

    Colours are those of :func:`~cascade_srn.drawing.draw_document`. The theme follows the system of the viewer. Scores
    are in the titles of bars and arcs, and the description contains everything as text.
    """
    require_range("width", width, MIN_WIDTH)
    labels = Labels.collect(schema or document.schema, document.sentences)
    picture = _Picture(width - 2 * MARGIN)
    if document.id:
        picture.add_heading(document.id)
    for sentence in document.sentences:
        picture.add_sentence(sentence, document_gaps(document, sentence), labels)
    picture.add_legend(labels, document.sentences)
    return picture.to_svg(document, width, labels)


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

    def add_sentence(self, sentence: Sentence, gaps: Sequence[str], labels: Labels) -> None:
        direction = text_direction(sentence.words)
        arc_labels = {}
        for arc in place_arcs(sentence.triples):
            directed = arc.triple.label not in labels.symmetric
            to_left, to_right = directed and not arc.forward, directed and arc.forward
            arc_labels[arc] = add_arrow(arc.triple.label, to_left, to_right, direction)
        marks = labels.make_marks(sentence)
        descriptions = describe_all(sentence, marks, labels.symmetric)
        mirror_width = self.width if direction == "rtl" else None
        lines = lay_out_lines(sentence, gaps=gaps, labels=list(arc_labels.values()), width=self.width)
        for line in lines:
            drawing = _LineDrawing(line, marks, descriptions, labels.symmetric, mirror_width)
            parts = (*drawing.bars(), *drawing.curves(), drawing.words(direction), *drawing.labels(arc_labels))
            self.parts.append(f'<g transform="translate(0 {_n(self.y)})">{"".join(parts)}</g>')
            self.y += line.height + LINE_GAP
        self.y += SENTENCE_GAP - LINE_GAP if lines else 0.0

    def add_legend(self, labels: Labels, sentences: Sequence[Sentence]) -> None:
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

    def to_svg(self, document: Document, width: int, labels: Labels) -> str:
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

    line: Line
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
        for box in self.line.boxes:
            box_width = text_width(box.text, FONT_SIZE)
            fit = f' textLength="{_n(box_width)}" lengthAdjust="spacingAndGlyphs"'
            css = ' class="q"' if box.word is None else ""
            # The space after a word is only there for copying, so each word has its own position.
            start = self.x(box.x + (box.width - box_width) / 2)
            spans.append(f'<tspan x="{_n(start)}"{fit}{css}>{_text(box.text)}</tspan>{" " if box.gap else ""}')
        base = self.line.arcs_height + FONT_SIZE
        return f'<text class="w" direction="{direction}" y="{_n(base)}">{"".join(spans)}</text>'

    def bars(self) -> list[str]:
        """Draw the bars of entities and the tints behind their words."""
        # The tint of the bar next to a word must cover the others.
        nearest_last = sorted(self.line.bars, key=lambda bar: -bar.row)
        return [self._tint(bar) for bar in nearest_last] + [self._bar(bar) for bar in self.line.bars]

    def _tint(self, bar: BarPart) -> str:
        x, width = self.interval(bar.left, bar.right)
        css, y = self.marks[bar.entity].css, self.line.arcs_height
        return f'<rect class="t {css}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(TEXT_HEIGHT)}"/>'

    def _bar(self, bar: BarPart) -> str:
        x, width = self.interval(bar.left, bar.right)
        y = self.line.arcs_height + TEXT_HEIGHT + bar.row * ROW_HEIGHT
        css = self.marks[bar.entity].css
        title = f"<title>{_text(self.descriptions[bar.entity])}</title>"
        shape = f'<rect class="f" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(ROW_HEIGHT - 1.5)}" rx="2"/>'
        underline = ""
        if _has_pattern(css):
            underline = f'<path class="u" d="M{_n(x)} {_n(y + ROW_HEIGHT - 3)}h{_n(width)}"/>'
        label = _fit_label(bar.entity.label, width - SPACE / 2) if bar.opens else ""
        if label:
            label = _label_text(label, "k", x + width / 2, y + ROW_HEIGHT - 5)
        return f'<g class="{css}">{title}{shape}{underline}{label}</g>'

    def curves(self) -> list[str]:
        """Draw the lines of arcs, with an arrow at the object."""
        return [self._curve(part) for part in self.line.arcs]

    def _curve(self, part: ArcPart) -> str:
        y = self._arc_y(part)
        foot = self.line.arcs_height - 1
        turn = 0 if part.left_end and part.right_end and part.right - part.left < 10 else 5
        path = []
        if part.left_end:
            bend = self.x(part.left + turn)
            x = _n(self.x(part.left))
            path.append(f"M{x} {_n(foot)}V{_n(y + turn)}Q{x} {_n(y)} {_n(bend)} {_n(y)}")
        else:
            path.append(f"M{_n(self.x(part.left))} {_n(y)}")
        if part.right_end:
            x = _n(self.x(part.right))
            path.append(f"H{_n(self.x(part.right - turn))}Q{x} {_n(y)} {x} {_n(y + turn)}V{_n(foot)}")
        else:
            path.append(f"H{_n(self.x(part.right))}")
        triple = part.arc.triple
        directed = triple.label not in self.symmetric
        ends = [_arc_end(self.x(part.left), foot, directed and not part.arc.forward)] if part.left_end else []
        ends += [_arc_end(self.x(part.right), foot, directed and part.arc.forward)] if part.right_end else []
        title = f"<title>{_text(self.descriptions[triple])}</title>"
        return f'<g class="{self.marks[triple].css}">{title}<path class="l" d="{"".join(path)}"/>{"".join(ends)}</g>'

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


def _has_pattern(css: str) -> bool:
    return " " in css


def _arc_end(x: float, y: float, arrow: bool) -> str:
    if arrow:
        return f'<path class="a" d="M{_n(x - 4)} {_n(y - 6)}h8l-4 7z"/>'
    return f'<circle class="a" cx="{_n(x)}" cy="{_n(y - 2)}" r="2.6"/>'


def _legend_entry(entry: dict[str, str], x: float, y: float) -> str:
    if entry["shape"] == "box":
        shape = f'<rect class="f" x="{_n(x)}" y="{_n(y)}" width="16" height="11" rx="2"/>'
        if _has_pattern(entry["css"]):
            shape += f'<path class="u" d="M{_n(x)} {_n(y + 9)}h16"/>'
    else:
        shape = f'<path class="l" d="M{_n(x)} {_n(y + 5.5)}h18"/>'
    fit = f'textLength="{_n(text_width(entry["label"], LABEL_FONT_SIZE))}" lengthAdjust="spacingAndGlyphs"'
    label = f'<text class="g" x="{_n(x + 23)}" y="{_n(y + 9.5)}" {fit}>{_text(entry["label"])}</text>'
    return f'<g class="{entry["css"]}">{shape}{label}</g>'


def _describe(document: Document, labels: Labels) -> str:
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
