"""Documents as they are written out, one after the other: a table, JSON lines, brat files, a page."""

from __future__ import annotations

import errno
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Protocol

from cascade_srn.config import require_choice
from cascade_srn.data import write_documents
from cascade_srn.data.formats.brat import can_hold
from cascade_srn.data.formats.files import is_stream, to_json
from cascade_srn.data.formats.jsonl import to_record
from cascade_srn.drawing.labels import width as columns_of
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.schema import Schema
from cascade_srn.storage.atomic import AtomicFile, AtomicFolder
from cascade_srn.storage.files import is_packed, written_names
from cascade_srn.storage.folders import leaving_no_folders
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


__all__ = ["AtomicFile", "AtomicFolder", "Stream", "Target"]


class Target(Protocol):
    """Takes bytes, and in the end is either committed or abandoned."""

    def write(self, data: bytes) -> None:
        """Write, so that a reader at the other end can have it at once."""

    def commit(self) -> None:
        """All is written."""

    def abandon(self) -> Path | None:
        """Not all is written: where what there is can be found, if anywhere."""


class Stream:
    """Standard output, or anything like it."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle = handle

    def write(self, data: bytes) -> None:
        """Write and flush."""
        try:
            self.handle.write(data)
            self.handle.flush()
        except OSError as error:
            error.filename = "standard output"  # such as a full disk, which is told without a path
            raise

    def commit(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> Path | None:
        """What was written is with its reader."""
        return None


FORMATS = ("table", "jsonl", "brat", "html")
# What the ending of a path tells of its format.
_BY_ENDING = {".jsonl": "jsonl", ".html": "html", ".htm": "html", ".txt": "table"}
_FILE_WIDTH = 120
# What a file system has against one name, and not against all.
_OF_A_NAME = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOENT)
_LONGEST_NAME = 200  # bytes; most file systems stop at 255


class Writer(Protocol):
    """Takes documents, and in the end is either finished or abandoned."""

    def write(self, document: Document) -> None:
        """Write a document so that a reader can have it at once, where the format allows."""

    def finish(self) -> None:
        """All documents are written."""

    def abandon(self) -> Path | None:
        """Not all documents are written: where those that are can be found, if anywhere."""


class OneByOne:
    """Documents that stand on their own, each written as it comes."""

    def __init__(self, target: Target, render: Callable[[Document], str]) -> None:
        self.target = target
        self.render = render

    def write(self, document: Document) -> None:
        """Write the document."""
        self.target.write(self.render(document).encode())

    def finish(self) -> None:
        """All is written."""
        self.target.commit()

    def abandon(self) -> Path | None:
        """Keep what is written."""
        return self.target.abandon()


class Page:
    """One HTML page of all documents, which are held until all of them are there."""

    def __init__(self, target: Target, schema: Schema, title: str) -> None:
        self.target = target
        self.schema = schema
        self.title = title
        self.documents: list[Document] = []
        self._drawn = False

    def write(self, document: Document) -> None:
        """Take the document onto the page."""
        self.documents.append(document)

    def finish(self) -> None:
        """Draw the page."""
        self._draw()
        self.target.commit()

    def abandon(self) -> Path | None:
        """Draw a page of those documents that there are, unless drawing it was what went wrong."""
        try:
            if self.documents and not self._drawn:
                self._draw()
        finally:
            kept = self.target.abandon()
        return kept

    def _draw(self) -> None:
        from cascade_srn.drawing import draw_page

        self._drawn = True
        self.target.write(draw_page(self.documents, schema=self.schema, title=self.title).encode())


class BratFolder:
    """A folder of brat files, named by the documents' ids as far as those can be names of files."""

    def __init__(self, path: Path) -> None:
        self.target = AtomicFolder(path)
        self._taken: set[str] = set()

    def write(self, document: Document) -> None:
        """Write the two files of the document."""
        name = self._name(document.id)
        path = self.target.folder / f"{name}.ann"
        try:
            with leaving_no_folders(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_documents([document], path, "brat")
        except OSError as error:
            if error.errno not in _OF_A_NAME:
                raise
            raise DataError(
                f"document {document.id!r} cannot be written as {name}.ann ({error.strerror}); rename it"
            ) from error
        self._taken.add(name.casefold())

    def _name(self, id: str) -> str:
        parts = [_plain(part) for part in id.split("/")]
        plain = "/".join(part for part in parts if part) or "document"
        name, number = plain, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{plain}-{number}"
        return name

    def finish(self) -> None:
        """All is written."""
        self.target.commit()

    def abandon(self) -> Path | None:
        """Keep what is written."""
        return self.target.abandon()


def _plain(part: str) -> str:
    """A part of an id as a part of a path that is valid anywhere, and hidden nowhere."""
    kept = "".join(char if char.isprintable() and char not in '\\:*?"<>|' else "_" for char in part)
    while len(kept.encode()) > _LONGEST_NAME:
        kept = kept[:-1]
    return kept.lstrip(".").rstrip(". ")


def chosen_format(format: str | None, output: Path | None, *, terminal: bool) -> str:
    """The format that is asked for, or what suits the output: its ending, a table on a terminal, JSON lines else."""
    _check_ending(output)
    if format is not None:
        require_choice("--format", format, FORMATS)
        return format
    if output is None:
        return "table" if terminal else "jsonl"
    if output.suffix.lower() not in _BY_ENDING:
        raise ConfigError(
            f"the ending of {output} tells no format; give --format table, jsonl, brat or html, or an ending such as "
            ".jsonl or .html"
        )
    return _BY_ENDING[output.suffix.lower()]


def _check_ending(output: Path | None) -> None:
    """Refuse a name that says of a file that it is compressed; a pipe may lead to a program that compresses."""
    if output is None or not is_packed(output) or (output.exists() and not output.is_file()):
        return
    raise ConfigError(
        f"--output {output} has the ending of a compressed file, but results are written as they are; leave off "
        f"{output.suffix}, and compress the file afterwards"
    )


def _check_labels(schema: Schema) -> None:
    """Refuse a label that brat cannot hold before anything is extracted, rather than each document that has it."""
    for label in (*schema.entity_types, *schema.relation_types):
        if not can_hold(label):
            raise ConfigError(
                f"the model's label {label!r} has a space in it, which brat cannot hold; write another format, such as "
                "--format jsonl, or train the model with a label without"
            )


def check_output(format: str, output: Path | None) -> None:
    """Refuse an output that cannot be written, before a model is loaded and texts are extracted.

    Raises:
        DataError: the path, its folder or its name does not allow it.
    """
    if output is None:
        return
    if format == "brat":
        AtomicFolder(output).discard()
    elif not is_stream(output):  # opening a pipe would end it for its reader
        AtomicFile(output).discard()


def make_writer(format: str, output: Path | None, *, schema: Schema, terminal: bool = False, width: int = 0) -> Writer:
    """The writer of a format, to a path, or to standard output where there is none."""
    require_choice("--format", format, FORMATS)
    _check_ending(output)
    if format == "brat":
        if output is None:
            raise ConfigError("--format brat writes a folder of files; name it by --output DIR")
        _check_labels(schema)
        return BratFolder(output)
    if format == "html" and output is None and terminal:
        raise ConfigError("--format html writes a page; name its file by --output page.html")
    if format == "html":
        from cascade_srn.drawing.render import environment

        environment()  # refuses here, before anything is made, where the template engine is missing
    target: Target = Stream(sys.stdout.buffer) if output is None else AtomicFile(output)
    if format == "html":
        return Page(target, schema, "Extracted" if output is None else written_names([output.stem])[0])
    if format == "jsonl":
        return OneByOne(target, lambda document: f"{to_json(to_record(document))}\n")
    pass

    colour = terminal and output is None
    return OneByOne(target, lambda document: f"{document_table(document, width=width or _FILE_WIDTH, colour=colour)}\n")
