"""A document as one SVG picture: no HTML, no script, nothing from outside, text that stays text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from cascade_srn.config import require_range
from cascade_srn.drawing.colours import DARK, LIGHT, SEEDS, Theme, shades
from cascade_srn.drawing.labels import BOLD, Labels, Marks, cut_to_width, direction, text_width
from cascade_srn.drawing.layout import Arc, place_arcs
from cascade_srn.drawing.render import legend_groups, text_between
from cascade_srn.drawing.svg_layout import (
    FEET,
    LEVEL,
    LINE,
    ROW,
    SMALL,
    SPACE,
    TYPE,
    ArcPart,
    BarPart,
    Line,
    label_width,
    lay_out_lines,
)
from cascade_srn.drawing.view import Told, all_said, pointed
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

MARGIN, BETWEEN_LINES, BETWEEN_SENTENCES = 20.0, 8.0, 22.0
NARROWEST = 160
# Characters that no XML document may hold, not even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw_svg(document: Document, *, schema: Schema | None = None, width: int = 960) -> str:
    """A document as a standalone SVG picture of a width, as high as it needs to be.

    Sentences are broken into lines; entities are bars under their words, relations arcs above them, in the colours
    of :func:`~cascade_srn.drawing.draw_document`, light or dark as the viewer's system is. Scores are shown where a
    viewer shows titles, and all that is drawn is said in the picture's description.
    """
    require_range("the width of a picture", width, NARROWEST)
    labels = Labels.of(schema, document.sentences)
    picture = _Picture(width - 2 * MARGIN)
    if document.id:
        picture.heading(document.id)
    for sentence in document.sentences:
        picture.sentence(sentence, text_between(document, sentence), labels)
    picture.legend(labels, document.sentences)
    return picture.svg(document, width)


class _Picture:
    """A picture that grows downwards."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.y = MARGIN
        self.parts: list[str] = []

    def heading(self, text: str) -> None:
        for piece in cut_to_width(" ".join(text.split()), TYPE, self.width / BOLD):
            self.y += LINE
            self.parts.append(f'<text class="h" x="0" y="{_n(self.y - 6)}">{_text(piece)}</text>')
        self.y += BETWEEN_LINES

    def sentence(self, sentence: Sentence, between: Sequence[str], labels: Labels) -> None:
        way = direction(sentence.words)
        arcs = place_arcs(sentence.triples)
        written = []
        for arc in arcs:
            directed = arc.triple.label not in labels.symmetric
            to_left, to_right = directed and not arc.forward, directed and arc.forward
            written.append(pointed(arc.triple.label, to_left, to_right, way))
        named = dict(zip(arcs, written, strict=True))
        look = labels.marks(sentence)
        told = all_said(sentence, look)
        lines = lay_out_lines(sentence, between=between, labels=written, width=self.width)
        for line in lines:
            drawn = _LineDrawing(line, look, told, labels.symmetric, mirrored=self.width if way == "rtl" else None)
            inner = "".join((*drawn.bars(), *drawn.curves(), drawn.words(way), *drawn.labels(named)))
            self.parts.append(f'<g transform="translate(0 {_n(self.y)})">{inner}</g>')
            self.y += line.height + BETWEEN_LINES
        self.y += BETWEEN_SENTENCES - BETWEEN_LINES if lines else 0.0

    def legend(self, labels: Labels, sentences: Sequence[Sentence]) -> None:
        for group in legend_groups(labels, sentences):
            x = 0.0
            for number, entry in enumerate(group["entries"]):
                room = 24 + text_width(entry["label"], SMALL) + 14
                if number and x + room > self.width:
                    x = 0.0
                    self.y += ROW
                self.parts.append(_legend_entry(entry, x, self.y))
                x += room
            self.y += ROW + 4 if group["entries"] else 0.0

    def svg(self, document: Document, width: int) -> str:
        height = round(self.y + MARGIN - 4)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img"><title>{_text(document.id or "document")}</title>'
            f"<desc>{_text(_described(document))}</desc><style>{_style()}</style>"
            f'<rect class="paper" width="{width}" height="{height}"/>'
            f'<g transform="translate({_n(MARGIN)} 0)">{"".join(self.parts)}</g></svg>\n'
        )


