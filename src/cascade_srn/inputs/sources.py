"""Read texts from files, folders, patterns, standard input or arguments."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from cascade_srn.config import require_choice
from cascade_srn.errors import CascadeError, DataError
from cascade_srn.formats.base import MalformedInput
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place
from cascade_srn.inputs.fields import BadValueError, check_columns, read_id, read_text, to_json_value
from cascade_srn.inputs.find import TEXT_FORMATS, find_format, find_inputs, is_remote
from cascade_srn.inputs.records import Record, Records, TextLines, WholeText, decode
from cascade_srn.inputs.tables import open_records
from cascade_srn.storage.files import check_encoding
from cascade_srn.storage.limits import read_limits
from cascade_srn.text.presplit import given_sentences
from cascade_srn.types import Document

UNITS_OF_TEXT = ("auto", "file", "line", "record")
_STDIN_NAME = "standard input"
_FORMATS_PER = {"file": "text", "line": "lines", "record": "jsonl"}
_TABLES = ("csv", "tsv", "parquet")
# Folders and patterns match tables that belong to the texts, such as a list of them. They are read if they are named.
_IN_FOLDERS = (*TEXT_FORMATS, "markup", "pdf")


@dataclass(frozen=True, slots=True)
class Text:
    """A text to extract from, or a document if the input has words or sentences.

    ``place`` says where it was read, for messages. ``position`` is the number of bytes of all input before its end.
    ``fields`` are fields of its record that are carried along.
    """

    id: str
    text: str | Document
    place: str
    position: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The error of a text that could not be read."""

    error: CascadeError
    position: int = 0

    @property
    def reason(self) -> str:
        """Message of the error."""
        return str(self.error)


