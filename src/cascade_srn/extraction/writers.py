"""Write documents as tables, JSON lines, brat files or an HTML page."""

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
from cascade_srn.drawing.labels import width as display_width
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.schema import Schema
from cascade_srn.storage.atomic import AtomicFile, AtomicFolder
from cascade_srn.storage.files import is_packed, written_names
from cascade_srn.storage.folders import leaving_no_folders
from cascade_srn.types import Document

# Marks that change the writing direction of the following text in a terminal.
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MIN_WIDTH, _GAP = 30, "   "
_BOLD, _DIM, _LABEL, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"


def format_document(document: Document, *, width: int, colour: bool = False) -> str:
    """Format the entities and relations of a document as tables of at most ``width`` columns, or 30 if less."""
    lines = [_style(sanitise(document.id) or "document", _BOLD, colour)]
    width = max(width, _MIN_WIDTH)
    if document.entities:
        entities = [
            (sanitise(e.text), sanitise(e.label), f"{e.start}–{e.end}", _format_score(e.score))
            for e in document.entities
        ]
        lines += _table_lines(("entity", "type", "characters", "score"), entities, "llrr", width, colour)
    else:
        lines.append(_style("  nothing found", _DIM, colour))
    if document.relations:
        relations = [
            (sanitise(r.head.text), sanitise(r.label), sanitise(r.tail.text), _format_score(r.score))
            for r in document.relations
        ]
        lines += ["", *_table_lines(("subject", "relation", "object", "score"), relations, "lllr", width, colour)]
    return "".join(f"{line}\n" for line in lines)


def sanitise(text: str) -> str:
    """Return a text in one line, with control characters and direction marks replaced."""
    return "".join(
        "\ufffd" if char in _DIRECTION_MARKS or unicodedata.category(char) in ("Cc", "Cs") else char
        for char in " ".join(text.split())
    )