class _LineDrawing:
    """One line as SVG, its places mirrored where its text runs from the right."""

    def __init__(
        self, line: Line, look: Marks, told: Told, symmetric: frozenset[str], *, mirrored: float | None
    ) -> None:
        self.line = line
        self.look = look
        self.told = told
        self.symmetric = symmetric
        self.mirrored = mirrored
        self.base = line.above + TYPE  # what words stand on
        self.top = line.above - FEET  # the foot of the lowest level

    def x(self, x: float) -> float:
        """A place on the page."""
        return x if self.mirrored is None else self.mirrored - x

    def between(self, left: float, right: float) -> tuple[float, float]:
        """A stretch on the page: where it begins, and how long it is."""
        return min(self.x(left), self.x(right)), right - left

    def words(self, way: str) -> str:
        """All words, in one text so that they can be marked and copied together."""
        spans = []
        for cell in self.line.cells:
            fit = f' textLength="{_n(text_width(cell.text, TYPE))}" lengthAdjust="spacingAndGlyphs"'
            quiet = ' class="q"' if cell.word is None else ""
            # From where its writing begins: the space after it, which is there to be copied, must not move it.
            start = self.x(cell.x + (cell.width - text_width(cell.text, TYPE)) / 2)
            spans.append(f'<tspan x="{_n(start)}"{fit}{quiet}>{_text(cell.text)}</tspan>{" " if cell.gap else ""}')
        return f'<text class="w" direction="{way}" y="{_n(self.base)}">{"".join(spans)}</text>'

    def bars(self) -> list[str]:
        """The bars of entities, and the tints behind their words."""
        # The tint of the bar that is next to a word lies over those of the others.
        nearest_last = sorted(self.line.bars, key=lambda bar: -bar.row)
        return [self._tint(bar) for bar in nearest_last] + [self._bar(bar) for bar in self.line.bars]

    def _tint(self, bar: BarPart) -> str:
        x, width = self.between(bar.left, bar.right)
        css = self.look[bar.entity].css
        return f'<rect class="t {css}" x="{_n(x)}" y="{_n(self.line.above)}" width="{_n(width)}" height="{_n(LINE)}"/>'

    def _bar(self, bar: BarPart) -> str:
        x, width = self.between(bar.left, bar.right)
        y = self.line.above + LINE + bar.row * ROW
        mark = self.look[bar.entity]
        title = f"<title>{_text(self.told[bar.entity])}</title>"
        shape = f'<rect class="f" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(ROW - 1.5)}" rx="2"/>'
        under = ""
        if " " in mark.css:  # a pattern, for more labels than there are colours
            under = f'<path class="u" d="M{_n(x)} {_n(y + ROW - 3)}h{_n(width)}"/>'
        label = _fitting(bar.entity.label, width - SPACE / 2) if bar.opens else ""
        if label:
            label = _label_text(label, "k", x + width / 2, y + ROW - 5)
        return f'<g class="{mark.css}">{title}{shape}{under}{label}</g>'

    def curves(self) -> list[str]:
        """The lines of arcs, with an arrow where the object is."""
        return [self._curve(part) for part in self.line.arcs]

    def _curve(self, part: ArcPart) -> str:
        y = self._height(part)
        foot = self.line.above - 1
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
        ends = [_end(self.x(part.left), foot, directed and not part.arc.forward)] if part.left_end else []
        ends += [_end(self.x(part.right), foot, directed and part.arc.forward)] if part.right_end else []
        mark = self.look[triple]
        title = f"<title>{_text(self.told[triple])}</title>"
        return f'<g class="{mark.css}">{title}<path class="l" d="{"".join(path)}"/>{"".join(ends)}</g>'

    def labels(self, written: Mapping[Arc, str]) -> list[str]:
        """The labels of arcs, over everything else."""
        found = []
        for part in self.line.arcs:
            if part.label is None:
                continue
            label = written[part.arc]
            x, y, half = self.x(part.label), self._height(part), label_width(label) / 2 + 3
            mark = self.look[part.arc.triple]
            title = f"<title>{_text(self.told[part.arc.triple])}</title>"
            back = f'<rect class="paper" x="{_n(x - half)}" y="{_n(y - 7)}" width="{_n(2 * half)}" height="14"/>'
            found.append(f'<g class="{mark.css}">{title}{back}{_label_text(label, "r", x, y + 4)}</g>')
        return found

    def _height(self, part: ArcPart) -> float:
        return self.top - part.level * LEVEL - LEVEL / 2


def _label_text(label: str, css: str, x: float, y: float) -> str:
    fit = f'textLength="{_n(label_width(label))}" lengthAdjust="spacingAndGlyphs"'
    return f'<text class="{css}" x="{_n(x)}" y="{_n(y)}" {fit}>{_text(label)}</text>'


def _fitting(label: str, room: float) -> str:
    """As much of a label as there is room for."""
    if label_width(label) <= room:
        return label
    kept = cut_to_width(label, SMALL * BOLD, room - label_width("…"))[0] if room > 3 * SMALL else ""
    return f"{kept}…" if kept else ""


def _end(x: float, y: float, arrow: bool) -> str:
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
    fit = f'textLength="{_n(text_width(entry["label"], SMALL))}" lengthAdjust="spacingAndGlyphs"'
    label = f'<text class="g" x="{_n(x + 23)}" y="{_n(y + 9.5)}" {fit}>{_text(entry["label"])}</text>'
    return f'<g class="{entry["css"]}">{shape}{label}</g>'


def _described(document: Document) -> str:
    """All that is drawn, in words."""
    lines = [document.text]
    for sentence in document.sentences:
        lines += all_said(sentence, Labels.of(None, [sentence]).marks(sentence)).values()
    return "\n".join(lines)


def _style() -> str:
    """Plain rules, without custom properties, which programs other than browsers do not know."""
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
        shade = shades(seed, theme)
        rules.append(
            f".c{number} .f{{fill:{shade.fill}}}.c{number} .k{{fill:{shade.ink}}}.c{number} .u{{stroke:{shade.ink}}}"
            f".t.c{number}{{fill:{shade.tint}}}.c{number} .l{{stroke:{shade.line}}}.c{number} .a{{fill:{shade.line}}}"
            f".c{number} .r{{fill:{shade.word}}}"
        )
    return "".join(rules)


def _text(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text))


def _n(number: float) -> str:
    """A number as short as it can be said to a tenth."""
    return f"{number:.1f}".removesuffix(".0")
