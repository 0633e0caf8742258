"""A document as tables for people: its entities, its relations.

Set here and not by rich, which fails on some sequences of characters; a text may hold any.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from cascade_srn.drawing.chunks import width as columns_of
from cascade_srn.types import Document

# Characters that would turn the writing around for all that follows on the screen.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NARROWEST, _BETWEEN = 30, "   "
_BOLD, _DIM, _LABEL, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"


def document_table(document: Document, *, width: int, colour: bool = False) -> str:
    """The tables of a document under its name, no wider than ``width`` columns of a terminal (but 30 at least)."""
    lines = [_styled(shown(document.id) or "document", _BOLD, colour)]
    width = max(width, _NARROWEST)
    if document.entities:
        entities = [(shown(e.text), shown(e.label), f"{e.start}–{e.end}", _score(e.score)) for e in document.entities]
        lines += _table(("entity", "type", "characters", "score"), entities, "llrr", width, colour)
    else:
        lines.append(_styled("  nothing found", _DIM, colour))
    if document.relations:
        relations = [
            (shown(r.head.text), shown(r.label), shown(r.tail.text), _score(r.score)) for r in document.relations
        ]
        lines += ["", *_table(("subject", "relation", "object", "score"), relations, "lllr", width, colour)]
    return "".join(f"{line}\n" for line in lines)


def shown(text: str) -> str:
    """A text on one line, without characters that would do something to a terminal."""
    return "".join(
        "\ufffd" if char in _TURNING or unicodedata.category(char) in ("Cc", "Cs") else char
        for char in " ".join(text.split())
    )


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], sides: str, width: int, colour: bool
) -> Iterator[str]:
    """Lines of a table. ``sides`` says of each column whether it stands left (l) or right (r) in its room."""
    room = _rooms(headings, rows, sides, width - len(_BETWEEN) * (len(headings) - 1))
    yield from _row(headings, room, sides)
    yield _styled("─" * (sum(room) + len(_BETWEEN) * (len(room) - 1)), _DIM, colour)
    for row in rows:
        yield from _row(row, room, sides, label=1 if colour else None)


def _row(row: Sequence[str], room: Sequence[int], sides: str, label: int | None = None) -> Iterator[str]:
    wrapped = [_wrapped(cell, most) for cell, most in zip(row, room, strict=True)]
    for cells in zip_longest(*wrapped, fillvalue=""):
        yield _line(cells, room, sides, label)


def _rooms(headings: Sequence[str], rows: Sequence[Sequence[str]], sides: str, width: int) -> list[int]:
    """How wide each column is: as its widest cell, or less where all of them would be too wide together.

    Numbers keep theirs; of the others, the widest gives way first.
    """
    cells = zip(headings, *rows, strict=True)
    room = [max(map(columns_of, column)) for column in cells]
    flexible = [at for at, side in enumerate(sides) if side == "l"]
    while sum(room) > width:
        widest = max(flexible, key=lambda at: room[at])
        if room[widest] <= 2:
            break
        others = sorted((room[at] for at in flexible if at != widest), reverse=True)
        room[widest] -= min(sum(room) - width, max(1, room[widest] - max(others[0], 2)))
    return room


def _wrapped(text: str, most: int) -> list[str]:
    """A text in lines of that many columns, broken between words where there are any."""
    lines, line = [], ""
    for word in text.split(" "):
        for piece in _cut(word, most):
            if line and columns_of(line) + 1 + columns_of(piece) > most:
                lines.append(line)
                line = piece
            else:
                line = f"{line} {piece}" if line else piece
    return [*lines, line]


def _cut(word: str, most: int) -> Iterable[str]:
    piece, taken = "", 0
    for char in word:
        step = columns_of(char)
        if piece and taken + step > most:
            yield piece
            piece, taken = "", 0
        piece += char
        taken += step
    yield piece


def _line(cells: Sequence[str], room: Sequence[int], sides: str, label: int | None) -> str:
    """Cells side by side, the one at ``label`` coloured."""
    parts = []
    for at, (cell, most, side) in enumerate(zip(cells, room, sides, strict=True)):
        blank = " " * max(0, most - columns_of(cell))
        text = _styled(cell, _LABEL, at == label and bool(cell))
        parts.append(f"{text}{blank}" if side == "l" else f"{blank}{text}")
    return _BETWEEN.join(parts).rstrip()


def _styled(text: str, style: str, styled: bool) -> str:
    return f"{style}{text}{_PLAIN}" if styled else text
