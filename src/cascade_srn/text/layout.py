"""Find the blocks of a text: headings, list items, tables, code, quotations, references and paragraphs.

Sentences never run across blocks. The result is a copy of the text in which markup is blank and a separator stands
between blocks and table cells. The copy has the same length, so that offsets are the same in both.

A line break alone does not end a block: text from PDF files and e-mails has lines of fixed width. Signs that also occur
in prose, such as a dash or a number at the start of a line, are markup only with further evidence, such as a second
item. All rules look at neighbouring lines or at sets that are made once, so that the time is linear.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from cascade_srn.text.lines import (
    BULLET,
    CODE_INDENT,
    END,
    LONGEST_HEADING,
    NUMBER,
    SECTION_NUMBER,
    TextLine,
    find_marker,
    is_code,
    is_heading,
    read_number,
    section_number,
    set_kind,
)
from cascade_srn.text.markup import SEPARATOR, Canvas, hide_markup

SKIPPABLE = {"references": "references", "code": "code", "tables": "table"}
"""Names of what can be left out, and the kind of block of each."""

_LINE = re.compile(rf"([^\r\n{SEPARATOR}]*+)(\r\n|[\r\n{SEPARATOR}]|\Z)")
_FENCE = re.compile(r"(`{3,}+|~{3,}+)[^`~]{0,80}+\Z")
_RULE = re.compile(r"(?:-{2}|[-=*_~#+|:─━═]{3,}+|(?:[-*_=]\s){2,}+[-*_=])\Z")
_TABLE_RULE = re.compile(r"[-=:|+\s]*+\Z")
_QUOTE = re.compile(r"(?:>\s?)++")
_MARKDOWN_HEADING = re.compile(r"#{1,6}+\s++(?=\S)")
_CLOSING_HASHES = re.compile(r"\s#++\Z")
_REFERENCES = re.compile(r"(?i:references|bibliography|works cited|literature cited|reference list)\s?:?\Z")
_ENTRY = re.compile(r"\[\d{1,3}\]\s")
_AFTER_REFERENCES = re.compile(r"(?:\w\.?\s)?(?i:appendix|appendices|acknowledge?ments?|supplement\w*)\b.{0,60}\Z")
_MAIL_HEADER = re.compile(r"(?:From|To|Cc|Bcc|CC|BCC|Subject|Date|Sent|Reply-To):\s")
_PAGE_NUMBER = re.compile(r"\d{1,4}\Z")
# A shorter line is not a line of a wrapped paragraph.
_WRAPPED_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Block:
    """A part ``[start, end)`` of a text that sentences do not leave."""

    kind: str  # "paragraph", "heading", "item", "table" (a row), "code" (a line), "quote", "rule" or "references"
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextLayout:
    """Blocks and markup of a text."""

    plain: str  # The normalized text with blanks for markup, and with separators between blocks and cells
    blocks: tuple[Block, ...]  # The blocks, in the order of the text
    markup: tuple[tuple[int, int], ...]  # Half-open offsets of the markup, in ascending order


def find_layout(text: str, normal: str, *, skip: Collection[str] = ()) -> TextLayout:
    """Find the blocks and the markup of a text.

    ``normal`` is a copy of the same length in which all spaces and tabs are spaces. ``skip`` has names of
    :data:`SKIPPABLE` that are left out of :attr:`TextLayout.plain`.
    """
    canvas = Canvas(normal)
    fences = list(_fences(list(_split(text, normal)))) if "```" in normal or "~~~" in normal else []
    hide_markup(canvas, fences)
    lines = _Lines(text, canvas, fences)
    lines.classify()
    blocks = tuple(lines.blocks())
    kinds = {SKIPPABLE[name] for name in skip}
    for block in blocks:
        if block.kind in kinds:
            canvas.skip(block.start, block.end)
    return TextLayout(str(canvas), blocks, tuple(canvas.markup()))


def _split(text: str, normal: str) -> Iterator[TextLine]:
    for match in _LINE.finditer(normal):
        body = match[1].strip()
        start = match.start() + len(match[1]) - len(match[1].lstrip())
        indent = sum(CODE_INDENT if char == "\t" else 1 for char in text[match.start() : start])
        yield TextLine(match.start(), start, body, indent)


def _fences(lines: list[TextLine]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of fenced code, fences included. A fence that is not closed is only a rule."""
    unclosed = {"`": math.inf, "~": math.inf}  # lengths of the shortest fences that are not closed
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at].text)
        if fence and len(fence[1]) < unclosed[fence[1][0]]:
            for close in range(at + 1, len(lines)):
                closing = lines[close].text
                if len(closing) >= len(fence[1]) and closing == fence[1][0] * len(closing):
                    yield lines[at].first, lines[close].end
                    at = close
                    break
            else:
                unclosed[fence[1][0]] = len(fence[1])
        at += 1


