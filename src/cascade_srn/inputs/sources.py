"""Read texts from files, folders, patterns, standard input or arguments."""

import glob
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from cascade_srn.config import require_choice
from cascade_srn.errors import CascadeError, DataError, did_you_mean, short_repr
from cascade_srn.formats.base import MalformedInput
from cascade_srn.formats.files import decode_text, is_stream, parse_json_record
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place
from cascade_srn.inputs.raw_text import ENDINGS as TEXT_ENDINGS
from cascade_srn.inputs.raw_text import (
    RECORDS,
    TEXT,
    TextFile,
    find_text_files,
    has_records,
    open_text,
    plain_name,
)
from cascade_srn.inputs.table_input import PARQUET, TABLE_ENDINGS, is_table, read_rows
from cascade_srn.storage.files import PACKED, convert_to_utf8, encodable_names
from cascade_srn.storage.limits import read_limits
from cascade_srn.text.pdf import MAX_BYTES as MAX_PDF_BYTES
from cascade_srn.text.pdf import is_pdf, parse_pdf
from cascade_srn.text.presplit import given_sentences
from cascade_srn.types import Document

STDIN = "-"
PDF = ".pdf"
ENDINGS = (*TEXT_ENDINGS, *(PDF + packed for packed in ("", *PACKED)))
"""Suffixes of the files that texts are extracted from."""


def find_inputs(
    arguments: Sequence[str], *, output: Path | None = None, tell: Callable[[str], None] = lambda sentence: None
) -> dict[str, Path | None]:
    """Find the input files of paths, folders and patterns.

    A file is named by its path below the given folder, or by its file name, without the suffix. Files with the same
    name get as many parent folders as they need to differ. Bytes that are not UTF-8 are replaced. Repeated files are
    read once. The output and its partial results of earlier runs are skipped with a message.
    """
    written = None if output is None else _OutputFiles(output)
    found: dict[str, tuple[Path, str] | None] = {}
    for argument in arguments:
        if argument == STDIN:
            found.setdefault(STDIN, None)
            continue
        for path, name in _find_files(argument):
            if written is not None and written.has(path, argument):
                tell(f"skipped {path}, which is the output or a partial output of an earlier run")
                continue
            found.setdefault(os.path.realpath(path), (path, _without_suffix(name)))
    names = _choose_names(found)
    return {names[key]: None if value is None else value[0] for key, value in found.items()}


def _find_files(argument: str) -> list[tuple[Path, str]]:
    """Return the files of one argument, each with the path that its name is made from."""
    path = Path(argument)
    if os.path.isdir(path):
        return [(member, member.relative_to(path).as_posix()) for member in find_text_files(path, ENDINGS)]
    if os.path.exists(path):
        # A pipe such as the shell's <(command) has no suffix.
        if not _is_input(path) and not is_table(path) and not is_stream(path):
            raise DataError(
                f"{path} does not end in {', '.join((*ENDINGS, *TABLE_ENDINGS))}",
                f"Rename it, or read it from standard input: - < {path}",
            )
        return [(path, path.name)]
    if glob.has_magic(argument):
        matches = [Path(match) for match in sorted(glob.glob(argument, recursive=True))]
        files = [match for match in matches if match.is_file()]
        # Other patterns and folders match tables that belong to the texts, such as a list of them.
        endings = TABLE_ENDINGS if argument.lower().endswith(TABLE_ENDINGS) else ENDINGS
        inputs = [file for file in files if file.name.lower().endswith(endings)]
        if not inputs:
            raise _no_match(argument, files)
        return [(file, file.name) for file in inputs]
    raise DataError(
        f"{argument} does not exist",
        "Give a file, a folder, a pattern or - for standard input, or pass the text itself",
        option="text",
    )


def _is_input(path: Path) -> bool:
    return path.name.lower().endswith(ENDINGS)


def _has_pdf_suffix(path: Path) -> bool:
    return plain_name(path).suffix.lower() == PDF


def _no_match(pattern: str, files: Sequence[Path]) -> DataError:
    """Return the error for a pattern that matches nothing, or only ``files`` of other kinds."""
    endings = ", ".join(ENDINGS)
    if not files:
        return DataError(
            f"no file matches {pattern!r}", f"Check the pattern and the working folder; text files end in {endings}"
        )
    more = f" and {len(files) - 1} more" if files[1:] else ""
    return DataError(
        f"{pattern!r} matches {files[0]}{more}, but no file that ends in {endings}",
        "Rename the text files, or read them from standard input",
    )


