"""Find the blocks of a text: headings, list items, tables, code, quotations, references and paragraphs.

Sentences never run across blocks. The result is a copy of the text in which markup is blank and a separator stands
between blocks and table cells. The copy has the same length, so that offsets are the same in both.

A line break alone does not end a block: text from PDF files and e-mails has lines of fixed width. Signs that also occur
in prose, such as a dash or a number at the start of a line, are markup only with further evidence, such as a second
item. All rules look at neighbouring lines or at sets that are made once, so that the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from cascade_srn.text.markup import SEPARATOR, Canvas, hide_markup, name_set

SKIPPABLE = {"references": "references", "code": "code", "tables": "table"}
"""Names of what can be left out, and the kind of block of each."""

# Words that often start a sentence.
OPENERS = name_set(
    "a additionally after all also although an and another as at based because before besides both but by "
    "compared consequently despite do does due during each empirical evaluation every experimental "
    "experiments extensive finally first for from further furthermore given he hence here how however i "
    "if in instead is it its later many moreover most my nevertheless next no not on once one or other "
    "our recent recently results second several she since so some specifically such that the their then "
    "there therefore these they this those though through thus to two under unfortunately unlike using we "
    "what when where whereas whether which while who why with within without you your"
)
# Words that are in lower case in titles, and do not end one.
_TITLE_WORDS = name_set(
    "a an and as at between by for from in into of on or over the through to under via vs vs. with without"
)

_LINE = re.compile(rf"([^\r\n{SEPARATOR}]*+)(\r\n|[\r\n{SEPARATOR}]|\Z)")
_FENCE = re.compile(r"(`{3,}+|~{3,}+)[^`~]{0,80}+\Z")
_RULE = re.compile(r"(?:-{2}|[-=*_~#+|:─━═]{3,}+|(?:[-*_=]\s){2,}+[-*_=])\Z")
_TABLE_RULE = re.compile(r"[-=:|+\s]*+\Z")
_QUOTE = re.compile(r"(?:>\s?)++(?=\s|\Z|\S)(?<=[>\s])")
_MARKDOWN_HEADING = re.compile(r"#{1,6}+\s++(?=\S)")
_CLOSING_HASHES = re.compile(r"\s#++\Z")
_BULLET = re.compile(r"(?:([•◦▪‣●∙○■□▸►➢➤✓✔❖⁃])\s*+|[-*+–·]\s++)(?:\[[ xX]\]\s++)?+(?=\S)")
_NUMBER = re.compile(
    r"(?:\((?P<round>\d{1,3}|[a-zA-Z]|[ivx]{2,5})\)|\[(?P<square>\d{1,3})\]|(?P<dot>\d{1,3}|[a-z]|[ivx]{2,5})\."
    r"|(?P<half>\d{1,3}|[a-zA-Z]|[ivx]{2,5})\))\s++(?=\S)"
)
_ROMAN = {
    tens + ones: 10 * len(tens) + value
    for tens in ("", "x")
    for value, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
}
_SECTION_NUMBER = re.compile(
    r"(?:(?P<plain>\d{1,2})|\d{1,2}(?:\.\d{1,2}){0,3}+\.?+|[IVX]{1,5}+\.(?=\s++[A-Z]{3}))\s++(?=[^\W\d_])(?![a-z])"
)
_SECTION_NAME = re.compile(
    r"(?i:abstract|acknowledge?ments?|analysis|appendix|approach|background|conclusions?|data|datasets?|discussion"
    r"|evaluation|experiments?|experimental|future|implementation|introduction|limitations|materials|methods?"
    r"|methodology|models?|motivation|overview|preliminaries|related|results|summary|training)(?!\w)"
)
_REFERENCES = re.compile(r"(?i:references|bibliography|works cited|literature cited|reference list)\s?:?\Z")
_AFTER_REFERENCES = re.compile(r"(?:\w\.?\s)?(?i:appendix|appendices|acknowledge?ments?|supplement\w*)\b.{0,60}\Z")
_MAIL_HEADER = re.compile(r"(?:From|To|Cc|Bcc|CC|BCC|Subject|Date|Sent|Reply-To):\s")
_PAGE_NUMBER = re.compile(r"\d{1,4}\Z")
_CODE_START = re.compile(
    r"(?:def|class|import|from|return|print|function|public|private|static|const|let|var|void|pip|git|sudo)\b[ (<\"']"
    r"|#include|#!|//|\$\s|>>>\s|[\w.\[\]'\"]++\s*+[-+*/|]?=(?!=)"
)
_CALL = re.compile(r"[\w.]++\(")
_END = frozenset(".!?:;…。！？")

_LONGEST_HEADING = 80  # characters
_CODE_INDENT = 4
# A shorter line is not a line of a wrapped paragraph.
_WRAPPED_WIDTH = 30


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text that sentences do not leave.

    Attributes:
        kind: "paragraph", "heading", "item", "table" (a row), "code" (a line), "quote", "rule" or "references".
        start: First character.
        end: End, exclusive.
    """

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Blocks and markup of a text.

    Attributes:
        plain: The normalized text with blanks for markup, and with separators between blocks and cells.
        blocks: The blocks, in the order of the text.
        markup: Half-open offsets of the markup, in ascending order.
    """

    plain: str
    blocks: tuple[Block, ...]
    markup: tuple[tuple[int, int], ...]


@dataclass(slots=True, eq=False)
class _Line:
    """A line without the whitespace around it and without markup that was found before."""

    first: int  # start, whitespace included
    start: int
    text: str
    indent: int
    kind: str = "paragraph"
    starts: bool = False  # starts a block
    quotes: int = 0
    width: int = 0  # of the longest line of the group without blank lines
    before: _Line | None = None  # neighbours that are not blank
    after: _Line | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def drop(self, n: int) -> None:
        """Remove characters from the start."""
        rest = self.text[n:].lstrip()
        self.start, self.text = self.end - len(rest), rest

    def leaves_room(self, following: _Line) -> bool:
        """Return whether the first word of the next line would have fitted on this line."""
        word = following.text.split(None, 1)[0] if following.text else ""
        return len(self.text) + 1 + len(word) <= self.width


def find_layout(text: str, normal: str, *, skip: Collection[str] = ()) -> Layout:
    """Find the blocks and the markup of a text.

    Args:
        text: The text.
        normal: A copy of the same length in which all spaces and tabs are spaces.
        skip: Names of :data:`SKIPPABLE` that are left out of :attr:`Layout.plain`.
    """
    canvas = Canvas(normal)
    fences = list(_fences(list(_split(text, normal))))
    hide_markup(canvas, fences)
    lines = _Lines(text, canvas, fences)
    lines.classify()
    blocks = tuple(lines.blocks())
    kinds = {SKIPPABLE[name] for name in skip}
    for block in blocks:
        if block.kind in kinds:
            canvas.skip(block.start, block.end)
    return Layout(str(canvas), blocks, tuple(canvas.markup()))


def _split(text: str, normal: str) -> Iterator[_Line]:
    for match in _LINE.finditer(normal):
        body = match[1].strip()
        start = match.start() + len(match[1]) - len(match[1].lstrip())
        indent = sum(_CODE_INDENT if char == "\t" else 1 for char in text[match.start() : start])
        yield _Line(match.start(), start, body, indent)


def _fences(lines: list[_Line]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of fenced code, fences included. A fence that is not closed is only a rule."""
    unclosed = {"`": len(lines) + 1 << 20, "~": len(lines) + 1 << 20}  # shortest fences that are not closed
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
        self._lines: list[_Line] = []
        self._read()

    def _read(self) -> None:
        """Split the text into lines, and connect the lines of each group without blank lines."""
        plain = str(self._canvas)
        group: list[_Line] = []
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

    def _join(self, line: _Line) -> None:
        """Replace the line break before a line by spaces."""
        self._canvas.put(line.first - 1, " ")
        if self._canvas.text[line.first - 2 : line.first] == "\r\n":
            self._canvas.put(line.first - 2, " ")

    def _close(self, group: list[_Line]) -> None:
        width = max((len(line.text) for line in group), default=0)
        for line in group:
            line.width = width
        for before, after in pairwise(group):
            before.after, after.before = after, before
        if group:
            group[0].starts = True
            if all(line.indent >= _CODE_INDENT for line in group) and _is_code(group):
                _set_kind(group, "code")
        self._lines += group

    def classify(self) -> None:
        """Find the kind of each line and whether it starts a block. Hide markup at the starts of lines."""
        self._classify_regions()
        self._classify_quotes()
        self._classify_tables()
        self._hide_page_numbers()
        numbers = self._numbers()
        references = False
        for line in self._lines:
            if line.kind in ("paragraph", "quote"):
                self._classify_line(line, numbers)
            if self._starts_references(line):
                line.kind, references = "references", True
            elif references and (line.text[:1] == "#" or (line.starts and _AFTER_REFERENCES.match(line.text))):
                references = False
            elif references and line.kind not in ("code", "rule"):
                line.kind = "references"
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
                    _set_kind([line], kind)
                at += 1
        for line in self._lines:
            if _FENCE.match(line.text):
                self._rule(line)

    def _rule(self, line: _Line) -> None:
        _set_kind([line], "rule")
        self._canvas.hide(line.start, line.end)

    def _classify_quotes(self) -> None:
        marked = [line for line in self._lines if line.kind == "paragraph" and line.text[0] == ">"]
        for line in marked:
            before, after = line.before, line.after
            if (
                before is None
                or before.quotes
                or before.text[-1] in _END
                or (after is not None and after.text[:1] == ">")
            ):
                prefix = _QUOTE.match(line.text)
                n = prefix.end() if prefix else 1
                line.kind, line.quotes = "quote", line.text.count(">", 0, n)
                self._canvas.hide(line.start, line.start + n)
                line.drop(n)
        for line in self._lines:
            depth = line.before.quotes if line.before else 0
            line.starts |= line.quotes != depth
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

    def _has_tab(self, line: _Line) -> bool:
        marker = _BULLET.match(line.text) or _NUMBER.match(line.text)
        return self._text.find("\t", line.start + (marker.end() if marker else 0), line.end) >= 0

    def _runs(self, test: Callable[[_Line], bool]) -> Iterator[list[_Line]]:
        """Yield the runs of neighbouring lines of paragraphs that pass a test."""
        run: list[_Line] = []
        for line in self._lines:
            passes = line.kind in ("paragraph", "quote") and test(line)
            if run and (not passes or line.before is not run[-1]):
                yield run
                run = []
            if passes:
                run.append(line)
        if run:
            yield run

    def _row(self, line: _Line, border: str) -> None:
        """Hide the pipes of a row, or the whole row if it is a rule. Each cell is a sentence."""
        if _TABLE_RULE.match(line.text):
            self._rule(line)
            return
        _set_kind([line], "table")
        for at in range(line.start, line.end):
            if self._text[at] == border and (border == "\t" or self._text[at - 1 : at] != "\\"):
                if border == "|":
                    self._canvas.hide(at, at + 1)
                self._canvas.put(at, SEPARATOR)

    def _hide_page_numbers(self) -> None:
        """Hide numbers on lines of their own within a sentence."""
        for line in self._lines:
            before, after = line.before, line.after
            if before is None or after is None or not _PAGE_NUMBER.match(line.text):
                continue
            wrapped = min(len(before.text), len(after.text)) >= _WRAPPED_WIDTH
            if wrapped and before.text[-1] not in _END and after.text[0].islower() and not line.starts:
                self._canvas.hide(line.start, line.end)
                self._join(line)

    def _numbers(self) -> set[tuple[str, str, int]]:
        """Return style, kind and value of all numbers at the starts of lines."""
        return {number for line in self._lines if line.kind != "code" for number in _read_number(line.text)}

    def _classify_line(self, line: _Line, numbers: set[tuple[str, str, int]]) -> None:
        before = line.before
        if _RULE.match(line.text):
            self._rule(line)
        elif heading := _MARKDOWN_HEADING.match(line.text):
            _set_kind([line], "heading")
            self._canvas.hide(line.start, line.start + heading.end())
            if closing := _CLOSING_HASHES.search(line.text):
                self._canvas.hide(line.start + closing.start(), line.end)
        elif marker := _find_marker(line, numbers):
            line.kind, line.starts = "item", True
            self._canvas.hide(line.start, line.start + marker)
        elif _is_heading(line):
            _set_kind([line], "heading")
            if number := _section_number(line, numbers, alone=len(self._lines) == 1):
                self._canvas.hide(line.start, line.start + number)
        elif _MAIL_HEADER.match(line.text) and any(
            near is not None and _MAIL_HEADER.match(near.text) for near in (before, line.after)
        ):
            _set_kind([line], "paragraph")
        elif before is not None and before.kind == "item" and not line.starts:
            ends = line.indent <= before.indent and line.text[0].isupper() and before.leaves_room(line)
            if ends:
                line.starts = True
            else:
                line.kind, line.indent = "item", min(line.indent, before.indent)

    def _starts_references(self, line: _Line) -> bool:
        if line.kind not in ("heading", "paragraph", "item") or not line.starts or len(line.text) > _LONGEST_HEADING:
            return False
        number = _SECTION_NUMBER.match(line.text) or _MARKDOWN_HEADING.match(line.text)
        return bool(_REFERENCES.match(line.text, number.end() if number else 0)) and line is not self._lines[-1]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks."""
        block: list[_Line] = []
        for line in self._lines:
            if block and (line.starts or line.kind != block[0].kind):
                yield Block(block[0].kind, block[0].start, block[-1].end)
                block = []
            block.append(line)
        if block:
            yield Block(block[0].kind, block[0].start, block[-1].end)


def _set_kind(lines: list[_Line], kind: str) -> None:
    """Make each line a block of its own."""
    for line in lines:
        line.kind, line.starts = kind, True
        if line.after is not None:
            line.after.starts = True


def _is_code(lines: list[_Line]) -> bool:
    """Return whether at least half of the lines look like code."""
    likely = sum(
        line.text[-1] in ";{}"
        or bool(_CODE_START.match(line.text))
        or (line.text[-1] in "):" and bool(_CALL.match(line.text)))
        for line in lines
    )
    return 2 * likely >= len(lines)


def _read_number(text: str) -> list[tuple[str, str, int]]:
    """Return the possible readings of the number of a list item: style, kind and value."""
    match = _NUMBER.match(text)
    style = match.lastgroup if match else None
    if match is None or style is None:
        return []
    name = match[style]
    if name.isdigit():
        return [(style, "1", int(name))]
    found = [(style, "a" if name.islower() else "A", ord(name))] if len(name) == 1 else []
    return [*found, (style, "i", _ROMAN[name])] if name in _ROMAN else found


def _find_marker(line: _Line, numbers: set[tuple[str, str, int]]) -> int:
    """Return the length of the bullet or number of a list item, or 0."""
    before, after = line.before, line.after
    if bullet := _BULLET.match(line.text):
        neighbours = [near.text[0] for near in (before, after) if near is not None and _BULLET.match(near.text)]
        known = bullet[1] or line.starts or line.text[0] in neighbours
        follows = before is None or before.kind in ("item", "heading") or before.text[-1] == ":"
        return bullet.end() if known or follows else 0
    marker = _NUMBER.match(line.text)
    if not marker:
        return 0
    for style, kind, value in _read_number(line.text):
        in_sequence = (style, kind, value + 1) in numbers or (style, kind, value - 1) in numbers
        # A sentence that is wrapped before its last number: "in Section⏎3. The".
        split = before is not None and before.kind != "item" and before.text[-1] not in _END and not line.starts
        if in_sequence and not (split and value not in (1, ord("a"), ord("A"))):
            return marker.end()
    return marker.end() if marker["square"] and line.starts and before is None else 0


def _is_heading(line: _Line) -> bool:
    """Return whether a short line is a heading: it starts a group or follows a sentence, and is not wrapped."""
    text, before, after = line.text, line.before, line.after
    if len(text) > _LONGEST_HEADING or not (text[-1].isalnum() or text[-1] in ")]"):
        return False
    if not line.starts and before is not None and before.text[-1] not in _END:
        return False
    number = _SECTION_NUMBER.match(text)
    words = text[number.end() if number else 0 :].split()
    if len(words) > 12 or not words[0][0].isupper() or words[-1] in _TITLE_WORDS:
        return False
    if after is None or after.starts:
        return line.starts or number is not None
    if not (after.text[0].isupper() and line.leaves_room(after) and 4 * len(text) <= 3 * line.width):
        return False
    opens = after.text.split(None, 1)[0].rstrip(",").lower() in OPENERS
    if words[0].lower() in OPENERS and not opens:
        return False
    if all(word in _TITLE_WORDS or not word[0].islower() for word in words):
        return True
    return opens and words[0].lower() not in OPENERS


def _section_number(line: _Line, numbers: set[tuple[str, str, int]], *, alone: bool) -> int:
    """Return the length of the number of a heading, or 0. A plain number could be part of a name."""
    number = _SECTION_NUMBER.match(line.text)
    if number is None or alone:
        return 0
    return number.end() if not number["plain"] or _SECTION_NAME.match(line.text, number.end()) else 0
