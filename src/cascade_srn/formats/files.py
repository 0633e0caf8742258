"""Open, parse and write the files of formats, and iterate over their documents."""

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn

from cascade_srn.errors import DataError, short_repr
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.base import Format, MalformedInput, ReadContext, Segmenter, UnreadLists, read_strictly
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.label_map import LabelMap
from cascade_srn.formats.reports import Occurrence, Place, ReadReport
from cascade_srn.storage.atomic import replacing as replacing
from cascade_srn.storage.files import (
    ENCODING_HINT,
    compress,
    damaged_file,
    decompress,
    read_errors,
    read_whole,
)
from cascade_srn.storage.limits import LINE_VARIABLE, read_limits
from cascade_srn.types import Document

# Formats that a field of annotations can be recognised by.
FORMATS_BY_FIELD = ("doccano", "prodigy", "label-studio", "triples")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BETWEEN_ITEMS = re.compile(r"\s*[\[,]\s*")


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes."""
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder", "Pass the path of a file")
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist", "Check the path and the working folder") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})", "Check its permissions") from error
    with handle:
        yield handle


@contextmanager
def open_content(path: Path, encoding: str | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading its decompressed bytes, as UTF-8 if it is a text in another encoding."""
    with open_file(path) as on_disk, decompress(path, on_disk, encoding) as handle:
        yield handle


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a socket or a device, which can be read only once."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def stream_error(path: Path) -> DataError:
    """Return the error for a pipe or device whose content is needed more than once."""
    return DataError(f"{path} is a pipe or a device, which can be read only once", "Write its content to a file first")


def decode_text(data: bytes, place: Place) -> str:
    """Decode UTF-8 text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at position {error.start}"
        failure = DataError(f"{place}: the text is not UTF-8 ({found})", ENCODING_HINT, option="encoding")
        raise MalformedInput("not UTF-8", failure, Occurrence(place, "", found)) from None


class _RepeatedKey(ValueError):
    """A key occurs twice in one object; the standard parser would keep the last value."""

    def __init__(self, key: str) -> None:
        super().__init__("a key occurs more than once")
        self.key = key


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object from the keys and values that the JSON parser found, and refuse repeated keys."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKey(next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1))
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


# Created once, because that takes longer than decoding a line.
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_no_constant)


def parse_json(text: str, place: Place) -> Value:
    """Parse a JSON value, and refuse repeated keys."""
    try:
        return Value(_DECODER.decode(text), place)
    except _RepeatedKey as repeated:
        place = place if place.where else replace(place, where=_find_repeated_key(text))
        key = short_repr(repeated.key)
        failure = DataError(f"{place}: the key {key} occurs more than once in one JSON object", "Remove or rename it")
        raise MalformedInput("repeated key", failure, Occurrence(place, "", key)) from None
    except (ValueError, RecursionError) as error:
        truncated = isinstance(error, json.JSONDecodeError) and (
            error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        )
        cause = "it ends too early" if truncated else str(error)
        failure = DataError(
            f"{place}: the text {short_repr(text)} is not valid JSON ({cause})",
            "Check that the file is complete, and that JSON lines have one record per line",
        )
        raise MalformedInput("not valid JSON", failure, Occurrence(place, "", short_repr(text))) from None


def _find_repeated_key(text: str) -> str:
    """Return the line of the array item with a repeated key, or an empty string if the text is not an array."""
    at = _BETWEEN_ITEMS.match(text)
    while at is not None and at.end() < len(text):
        try:
            after = _DECODER.raw_decode(text, at.end())[1]
        except _RepeatedKey:
            line = text.count("\n", 0, at.end()) + 1
            return f"line {line}"
        at = _BETWEEN_ITEMS.match(text, after)
    return ""


def number_lines(path: Path, handle: IO[bytes]) -> Iterator[tuple[bytes, Place]]:
    """Yield all lines of an open file with their places."""
    limits = read_limits()
    number, limit = 0, limits.line_bytes
    try:
        while line := handle.readline(limit + 1):
            number += 1
            if len(line) > limit:
                raise limits.exceeded(
                    f"{path}, line {number}: the line is longer than {limit} bytes",
                    "Check that the file has one record per line",
                    LINE_VARIABLE,
                )
            bare = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            yield bare, Place(str(path), f"line {number}")
    except read_errors() as error:
        raise damaged_file(path, error, after=f"line {number}") from error


def empty_file(path: Path) -> DataError:
    """Return the error for a file without content."""
    return DataError(f"{path} is empty, but at least one document was expected", "Check how it was created")


def read_json_lines(
    path: Path, context: ReadContext, read: Callable[[Value, ReadContext], Document | None]
) -> Iterator[Document]:
    """Read a file with one JSON document per line. Blank lines, and records that ``read`` leaves out, are ignored."""

    def parse(line: tuple[bytes, Place], context: ReadContext) -> Document | None:
        return read(parse_json_record(*line), context)

    return context.read_each((line for line in read_lines(path, context.encoding) if line[0].strip()), parse)


def read_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[bytes, Place]]:
    """Yield all lines of a file with their places. A file of blank lines is an error."""
    is_empty = True
    with open_content(path, encoding) as handle:
        for line, place in number_lines(path, handle):
            is_empty &= not line.strip()
            yield line, place
    if is_empty:
        raise empty_file(path)


def read_text_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[str, Place]]:
    """Yield all lines of a text file as :func:`read_lines` does, without the line breaks."""
    for line, place in read_lines(path, encoding):
        yield read_strictly(decode_text, line, place).rstrip("\r\n"), place


def parse_json_record(line: bytes, place: Place) -> Value:
    """Parse one line as a JSON value."""
    return parse_json(decode_text(line, place), place)


def read_json(path: Path, encoding: str | None = None) -> Value:
    """Read a file that is one JSON value."""
    data = read_bytes(path, encoding).removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise empty_file(path)
    return read_strictly(parse_json_record, data, Place(str(path)))


def read_head(path: Path, n_bytes: int = 1 << 20, encoding: str | None = None) -> str:
    """Read the beginning of a file to recognise its format. Bytes that are not UTF-8 are replaced."""
    with open_content(path, encoding) as handle:
        try:
            head = handle.read(n_bytes)
        except read_errors() as error:
            raise damaged_file(path, error) from error
    return head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", errors="replace")


def read_bytes(path: Path, encoding: str | None = None) -> bytes:
    """Read and decompress a file, within the size limit."""
    with open_content(path, encoding) as handle:
        return read_whole(path, handle)


def read_stored_json(path: Path, hint: str) -> Any:
    """Read a small JSON file that the package has written. ``hint`` says what to do if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})", hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error})", hint) from error


