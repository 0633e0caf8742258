"""Write documents as text, JSON lines, tables, brat files or an HTML page."""

from __future__ import annotations

import errno
import io
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cascade_srn.apps.extract.targets import NO_FIELDS, StreamTarget, Target, Writer
from cascade_srn.config import require_choice
from cascade_srn.errors import ConfigError, DataError, require
from cascade_srn.formats.files import is_stream, to_json
from cascade_srn.formats.jsonl import FIELDS as JSONL_FIELDS
from cascade_srn.formats.jsonl import to_record
from cascade_srn.schema import Schema
from cascade_srn.storage.atomic import AtomicFile, AtomicFolder, leaving_no_folders
from cascade_srn.storage.files import encodable_names, is_compressed
from cascade_srn.text.status import ASSERTED
from cascade_srn.types import Document, Relation

if TYPE_CHECKING:
    from rich.table import Table

# Marks that change the writing direction of the following text in a terminal.
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MIN_WIDTH = 30


def format_document(document: Document, *, width: int, colour: bool = False) -> str:
    """Format the entities and relations of a document as tables of at most ``width`` columns, or 30 if less."""
    from rich.console import Console
    from rich.text import Text

    text = io.StringIO()
    colours: Literal["standard"] | None = "standard" if colour else None
    # With width and height, rich does not ask the terminal.
    console = Console(
        file=text, width=max(width, _MIN_WIDTH), height=25, color_system=colours, force_terminal=colour, no_color=False
    )
    console.print(Text(sanitise(document.id) or "document", "bold"), soft_wrap=True)
    if document.entities:
        entities = [(e.text, e.label, f"{e.start}–{e.end}", e.score) for e in document.entities]
        console.print(_make_table(("entity", "type", "characters", "score"), entities, n_left=2))
    else:
        console.print(Text("  nothing found", "dim"))
    if document.relations:
        relations = [(r.head.text, _label(r), r.tail.text, r.score) for r in document.relations]
        console.print()
        console.print(_make_table(("subject", "relation", "object", "score"), relations, n_left=3))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _label(relation: Relation) -> str:
    status = relation.status
    return relation.label if status == ASSERTED else f"{relation.label} ({status})"


def sanitise(text: str) -> str:
    """Return a text in one line, with control characters and direction marks replaced."""
    return "".join(
        "\ufffd" if char in _DIRECTION_MARKS or unicodedata.category(char) in ("Cc", "Cs") else char
        for char in " ".join(text.split())
    )


def _make_table(headings: Sequence[str], rows: Iterable[tuple[str, str, str, float | None]], *, n_left: int) -> Table:
    """Return a table whose first ``n_left`` columns are left-aligned and wrapped."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="", border_style="dim")
    for at, heading in enumerate(headings):
        is_left = at < n_left
        table.add_column(heading, justify="left" if is_left else "right", no_wrap=not is_left, overflow="fold")
    for first, label, third, score in rows:
        cells = (
            sanitise(first),
            Text(sanitise(label), "cyan"),
            sanitise(third),
            "" if score is None else f"{score:.2f}",
        )
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
    return table


FORMATS = ("table", "jsonl", "csv", "tsv", "parquet", "brat", "html")
# Formats with a place for fields that are carried along.
_KEEPING = ("jsonl", "csv", "tsv", "parquet")
# Default formats by suffix of the output.
_BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".html": "html",
    ".htm": "html",
    ".txt": "table",
}
_FILE_WIDTH = 120
# Errors that concern a single file name.
_NAME_ERRORS = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOENT)
_MAX_NAME_BYTES = 200  # most file systems allow 255


class StreamWriter(Writer):
    """Writes each document as soon as it arrives."""

    target: Target

    def __init__(self, target: Target, render: Callable[[Document, Mapping[str, Any]], str]) -> None:
        self.target = target
        self.render = render

    def write(self, document: Document, fields: Mapping[str, Any] = NO_FIELDS) -> None:
        """Write a document."""
        self.target.write(self.render(document, fields).encode())


class PageWriter(Writer):
    """Writes one HTML page. Documents are kept in memory until the end."""

    target: Target

    def __init__(self, target: Target, schema: Schema, title: str) -> None:
        self.target = target
        self.schema = schema
        self.title = title
        self.documents: list[Document] = []
        self._drawn = False

    def write(self, document: Document, fields: Mapping[str, Any] = NO_FIELDS) -> None:
        """Add a document to the page."""
        self.documents.append(document)

    def finish(self) -> None:
        """Write the page."""
        self._draw()
        super().finish()

    def abandon(self) -> Path | None:
        """Write a page of the documents so far, unless drawing the page failed."""
        try:
            if self.documents and not self._drawn:
                self._draw()
        finally:
            kept = super().abandon()
        return kept

    def _draw(self) -> None:
        from cascade_srn.drawing import draw_page

        self._drawn = True
        self.target.write(draw_page(self.documents, schema=self.schema, title=self.title).encode())


class BratWriter(Writer):
    """Writes a folder of brat files, named by the document ids."""

    target: AtomicFolder

    def __init__(self, path: Path) -> None:
        self.target = AtomicFolder(path)
        self._taken: set[str] = set()

    def write(self, document: Document, fields: Mapping[str, Any] = NO_FIELDS) -> None:
        """Write the two files of a document. Raise DataError if its id cannot be a file name."""
        from cascade_srn.formats.registry import write_documents

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


def _to_file_name(part: str) -> str:
    """Convert a part of an id to a file name that is valid on all systems and not hidden."""
    kept = "".join(char if char.isprintable() and char not in '\\:*?"<>|' else "_" for char in part)
    while len(kept.encode()) > _MAX_NAME_BYTES:
        kept = kept[:-1]
    return kept.lstrip(".").rstrip(". ")


def choose_format(format: str | None, output: Path | None, *, terminal: bool) -> str:
    """Return the given format, the format of the output's suffix, "table" on a terminal, or "jsonl"."""
    check_suffix(output)
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