class _Lines:
    """The lines of a text, to be classified."""

    def __init__(self, text: str, canvas: Canvas, fences: list[tuple[int, int]]) -> None:
        self._text, self._canvas = text, canvas
        self._fences = fences
        self._lines: list[TextLine] = []
        self._read()

    def _read(self) -> None:
        """Split the text into lines, and connect the lines of each group without blank lines."""
        plain = str(self._canvas)
        group: list[TextLine] = []
        for line in _split(self._text, plain):
            joined = line.first > 0 and plain[line.first - 1] != SEPARATOR
            if not line.text and joined and group and self._canvas.text[line.first : line.end].strip():
                # Only inline markup, such as a tag on a line of its own: not a blank line.
                self._join(line)
                continue
            if group and not (line.text and joined):
                self._close(group)
                group = []
            if line.text:
                group.append(line)
        self._close(group)

    def _join(self, line: TextLine) -> None:
        """Replace the line break before a line by spaces."""
        self._canvas.put(line.first - 1, " ")
        if self._canvas.text[line.first - 2 : line.first] == "\r\n":
            self._canvas.put(line.first - 2, " ")

    def _close(self, group: list[TextLine]) -> None:
        width = max((len(line.text) for line in group), default=0)
        for line in group:
            line.width = width
        for before, after in pairwise(group):
            before.after, after.before = after, before
        if group:
            group[0].starts = True
            if all(line.indent >= CODE_INDENT for line in group) and is_code(group):
                set_kind(group, "code")
        self._lines += group

    def classify(self) -> None:
        """Find the kind of each line and whether it starts a block. Hide markup at the starts of lines."""
        self._classify_regions()
        self._classify_quotes()
        self._classify_tables()
        self._hide_page_numbers()
        numbers = self._numbers()
        references, in_references = False, []
        for line in self._lines:
            is_section = line.kind == "heading" or bool(_MARKDOWN_HEADING.match(line.text))
            if line.kind in ("paragraph", "quote"):
                self._classify_line(line, numbers, in_references=references)
            if self._starts_references(line):
                line.kind, references = "references", True
            elif is_section or (line.starts and _AFTER_REFERENCES.match(line.text)):
                references = False
            in_references.append(references or (line.kind == "item" and bool(_ENTRY.match(line.text))))
        for line, found in zip(self._lines, in_references, strict=True):
            if found and line.kind not in ("code", "rule"):
                line.kind = "references"
            elif line.kind == "item" and not line.starts and line.before is not None:
                line.kind = line.before.kind
        for before, line in pairwise(self._lines):
            line.starts |= line.kind != before.kind
        for line in self._lines:
            if line.starts and line.first:
                self._canvas.put(line.first - 1, SEPARATOR)

    def _classify_regions(self) -> None:
        """Classify the lines of fenced code, and of code, tables and references in HTML and LaTeX."""
        regions = sorted([*(("code", *fence) for fence in self._fences), *self._canvas.regions], key=lambda r: r[1])
        at = 0
        for kind, start, end in regions:
            while at < len(self._lines) and self._lines[at].start < end:
                line = self._lines[at]
                if line.end > start:
                    set_kind([line], kind)
                at += 1
        for line in self._lines:
            if _FENCE.match(line.text):
                self._rule(line)

    def _rule(self, line: TextLine) -> None:
        set_kind([line], "rule")
        self._canvas.hide(line.start, line.end)

    def _classify_quotes(self) -> None:
        marked = [line for line in self._lines if line.kind == "paragraph" and line.text[0] == ">"]
        for line in marked:
            before, after = line.before, line.after
            if (
                before is None
                or before.quotes
                or before.text[-1] in END
                or (after is not None and after.text[:1] == ">")
            ):
                n = _QUOTE.match(line.text).end()  # type: ignore[union-attr]
                line.kind, line.quotes = "quote", line.text.count(">", 0, n)
                self._canvas.hide(line.start, line.start + n)
                line.drop(n)
        for line in self._lines:
            depth = line.before.quotes if line.before else 0
            line.starts |= line.quotes != depth
        for line in self._lines:
            # A line of quotation marks only separates its neighbours, as a blank line does.
            if not line.text and line.before:
                line.before.after = None
            if not line.text and line.after:
                line.after.before, line.after.starts = None, True
        self._lines = [line for line in self._lines if line.text]

    def _classify_tables(self) -> None:
        """Find rows with pipes or tabs. A single row is not a table."""
        for run in self._runs(lambda line: "|" in line.text or bool(_RULE.match(line.text))):
            rows = [line for line in run if "|" in line.text]
            framed = [line for line in rows if line.text[0] == line.text[-1] == "|" and len(line.text) > 1]
            if len(rows) > 1 and (len(framed) > 1 or any(_TABLE_RULE.match(line.text) for line in run)):
                for line in run:
                    self._row(line, "|")
        for run in self._runs(self._has_tab):
            if len(run) > 1:
                for line in run:
                    self._row(line, "\t")

    def _has_tab(self, line: TextLine) -> bool:
        marker = BULLET.match(line.text) or NUMBER.match(line.text)
        return self._text.find("\t", line.start + (marker.end() if marker else 0), line.end) >= 0

    def _runs(self, test: Callable[[TextLine], bool]) -> Iterator[list[TextLine]]:
        """Yield the runs of neighbouring lines of paragraphs that pass a test."""
        run: list[TextLine] = []
        for line in self._lines:
            passes = line.kind in ("paragraph", "quote") and test(line)
            if run and (not passes or line.before is not run[-1]):
                yield run
                run = []
            if passes:
                run.append(line)
        if run:
            yield run

    def _row(self, line: TextLine, border: str) -> None:
        """Hide the pipes of a row, or the whole row if it is a rule. Each cell is a sentence."""
        if _TABLE_RULE.match(line.text):
            self._rule(line)
            return
        set_kind([line], "table")
        for at in range(line.start, line.end):
            if self._text[at] == border and (border == "\t" or self._text[at - 1 : at] != "\\"):
                self._canvas.hide(at, at + 1, breaks=True)

    def _hide_page_numbers(self) -> None:
        """Hide numbers on lines of their own within a sentence."""
        for line in self._lines:
            before, after = line.before, line.after
            if before is None or after is None or not _PAGE_NUMBER.match(line.text):
                continue
            wrapped = min(len(before.text), len(after.text)) >= _WRAPPED_WIDTH
            if wrapped and before.text[-1] not in END and after.text[0].islower() and not line.starts:
                self._canvas.hide(line.start, line.end)
                self._join(line)

    def _numbers(self) -> set[tuple[str, str, int]]:
        """Return style, kind and value of all numbers at the starts of lines."""
        return {number for line in self._lines if line.kind != "code" for number in read_number(line.text)}

    def _classify_line(self, line: TextLine, numbers: set[tuple[str, str, int]], *, in_references: bool) -> None:
        before = line.before
        if _RULE.match(line.text):
            self._rule(line)
        elif heading := _MARKDOWN_HEADING.match(line.text):
            set_kind([line], "heading")
            self._canvas.hide(line.start, line.start + heading.end())
            if closing := _CLOSING_HASHES.search(line.text):
                self._canvas.hide(line.start + closing.start(), line.end)
        elif marker := find_marker(line, numbers, in_references=in_references):
            line.kind, line.starts = "item", True
            self._canvas.hide(line.start, line.start + marker)
        elif is_heading(line):
            set_kind([line], "heading")
            if number := section_number(line, alone=len(self._lines) == 1):
                self._canvas.hide(line.start, line.start + number)
        elif _MAIL_HEADER.match(line.text) and any(
            near is not None and _MAIL_HEADER.match(near.text) for near in (before, line.after)
        ):
            set_kind([line], "paragraph")
        elif before is not None and before.kind == "item" and not line.starts:
            ends = line.indent <= before.indent and line.text[0].isupper() and before.leaves_room(line)
            if ends:
                line.starts = True
            else:
                line.kind, line.indent = "item", min(line.indent, before.indent)

    def _starts_references(self, line: TextLine) -> bool:
        if line.kind not in ("heading", "paragraph", "item") or not line.starts or len(line.text) > LONGEST_HEADING:
            return False
        number = SECTION_NUMBER.match(line.text) or _MARKDOWN_HEADING.match(line.text)
        return bool(_REFERENCES.match(line.text, number.end() if number else 0)) and line is not self._lines[-1]

    def blocks(self) -> Iterator[Block]:
        block: list[TextLine] = []
        for line in self._lines:
            if block and (line.starts or line.kind != block[0].kind):
                yield Block(block[0].kind, block[0].start, block[-1].end)
                block = []
            block.append(line)
        if block:
            yield Block(block[0].kind, block[0].start, block[-1].end)