def to_json(value: Any) -> str:
    """Return a value as one line of JSON without ASCII escapes."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


@contextmanager
def open_for_writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file as :func:`replacing` does, compressed if the suffix of ``path`` says so."""
    with replacing(path) as on_disk, compress(path, on_disk) as handle:
        yield handle


def write_json_lines(records: Iterable[Any], path: Path) -> None:
    """Write one record per line."""
    with open_for_writing(path) as handle:
        for record in records:
            handle.write(f"{to_json(record)}\n".encode())


def write_json_array(records: Iterable[Any], path: Path) -> None:
    """Write an array with one record per line."""
    with open_for_writing(path) as handle:
        separator = "[\n"
        for record in records:
            handle.write(f"{separator}{to_json(record)}".encode())
            separator = ",\n"
        handle.write(b"[\n]\n" if separator == "[\n" else b"\n]\n")


class DocumentStream:
    """Documents of a path, which are read during iteration.

    Each iteration opens the path again and creates a new :attr:`report`, which is complete at the end of the iteration.
    """

    def __init__(
        self,
        path: Path,
        format: Format,
        *,
        strict: bool,
        align: Align,
        segmenter: Segmenter | None,
        keep_escapes: bool = False,
        labels: LabelMap | None = None,
        encoding: str | None = None,
    ) -> None:
        self.path = path
        self.format = format.name
        self.report = ReadReport()
        self._format = format
        self._context = ReadContext(strict, align, segmenter, keep_escapes=keep_escapes, encoding=encoding)
        self._labels = labels
        self._started = False

    def __iter__(self) -> Iterator[Document]:
        if self._started and is_stream(self.path):
            # A second pass over a pipe would block, or find nothing.
            raise stream_error(self.path)
        self._started = True
        self.report = ReadReport()
        return self._documents(replace(self._context, report=self.report, unread=UnreadLists()))

    def _documents(self, context: ReadContext) -> Iterator[Document]:
        limits = read_limits()
        for document in self._format.read(self.path, context):
            limits.check_words(sum(map(len, document.sentences)), f"{self.path}, document {document.id!r}")
            if self._labels is not None:
                document = self._labels.apply(document, context.report)
            context.report.count(document)
            yield document
        self._check_report(context)

    def _check_report(self, context: ReadContext) -> None:
        """Raise an error if nothing was read, or no annotations where there are some in other fields."""
        report = context.report
        n_skipped = sum(count for kind, count in report.skipped.items() if kind.startswith("document: "))
        if n_skipped and not report.documents:
            first = next(report.examples[kind][0] for kind in report.skipped if kind.startswith("document: "))
            raise DataError(
                f"{self.path}: all {n_skipped} documents are malformed (first: {first})",
                "Check the format of the file",
                option="format",
            )
        if not report.entities:
            context.unread.check(self.path, report.documents + n_skipped, FORMATS_BY_FIELD)

    def __repr__(self) -> str:
        return (
            f"DocumentStream({str(self.path)!r}, format={self.format!r}, strict={self._context.strict}, "
            f"align={self._context.align!r}): iterate to read, then see .report"
        )
