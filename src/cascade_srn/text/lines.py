"""Lines of a text, and rules for single lines: list items, headings and code.

The rules look at a line and its two neighbours only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cascade_srn.text.markup import name_set

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

BULLET = re.compile(r"(?:([•◦▪‣●∙○■□▸►➢➤✓✔❖⁃])\s*+|[-*+–·]\s++)(?:\[[ xX]\]\s++)?+(?=\S)")
NUMBER = re.compile(
    r"(?:\((?P<round>\d{1,3}|[a-zA-Z]|[ivx]{2,5})\)|\[(?P<square>\d{1,3})\]|(?P<dot>\d{1,3}|[a-z]|[ivx]{2,5})\."
    r"|(?P<half>\d{1,3}|[a-zA-Z]|[ivx]{2,5})\))\s++(?=\S)"
)
_ROMAN = {
    tens + ones: 10 * len(tens) + value
    for tens in ("", "x")
    for value, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
}
SECTION_NUMBER = re.compile(
    r"(?:(?P<plain>\d{1,2})|\d{1,2}(?:\.\d{1,2}){0,3}+\.?+|[IVX]{1,5}+\.(?=\s++[A-Z]{3}))\s++(?=[^\W\d_])(?![a-z])"
)
_SECTION_NAME = re.compile(
    r"(?i:abstract|acknowledge?ments?|analysis|appendix|approach|background|conclusions?|data|datasets?|discussion"
    r"|evaluation|experiments?|experimental|future|implementation|introduction|limitations|materials|methods?"
    r"|methodology|models?|motivation|overview|preliminaries|related|results|summary|training)(?!\w)"
)
_CODE_START = re.compile(
    r"(?:def|class|import|from|return|print|function|public|private|static|const|let|var|void|pip|git|sudo)\b[ (<\"']"
    r"|#include|#!|//|\$\s|>>>\s|[\w.\[\]'\"]++\s*+[-+*/|]?=(?!=)"
)
_CALL = re.compile(r"[\w.]++\(")
END = frozenset(".!?:;…。！？")

LONGEST_HEADING = 80  # characters
CODE_INDENT = 4


@dataclass(slots=True, eq=False)
class TextLine:
    """A line without the whitespace around it and without markup that was found before."""

    first: int  # start, whitespace included
    start: int
    text: str
    indent: int
    kind: str = "paragraph"
    starts: bool = False  # starts a block
    quotes: int = 0
    width: int = 0  # of the longest line of the group without blank lines
    before: TextLine | None = None  # neighbours that are not blank
    after: TextLine | None = None

    @property
    def end(self) -> int:
        """End of the text, exclusive."""
        return self.start + len(self.text)

    def drop(self, n: int) -> None:
        """Remove characters from the start."""
        rest = self.text[n:].lstrip()
        self.start, self.text = self.end - len(rest), rest

    def leaves_room(self, following: TextLine) -> bool:
        """Return whether the first word of the next line would have fitted on this line."""
        word = following.text.split(None, 1)[0] if following.text else ""
        return len(self.text) + 1 + len(word) <= self.width


def set_kind(lines: list[TextLine], kind: str) -> None:
    """Make each line a block of its own."""
    for line in lines:
        line.kind, line.starts = kind, True
        if line.after is not None:
            line.after.starts = True


def is_code(lines: list[TextLine]) -> bool:
    """Return whether at least half of the lines look like code."""
    likely = sum(
        line.text[-1] in ";{}"
        or bool(_CODE_START.match(line.text))
        or (line.text[-1] in "):" and bool(_CALL.match(line.text)))
        for line in lines
    )
    return 2 * likely >= len(lines)


def read_number(text: str) -> list[tuple[str, str, int]]:
    """Return the possible readings of the number of a list item: style, kind and value."""
    match = NUMBER.match(text)
    style = match.lastgroup if match else None
    if match is None or style is None:
        return []
    name = match[style]
    if name.isdigit():
        return [(style, "1", int(name))]
    found = [(style, "a" if name.islower() else "A", ord(name))] if len(name) == 1 else []
    return [*found, (style, "i", _ROMAN[name])] if name in _ROMAN else found


def find_marker(line: TextLine, numbers: set[tuple[str, str, int]], *, in_references: bool) -> int:
    """Return the length of the bullet or number of a list item, or 0.

    ``numbers`` has the readings of the numbers of all lines.
    """
    before, after = line.before, line.after
    if bullet := BULLET.match(line.text):
        neighbours = [near.text[0] for near in (before, after) if near is not None and BULLET.match(near.text)]
        known = bullet[1] or line.starts or line.text[0] in neighbours
        follows = before is None or before.kind in ("item", "heading") or before.text[-1] == ":"
        return bullet.end() if known or follows else 0
    marker = NUMBER.match(line.text)
    if not marker:
        return 0
    if in_references and (marker["square"] or marker["dot"]):
        return marker.end()
    # A sentence that is wrapped before a number: "in Section⏎3. The".
    wrapped = before is not None and before.kind != "item" and before.text[-1] not in END and not line.starts
    if marker["square"] and (wrapped or line.text[marker.end()].islower()):
        return 0
    for style, kind, value in read_number(line.text):
        in_sequence = (style, kind, value + 1) in numbers or (style, kind, value - 1) in numbers
        if in_sequence and (not wrapped or value in (1, ord("a"), ord("A"))):
            return marker.end()
    return 0


def is_heading(line: TextLine) -> bool:
    """Return whether a short line is a heading: it starts a group or follows a sentence, and is not wrapped."""
    text, before, after = line.text, line.before, line.after
    if len(text) > LONGEST_HEADING or not (text[-1].isalnum() or text[-1] in ")]"):
        return False
    if not line.starts and before is not None and before.text[-1] not in END:
        return False
    number = SECTION_NUMBER.match(text)
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


def section_number(line: TextLine, *, alone: bool) -> int:
    """Return the length of the number of a heading, or 0. A plain number could be part of a name."""
    number = SECTION_NUMBER.match(line.text)
    if number is None or alone:
        return 0
    return number.end() if not number["plain"] or _SECTION_NAME.match(line.text, number.end()) else 0