class _OutputFiles:
    """The output of a run and the partial outputs of earlier runs."""

    def __init__(self, output: Path) -> None:
        self._output = Path(os.path.realpath(output))
        stem, ending = re.escape(self._output.stem), re.escape(self._output.suffix)
        self._partial = re.compile(rf"{stem}\.partial(-[0-9]+)?{ending}")

    def has(self, path: Path, argument: str) -> bool:
        """Return whether a file is the output or a partial output. Raise DataError if the argument is the output."""
        real, given = Path(os.path.realpath(path)), Path(os.path.realpath(argument))
        if real == given:
            if real == self._output:
                raise DataError(f"{path} is both input and output", "Choose another output", option="output")
            return False
        # A partial output can be a folder of brat files. A folder that is given itself is read.
        below = [folder for folder in real.parents if given in folder.parents]
        return real == self._output or any(self._is_partial(one) for one in (real, *below))

    def _is_partial(self, path: Path) -> bool:
        return path.parent == self._output.parent and self._partial.fullmatch(path.name) is not None


def _without_suffix(name: str) -> str:
    plain = plain_name(Path(name))
    return (
        plain.with_suffix("").as_posix()
        if plain.suffix.lower() in (TEXT, RECORDS, PDF, ".csv", ".tsv", PARQUET)
        else plain.as_posix()
    )


def _choose_names(files: dict[str, tuple[Path, str] | None]) -> dict[str, str]:
    """Return a distinct name for each input. Files with the same name get more of their path."""
    names = {key: "stdin" if value is None else value[1] for key, value in files.items()}
    wholes = {key: _full_name(Path(key)) for key, value in files.items() if value is not None}
    n_parts, most = 1, max((whole.count("/") + 1 for whole in wholes.values()), default=0)
    while n_parts <= most and (shared := {name for name, count in Counter(names.values()).items() if count > 1}):
        n_parts += 1
        for key, whole in wholes.items():
            if names[key] in shared:
                # If the full path is not enough, as for a.txt and a.jsonl, the suffix is kept.
                plain = whole if n_parts > whole.count("/") + 1 else _without_suffix(whole)
                names[key] = "/".join(plain.split("/")[-n_parts:])
    return dict(zip(names, encodable_names(list(names.values())), strict=True))


def _full_name(path: Path) -> str:
    """Return a path without its anchor, with the drive as first folder on Windows."""
    drive = path.drive.replace("\\", "/").replace(":", "").strip("/")
    inside = path.relative_to(path.anchor).as_posix()
    return f"{drive}/{inside}" if drive else inside