class Sources:
    """Iterable of all texts, in order, with an :class:`Unreadable` for each text that cannot be read.

    Args:
        arguments: Files, folders, patterns, fsspec addresses, or ``-`` for standard input.
        texts: Texts given directly.
        per: What a document is: "file", "line" or "record" of JSON lines; "auto" is a record in ``.jsonl`` files and a
            file otherwise. A PDF is always one document, and a row of a table is, too.
        field: Field of a record with its text: a string, a list of sentences or a list of lists of words.
        output: Path that the run writes to, which is skipped in folders and patterns.
        keep: Fields of records to carry along.
        encoding: Encoding of the text; None for UTF-8, or that of a byte-order mark.
        keep_parts: Parts of PDF files to keep: "headers", "references".
        tell: Called with a sentence about each file that is skipped, and about what is left out of a PDF.
    """

    def __init__(
        self,
        arguments: Sequence[str] = (),
        texts: Sequence[str] = (),
        *,
        per: str = "auto",
        field: str = "text",
        id_field: str = "id",
        keep: Sequence[str] = (),
        keep_parts: Sequence[str] = (),
        stdin: BinaryIO | None = None,
        output: Path | None = None,
        encoding: str | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        require_choice("per", per, UNITS_OF_TEXT)
        check_encoding(encoding)
        if keep_parts:
            from cascade_srn.text.pdf_layout import KEEPABLE
        for name in keep_parts:
            require_choice("keep_parts", name, KEEPABLE, option="keep_parts")
        self.inputs = find_inputs(arguments, _IN_FOLDERS, (*_IN_FOLDERS, *_TABLES), output=output, tell=tell)
        self._sizes = {path: _size(path) for path in self.inputs.values()}
        self.texts = list(texts)
        self.per = per
        self.field = field
        self.id_field = id_field
        self.keep = tuple(keep)
        self._encoding = encoding
        self.unseen = set(keep)
        """Fields to carry along that no record has had so far."""
        self.keep_parts = tuple(keep_parts)
        self._stdin = stdin
        self._tell = tell

    @property
    def n_bytes(self) -> int | None:
        """Total size of the files, or None with standard input or remote files."""
        known = [size for size in self._sizes.values() if size is not None]
        return sum(known) if len(known) == len(self._sizes) else None

    def __iter__(self) -> Iterator[Text | Unreadable]:
        for number, text in enumerate(self.texts, 1):
            name = "text" if len(self.texts) == 1 else f"text-{number}"
            yield Text(name, text, f"text {number}")
        before = 0
        for name, path in self.inputs.items():
            try:
                with self._open(path) as records:
                    self._check_columns(path, records)
                    for record in records:
                        place = _find_place(path, records, record)
                        position = 0 if path is None else before + records.position
                        is_blank = isinstance(records, WholeText) and not record.value.strip()
                        if path is not None or record.problem or not is_blank:
                            yield self._parse(name, place, records, record, position)
            except CascadeError as error:
                yield Unreadable(error, before)
            before += self._sizes[path] or 0

    def _open(self, path: str | None) -> Records:
        from cascade_srn.text.pdf import MAX_BYTES

        format = find_format(path or "")
        if format not in (*_TABLES, "pdf") and self.per != "auto":
            format = _FORMATS_PER[self.per]
        stream = None if path is not None else self._stdin or cast(BinaryIO, sys.stdin.buffer)
        return open_records(
            path or _STDIN_NAME,
            format if format in (*_TABLES, "jsonl", "lines") else "text",
            (self.field, self.id_field, *self.keep),
            stream=stream,
            # A character has at most four bytes.
            max_bytes=max(MAX_BYTES, 4 * read_limits().document_characters),
            encoding=self._encoding,
        )

    def _check_columns(self, path: str | None, records: Records) -> None:
        if records.columns:
            required = {self.field: "field"} | dict.fromkeys(self.keep, "keep")
            check_columns(path or _STDIN_NAME, records.columns, required, (*required, self.id_field))

    def _parse(self, name: str, place: Place, records: Records, record: Record, position: int) -> Text | Unreadable:
        try:
            if isinstance(records, WholeText):
                text = self._read_file(place.file, record)
                read_limits().check_text(text, place)
                return Text(name, text, place.file, position)
            values = records.parse(record)
            id, fields = f"{name}-{records.number}", {}
            if type(records) is not TextLines:
                id = read_id(values.get(self.id_field)) or id
                fields = {key: to_json_value(values[key], key) for key in self.keep if key in values}
            self.unseen -= fields.keys()
            return Text(id, self._read_text(values, id, place), str(place), position, fields)
        except BadValueError as error:
            return Unreadable(error.at(str(place)), position)
        except MalformedInput as refused:
            return Unreadable(refused.error, position)
        except DataError as error:
            return Unreadable(error, position)

    def _read_file(self, path: str, record: Record) -> str:
        from cascade_srn.text.pdf import is_pdf, parse_pdf

        # Standard input and pipes have no suffix.
        if record.problem is not None or not (find_format(path) == "pdf" or is_pdf(record.value)):
            return decode(record, "text")
        pdf = parse_pdf(record.value, path, self.keep_parts)
        if pdf.left_out:
            self._tell(f"{path}: left out {pdf.describe_left_out()}; --keep-parts keeps them")
        return pdf.text

    def _read_text(self, values: Mapping[str, Any], id: str, place: Place) -> str | Document:
        given = values.get(self.field)
        if not isinstance(given, list):
            text = read_text(values, self.field)
            read_limits().check_text(text, place)
            return text
        items = Value(given, place, self.field).items()
        if all(isinstance(item, list) for item in given):
            return Document.from_words([item.words() for item in items], id=id)
        return _join_sentences([item.string() for item in items], id)


def _find_place(path: str | None, records: Records, record: Record) -> Place:
    if isinstance(records, WholeText):
        return Place(path or _STDIN_NAME)
    where = f"line {record.line}" if record.line else f"row {records.number}"
    return Place(path or _STDIN_NAME, where)


def _size(path: str | None) -> int | None:
    return None if path is None or is_remote(path) else os.stat(path).st_size


def _join_sentences(sentences: Sequence[str], id: str) -> Document:
    """Return a document with one given sentence per line."""
    offsets, start = [], 0
    for sentence in sentences:
        offsets.append((start, start + len(sentence)))
        start += len(sentence) + 1
    return Document.from_text("\n".join(sentences), id=id, segmenter=given_sentences(offsets))