def _format_score(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"


def _table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], sides: str, width: int, colour: bool
) -> Iterator[str]:
    """Yield the lines of a table. ``sides`` has l or r for each column: left- or right-aligned."""
    widths = _column_widths(headings, rows, sides, width - len(_GAP) * (len(headings) - 1))
    yield from _row_lines(headings, widths, sides)
    yield _style("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), _DIM, colour)
    for row in rows:
        yield from _row_lines(row, widths, sides, label=1 if colour else None)


def _row_lines(row: Sequence[str], widths: Sequence[int], sides: str, label: int | None = None) -> Iterator[str]:
    wrapped = [_wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    for cells in zip_longest(*wrapped, fillvalue=""):
        yield _line(cells, widths, sides, label)


def _column_widths(headings: Sequence[str], rows: Sequence[Sequence[str]], sides: str, width: int) -> list[int]:
    """Return the width of each column: that of its widest cell, or less if the table would be too wide.

    Right-aligned columns keep their width. Of the others, the widest shrinks first.
    """
    cells = zip(headings, *rows, strict=True)
    widths = [max(map(display_width, column)) for column in cells]
    flexible = [at for at, side in enumerate(sides) if side == "l"]
    while sum(widths) > width:
        widest = max(flexible, key=lambda at: widths[at])
        if widths[widest] <= 2:
            break
        others = sorted((widths[at] for at in flexible if at != widest), reverse=True)
        widths[widest] -= min(sum(widths) - width, max(1, widths[widest] - max(others[0], 2)))
    return widths


def _wrap(text: str, width: int) -> list[str]:
    """Break a text into lines of at most ``width`` columns, between words if possible."""
    lines, line = [], ""
    for word in text.split(" "):
        for piece in _split_word(word, width):
            if line and display_width(line) + 1 + display_width(piece) > width:
                lines.append(line)
                line = piece
            else:
                line = f"{line} {piece}" if line else piece
    return [*lines, line]


def _split_word(word: str, width: int) -> Iterable[str]:
    piece, taken = "", 0
    for char in word:
        step = display_width(char)
        if piece and taken + step > width:
            yield piece
            piece, taken = "", 0
        piece += char
        taken += step
    yield piece


def _line(cells: Sequence[str], widths: Sequence[int], sides: str, label: int | None) -> str:
    """Join cells to a line, with the cell at ``label`` coloured."""
    parts = []
    for at, (cell, width, side) in enumerate(zip(cells, widths, sides, strict=True)):
        blank = " " * max(0, width - display_width(cell))
        text = _style(cell, _LABEL, at == label and bool(cell))
        parts.append(f"{text}{blank}" if side == "l" else f"{blank}{text}")
    return _GAP.join(parts).rstrip()


def _style(text: str, style: str, styled: bool) -> str:
    return f"{style}{text}{_RESET}" if styled else text


class StreamTarget:
    """Standard output or another open stream, with the interface of :class:`AtomicFile`."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle = handle

    def write(self, data: bytes) -> None:
        """Write and flush."""
        try:
            self.handle.write(data)
            self.handle.flush()
        except OSError as error:
            error.filename = "standard output"  # an error such as a full disk has no path
            raise

    def commit(self) -> None:
        """Do nothing: a stream has no pending output."""

    def abandon(self) -> Path | None:
        """Return None: the reader has the output."""
        return None


Target = StreamTarget | AtomicFile

FORMATS = ("table", "jsonl", "brat", "html")
# Default formats by suffix of the output.
_BY_SUFFIX = {".jsonl": "jsonl", ".html": "html", ".htm": "html", ".txt": "table"}
_FILE_WIDTH = 120
# Errors that concern a single file name.
_NAME_ERRORS = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOENT)
_MAX_NAME_BYTES = 200  # most file systems allow 255


class Writer(Protocol):
    """Writer of documents, which is finished or abandoned at the end."""

    def write(self, document: Document) -> None:
        """Write a document, immediately if the format allows."""

    def finish(self) -> None:
        """Complete the output after the last document."""

    def abandon(self) -> Path | None:
        """Keep the documents so far, and return their path, or None if there are none."""


class StreamWriter:
    """Writes each document as soon as it arrives."""

    def __init__(self, target: Target, render: Callable[[Document], str]) -> None:
        self.target = target
        self.render = render

    def write(self, document: Document) -> None:
        """Write a document."""
        self.target.write(self.render(document).encode())

    def finish(self) -> None:
        """Commit the output."""
        self.target.commit()

    def abandon(self) -> Path | None:
        """Keep the documents so far."""
        return self.target.abandon()


class PageWriter:
    """Writes one HTML page. Documents are kept in memory until the end."""

    def __init__(self, target: Target, schema: Schema, title: str) -> None:
        self.target = target
        self.schema = schema
        self.title = title
        self.documents: list[Document] = []
        self._drawn = False

    def write(self, document: Document) -> None:
        """Add a document to the page."""
        self.documents.append(document)

    def finish(self) -> None:
        """Write the page."""
        self._draw()
        self.target.commit()

    def abandon(self) -> Path | None:
        """Write a page of the documents so far, unless drawing the page failed."""
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


class BratWriter:
    """Writes a folder of brat files, named by the document ids."""

    def __init__(self, path: Path) -> None:
        self.target = AtomicFolder(path)
        self._taken: set[str] = set()

    def write(self, document: Document) -> None:
        """Write the two files of a document. Raise DataError if its id cannot be a file name."""
        name = self._choose_name(document.id)
        path = self.target.folder / f"{name}.ann"
        try:
            with leaving_no_folders(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_documents([document], path, "brat")
        except OSError as error:
            if error.errno not in _NAME_ERRORS:
                raise
            raise DataError(
                f"document {document.id!r} cannot be written as {name}.ann ({error.strerror})", "Change its id"
            ) from error
        self._taken.add(name.casefold())

    def _choose_name(self, id: str) -> str:
        parts = [_to_file_name(part) for part in id.split("/")]
        plain = "/".join(part for part in parts if part) or "document"
        name, number = plain, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{plain}-{number}"
        return name

    def finish(self) -> None:
        """Commit the output."""
        self.target.commit()

    def abandon(self) -> Path | None:
        """Keep the documents so far."""
        return self.target.abandon()


def _to_file_name(part: str) -> str:
    """Convert a part of an id to a file name that is valid on all systems and not hidden."""
    kept = "".join(char if char.isprintable() and char not in '\\:*?"<>|' else "_" for char in part)
    while len(kept.encode()) > _MAX_NAME_BYTES:
        kept = kept[:-1]
    return kept.lstrip(".").rstrip(". ")


def chosen_format(format: str | None, output: Path | None, *, terminal: bool) -> str:
    """Return the given format, the format of the output's suffix, "table" on a terminal, or "jsonl".

    Raises:
        ConfigError: The format is unknown, or the suffix of the output has no format.
    """
    _check_suffix(output)
    if format is not None:
        require_choice("format", format, FORMATS)
        return format
    if output is None:
        return "table" if terminal else "jsonl"
    if output.suffix.lower() not in _BY_SUFFIX:
        raise ConfigError(
            f"the suffix of {output} does not give a format",
            f"Use a suffix such as .jsonl or .html, or choose one of {', '.join(FORMATS)}",
            option="format",
        )
    return _BY_SUFFIX[output.suffix.lower()]


def _check_suffix(output: Path | None) -> None:
    """Raise ConfigError for the suffix of a compressed file. A pipe may lead to a program that compresses."""
    if output is None or not is_packed(output) or (output.exists() and not output.is_file()):
        return
    raise ConfigError(
        f"{output} has the suffix of a compressed file, but the output is not compressed",
        f"Remove {output.suffix}, and compress the file afterwards",
        option="output",
    )


def _check_labels(schema: Schema) -> None:
    """Raise ConfigError for labels that brat cannot represent, before anything is extracted."""
    for label in (*schema.entity_types, *schema.relation_types):
        if not can_hold(label):
            raise ConfigError(
                f"the label {label!r} of the model contains a space, which brat does not allow",
                "Write another format, such as jsonl",
                option="format",
            )


def check_output(format: str, output: Path | None) -> None:
    """Check that the output can be written, before a model is loaded.

    Raises:
        DataError: The path cannot be written.
    """
    if output is None:
        return
    if format == "brat":
        AtomicFolder(output).discard()
    elif not is_stream(output):  # opening and closing a pipe would end its reader
        AtomicFile(output).discard()


def make_writer(format: str, output: Path | None, *, schema: Schema, terminal: bool = False, width: int = 0) -> Writer:
    """Create the writer of a format, to standard output if ``output`` is None.

    A ``width`` of 0 gives tables the width of files.

    Raises:
        ConfigError: The format does not fit the output, or cannot represent the labels.
        DataError: The path cannot be written.
    """
    require_choice("format", format, FORMATS)
    _check_suffix(output)
    if format == "brat":
        if output is None:
            raise ConfigError("the format brat needs a folder to write to", "Give a folder", option="output")
        _check_labels(schema)
        return BratWriter(output)
    if format == "html" and output is None and terminal:
        raise ConfigError("the format html needs a file to write to", "Give a file such as page.html", option="output")
    if format == "html":
        from cascade_srn.drawing.render import environment

        environment()  # raises before the output is created if jinja2 is missing
    target: Target = StreamTarget(sys.stdout.buffer) if output is None else AtomicFile(output)
    if format == "html":
        return PageWriter(target, schema, "Extracted" if output is None else written_names([output.stem])[0])
    if format == "jsonl":
        return StreamWriter(target, lambda document: f"{to_json(to_record(document))}\n")
    colour = terminal and output is None
    return StreamWriter(
        target, lambda document: f"{format_document(document, width=width or _FILE_WIDTH, colour=colour)}\n"
    )