UNITS_OF_TEXT = ("auto", "file", "line", "record")


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
        arguments: Files, folders, patterns, or ``-`` for standard input.
        texts: Texts given directly.
        per: What a document is: "file", "line" or "record" of JSON lines; "auto" is a record in ``.jsonl`` files and a
            file otherwise. A PDF is always one document, and a row of a table is, too.
        field: Field of a record with its text: a string, a list of sentences or a list of lists of words.
        output: Path that the run writes to, which is skipped in folders and patterns.
        keep: Fields of records to carry along.
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
        stdin: BinaryIO | None = None,
        output: Path | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        require_choice("per", per, UNITS_OF_TEXT)
        self.inputs = find_inputs(arguments, output=output, tell=tell)
        self._sizes = {path: path.stat().st_size for path in self.inputs.values() if path is not None}
        self.texts = list(texts)
        self.per = per
        self.field = field
        self.id_field = id_field
        self.keep = tuple(keep)
        self.unseen = set(keep)
        """Fields to carry along that no record has had so far."""
        self._stdin = stdin

    @property
    def n_bytes(self) -> int | None:
        """Total size of the files, or None with standard input."""
        if None in self.inputs.values():
            return None
        return sum(self._sizes.values())

    def __iter__(self) -> Iterator[Text | Unreadable]:
        for number, text in enumerate(self.texts, 1):
            name = "text" if len(self.texts) == 1 else f"text-{number}"
            yield Text(name, text, f"text {number}")
        before = 0
        for name, path in self.inputs.items():
            try:
                if path is None:
                    handle = sys.stdin.buffer if self._stdin is None else self._stdin
                    path_shown = Path("standard input")
                    file = TextFile(path_shown, convert_to_utf8(path_shown, handle), handle)
                    yield from self._read(name, file, before, seeks=False)
                elif is_table(path):
                    yield from self._read_table(name, path, before)
                else:
                    with open_text(path) as file:
                        yield from self._read(name, file, before, seeks=True)
            except CascadeError as error:
                yield Unreadable(error, before)
            before += 0 if path is None else self._sizes[path]

    def _read(self, name: str, file: TextFile, before: int, *, seeks: bool) -> Iterator[Text | Unreadable]:
        per = self.per
        if per == "auto":
            per = "record" if has_records(file.path) else "file"
        if _has_pdf_suffix(file.path):
            per = "file"
        if per == "file":
            # A character has at most four bytes.
            data = file.whole(max(MAX_PDF_BYTES, 4 * read_limits().document_characters))
            place = Place(str(file.path))
            if seeks or data.strip():
                yield self._parse(name, data, place, before + file.position if seeks else 0, record=False)
            return
        for line, place in file.lines():
            if line.strip():
                number = place.where.removeprefix("line ")
                position = before + file.position if seeks else 0
                yield self._parse(f"{name}-{number}", line, place, position, record=per == "record")

    def _parse(self, name: str, data: bytes, place: Place, position: int, *, record: bool) -> Text | Unreadable:
        try:
            if record:
                return self._parse_record(parse_json_record(data, place), name, position)
            # Standard input and pipes have no suffix.
            if not place.where and (_has_pdf_suffix(Path(place.file)) or is_pdf(data)):
                return Text(name, parse_pdf(data, str(place)), str(place), position)
            text = decode_text(data, place)
            read_limits().check_text(text, place)
            return Text(name, text.rstrip("\r\n") if place.where else text, str(place), position)
        except MalformedInput as refused:
            return Unreadable(refused.error, position)
        except DataError as error:
            return Unreadable(error, position)

    def _read_table(self, name: str, path: Path, before: int) -> Iterator[Text | Unreadable]:
        for row in read_rows(path, self.field, self.keep, (self.id_field,)):
            position = before + row.position
            if isinstance(row.value, DataError):
                yield Unreadable(row.value, position)
                continue
            try:
                yield self._parse_record(row.value, f"{name}-{row.number}", position)
            except MalformedInput as refused:
                yield Unreadable(refused.error, position)
            except DataError as error:
                yield Unreadable(error, position)

    def _parse_record(self, record: Value, name: str, position: int) -> Text:
        id, text = self._find_text(record, name)
        fields = {key: _to_plain(record.raw[key]) for key in self.keep if key in record.raw}
        self.unseen -= fields.keys()
        return Text(id, text, str(record.place), position, fields)

    def _find_text(self, record: Value, name: str) -> tuple[str, str | Document]:
        given = record.get(self.id_field)
        # An empty cell of a table is no id.
        id = name if given is None or given.raw == "" else given.identifier()
        value = record.get(self.field)
        if self.field not in record.raw:
            hint = did_you_mean(self.field, [key for key in record.raw if isinstance(key, str)])
            raise DataError(
                f"{record.place}: the record has no field {self.field!r}",
                f"{hint} Give the name of the field with the text",
                option="field",
            )
        if value is None or not isinstance(value.raw, (str, list)):
            raise DataError(
                f"{record.place}: the field {self.field!r} is {'null' if value is None else short_repr(value.raw)}, "
                "but a text, a list of sentences or a list of lists of words is expected",
                "Correct the field, or remove the record",
            )
        if isinstance(value.raw, str):
            read_limits().check_text(value.raw, record.place)
            return id, value.string()
        if all(isinstance(item, list) for item in value.raw):
            return id, Document.from_words([item.words() for item in value.items()], id=id)
        return id, _join_sentences([item.string() for item in value.items()], id)


def _to_plain(value: Any) -> Any:
    """Return a value that JSON can hold. Dates and other values of Parquet become text."""
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _to_plain(item) for key, item in value.items()}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def _join_sentences(sentences: Sequence[str], id: str) -> Document:
    """Return a document with one given sentence per line."""
    offsets, start = [], 0
    for sentence in sentences:
        offsets.append((start, start + len(sentence)))
        start += len(sentence) + 1
    return Document.from_text("\n".join(sentences), id=id, segmenter=given_sentences(offsets))
