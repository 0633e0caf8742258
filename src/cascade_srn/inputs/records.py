"""Read the records of a file one after another: JSON lines, lines, and the text of a whole file."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cascade_srn.errors import DataError, short_repr
from cascade_srn.formats.files import BYTE_ORDER_MARK, unique_keys
from cascade_srn.inputs.fields import BadValueError
from cascade_srn.inputs.open import OpenFile, damaged
from cascade_srn.storage.files import ENCODING_HINT, EncodingError, read_errors
from cascade_srn.storage.limits import FILE_VARIABLE, LINE_VARIABLE, WORDS_VARIABLE, read_limits

_CHUNK = 1 << 17
# NaN is accepted, since Python writes it in fields that are not read.
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


@dataclass(frozen=True, slots=True)
class Record:
    """One record before it is parsed."""

    line: int  # Number of its first line, from 1; 0 if the format has no lines
    n_bytes: int  # Size of the decompressed record; 0 in Parquet
    value: Any  # The line, the cells or the values
    problem: BadValueError | None = None  # Why it cannot be parsed; None if it can

    @property
    def place(self) -> str:
        """Start of a message about the record."""
        return f"line {self.line}: " if self.line else ""


class Records(ABC):
    """Records of an open file, in order.

    Attributes:
        row: Position of the next record.
        columns: Names of the columns; None if each record has its own fields.
    """

    columns: tuple[str, ...] | None = None

    def __init__(self) -> None:
        self.row = 0

    def read(self) -> Record | None:
        """Return the next record, or None at the end."""
        record = self._read()
        self.row += record is not None
        return record

    def __iter__(self) -> Iterator[Record]:
        while (record := self.read()) is not None:
            yield record

    def skip_to(self, row: int, blocks: tuple[tuple[int, int, int], ...]) -> None:
        """Go forward to a row.

        Args:
            row: Position of the record to read next.
            blocks: Known places of the file: row, offset in the content, and number of lines before.
        """
        while self.row < row and self.read() is not None:
            pass

    @property
    def number(self) -> int:
        """Line that the last record ends at, or its number if the format has no lines, from 1."""
        return self.row

    @property
    @abstractmethod
    def position(self) -> int:
        """Number of stored bytes read so far."""

    @abstractmethod
    def _read(self) -> Record | None: ...

    @abstractmethod
    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field. Raise a BadValueError if it is malformed."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LineReader:
    """Lines of a file with their numbers. Of a line that is too long, only the start is kept.

    Attributes:
        offset: Number of bytes of the content before the next line.
        number: Number of the last line, from 1.
    """

    def __init__(self, file: OpenFile) -> None:
        self.file = file
        self.offset = 0
        self.number = 0
        self.limit = read_limits().line_bytes

    def seek(self, offset: int, number: int) -> bool:
        """Go to a place, and return whether the file system can do so."""
        try:
            self.file.content.seek(offset)
        except DataError:
            return False
        self.offset, self.number = offset, number
        return True

    def read(self) -> tuple[bytes, BadValueError | None]:
        """Return the next line, empty at the end, and a problem if it is too long."""
        content, problem = self.file.content, None
        try:
            line = content.readline(self.limit + 1)
            self.offset += len(line)
            if len(line) > self.limit:
                hint = f"Check that the file has one record per line, or raise {LINE_VARIABLE}"
                problem = BadValueError(f"the line is longer than {self.limit} bytes", hint)
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = content.readline(_CHUNK)
                    self.offset += len(rest)
        except read_errors() as error:
            raise damaged(self.file.address, error, after=f"line {self.number}") from error
        self.number += bool(line)
        if self.number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        return line, problem


class ContentRecords(Records):
    """Records of the content of a file."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__()
        self.file = file

    @property
    def position(self) -> int:
        """Number of stored bytes read so far."""
        return self.file.position

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class LineRecords(ContentRecords):
    """Records of a file that is read by lines."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file)
        self.lines = LineReader(file)

    @property
    def number(self) -> int:
        """Line that the last record ends at."""
        return self.lines.number

    def skip_to(self, row: int, blocks: tuple[tuple[int, int, int], ...]) -> None:
        """Go forward to a row, without reading what lies between if the file is not compressed."""
        if self.file.can_seek:
            near = [block for block in blocks if self.row < block[0] <= row]
            # A web server can refuse to send a part. Then the lines between are read.
            if near and self.lines.seek(*near[-1][1:]):
                self.row = near[-1][0]
        super().skip_to(row, blocks)


class TextLines(LineRecords):
    """One text per line. Blank lines are ignored."""

    def __init__(self, file: OpenFile, field: str) -> None:
        super().__init__(file)
        self._field = field

    def _read(self) -> Record | None:
        while True:
            start = self.lines.offset
            line, problem = self.lines.read()
            if problem is not None or line.strip():
                return Record(self.lines.number, self.lines.offset - start, line, problem)
            # A mark of the byte order without a line after it leaves nothing of the line.
            if self.lines.offset == start:
                return None

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the text without the line break."""
        return {self._field: decode(record, "text").rstrip("\r\n")}


class JsonLines(TextLines):
    """One JSON object per line. Blank lines are ignored."""

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field."""
        line = decode(record, "line").strip()
        try:
            values = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            hint = "Check that the file is complete, and that it has one record per line"
            raise BadValueError(f"the line is not valid JSON ({error})", hint) from error
        if not isinstance(values, dict):
            raise BadValueError(f"the line is {short_repr(values)}, not a JSON object", "Write one object per line")
        return values


class WholeText(ContentRecords):
    """The one document of a text file.

    Args:
        file: The file.
        field: Name of the field with the text.
        max_bytes: Number of bytes that are held in memory; None for that of a line.
    """

    def __init__(self, file: OpenFile, field: str, max_bytes: int | None = None) -> None:
        super().__init__(file)
        self._field = field
        limits = read_limits()
        self._limit = limits.line_bytes if max_bytes is None else min(limits.file_bytes, max_bytes)
        self._variable = LINE_VARIABLE
        if max_bytes is not None:
            self._variable = FILE_VARIABLE if self._limit == limits.file_bytes else WORDS_VARIABLE

    def _read(self) -> Record | None:
        if self.row:
            return None
        chunks, n_bytes = [], 0
        try:
            while chunk := self.file.content.read(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes <= self._limit:
                    chunks.append(chunk)
                else:
                    chunks.clear()
        except EncodingError as error:
            problem = error.problem.removeprefix(f"{self.file.address}: ")
            return Record(0, 0, b"", BadValueError(problem, error.hint, option=error.option))
        except read_errors() as error:
            raise damaged(self.file.address, error) from error
        if n_bytes <= self._limit:
            return Record(0, n_bytes, b"".join(chunks).removeprefix(BYTE_ORDER_MARK))
        hint = f"Split it, convert it to JSON lines, or raise {self._variable}"
        return Record(0, n_bytes, b"", BadValueError(f"the file has more than {self._limit} bytes", hint))

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the text."""
        return {self._field: decode(record, "text")}


def decode(record: Record, what: str) -> str:
    """Return the text of a record of bytes, which ``what`` names in messages."""
    if record.problem is not None:
        raise record.problem
    try:
        return str(record.value, "utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{record.value[error.start]:02x} at position {error.start}"
        raise BadValueError(f"the {what} is not UTF-8 ({byte})", ENCODING_HINT, option="encoding") from error