def check_suffix(output: Path | None) -> None:
    """Raise ConfigError for the suffix of a compressed file. A pipe may lead to a program that compresses."""
    if output is None or not is_compressed(output) or (output.exists() and not output.is_file()):
        return
    raise ConfigError(
        f"{output} has the suffix of a compressed file, but the output is not compressed",
        f"Remove {output.suffix}, and compress the file afterwards",
        option="output",
    )


def _check_labels(schema: Schema) -> None:
    """Raise ConfigError for labels that brat cannot represent, before anything is extracted."""
    from cascade_srn.formats.brat import is_brat_label

    for label in (*schema.entity_types, *schema.relation_types):
        if not is_brat_label(label):
            raise ConfigError(
                f"the label {label!r} of the model contains a space, which brat does not allow",
                "Write another format, such as jsonl",
                option="format",
            )


def check_output(format: str, output: Path | None) -> None:
    """Check that the output can be written, before a model is loaded."""
    if format == "parquet":
        require("pyarrow.parquet", extra="corpus")
    if output is None:
        return
    if format == "brat":
        AtomicFolder(output).discard()
    elif not is_stream(output):  # opening and closing a pipe would end its reader
        AtomicFile(output).discard()


def check_kept(kept: Sequence[str], format: str) -> None:
    """Check the names of fields to carry along."""
    if not kept:
        return
    if format not in _KEEPING:
        raise ConfigError(
            f"the format {format} has no place for fields of the input", f"Use {', '.join(_KEEPING)}", option="format"
        )
    from cascade_srn.apps.extract.table_output import MORE_COLUMNS
    from cascade_srn.formats.table import COLUMNS

    taken = JSONL_FIELDS if format == "jsonl" else (*COLUMNS, *MORE_COLUMNS)
    for name in kept:
        if name in taken:
            raise ConfigError(f"the output has a field {name!r} of its own", "Leave it out", option="keep")
        if kept.count(name) > 1:
            raise ConfigError(f"the field {name!r} is given twice", "Give each field once", option="keep")


def make_writer(
    format: str,
    output: Path | None,
    *,
    schema: Schema,
    terminal: bool = False,
    width: int = 0,
    kept: Sequence[str] = (),
    source: Mapping[str, str] = NO_FIELDS,
) -> Writer:
    """Create the writer of a format, to standard output if ``output`` is None.

    A ``width`` of 0 gives tables the width of files. ``kept`` are the names of fields that are carried along.
    ``source`` is added to JSON lines: the checksum of the model and the version of the package. Kept fields with the
    same names replace it.
    """
    require_choice("format", format, FORMATS)
    check_suffix(output)
    check_kept(kept, format)
    if format == "brat":
        if output is None:
            raise ConfigError("the format brat needs a folder to write to", "Give a folder", option="output")
        _check_labels(schema)
        return BratWriter(output)
    if format == "parquet":
        require("pyarrow.parquet", extra="corpus")
        if output is None and terminal:
            raise ConfigError("the format parquet needs a file to write to", "Give a file", option="output")
    if format == "html" and output is None and terminal:
        raise ConfigError("the format html needs a file to write to", "Give a file such as page.html", option="output")
    if format == "html":
        from cascade_srn.drawing.render import environment

        environment()  # raises before the output is created if jinja2 is missing
    target: Target = StreamTarget(sys.stdout.buffer) if output is None else AtomicFile(output)
    if format == "html":
        return PageWriter(target, schema, "Extracted" if output is None else encodable_names([output.stem])[0])
    if format == "jsonl":

        def render(document: Document, fields: Mapping[str, Any]) -> str:
            return f"{to_json(to_record(document) | dict(source) | dict(fields))}\n"

        return StreamWriter(target, render)
    if format in ("csv", "tsv", "parquet"):
        from cascade_srn.apps.extract.table_output import CsvWriter, ParquetWriter

        return ParquetWriter(target, kept) if format == "parquet" else CsvWriter(target, format, kept)
    colour = terminal and output is None
    return StreamWriter(
        target, lambda document, _: f"{format_document(document, width=width or _FILE_WIDTH, colour=colour)}\n"
    )
