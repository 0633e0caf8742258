"""Read the records of a file one after another: JSON lines, CSV, TSV and plain text."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cascade_srn.errors import DataError, short_repr
from cascade_srn.formats.files import BYTE_ORDER_MARK
from cascade_srn.inputs.addresses import OpenFile, damaged
from cascade_srn.storage.files import EncodingError, read_errors
from cascade_srn.storage.limits import read_limits

_CHUNK = 1 << 17


class BadValueError(Exception):
    """A value of a record that cannot be used. The message says why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record before it is parsed.

    Attributes:
        line: Number of its first line, from 1; 0 if the format has no lines.
        n_bytes: Size of the decompressed record; of the text, in Parquet.
        value: The line, the cells or the values.
        problem: Why it cannot be parsed; empty if it can.
    """

    line: int
    n_bytes: int
    value: Any
    problem: str = ""

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
        """Go forward to a row. ``blocks`` has known places of the file (:class:`InputFile`)."""
        while self.row < row and self.read() is not None:
            pass

    @abstractmethod
    def _read(self) -> Record | None: ...

    @abstractmethod
    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field. Raise a BadValueError if it is malformed."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class _Lines:
    """Lines of a file with their numbers. Of a line that is too long, only the start is kept."""

    def __init__(self, file: OpenFile) -> None:
        self.file = file
        self.offset = 0
        self.number = 0
        self._limit = read_limits().line_bytes

    def seek(self, offset: int, number: int) -> bool:
        """Go to a place, and return whether the file system can do so."""
        try:
            self.file.content.seek(offset)
        except DataError:
            return False
        self.offset, self.number = offset, number
        return True

    def read(self) -> tuple[bytes, str]:
        """Return the next line, empty at the end, and a problem if it is too long."""
        content, problem = self.file.content, ""
        try:
            line = content.readline(self._limit + 1)
            self.offset += len(line)
            if len(line) > self._limit:
                problem = f"the line is longer than {self._limit} bytes"
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


class _LineRecords(Records):
    """Records of a file that is read by lines."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__()
        self.lines = _Lines(file)

    def skip_to(self, row: int, blocks: tuple[tuple[int, int, int], ...]) -> None:
        """Go forward to a row, without reading what lies between if the file is not compressed."""
        if self.lines.file.can_seek:
            near = [block for block in blocks if self.row < block[0] <= row]
            # A web server can refuse to send a part. Then the lines between are read.
            if near and self.lines.seek(*near[-1][1:]):
                self.row = near[-1][0]
        super().skip_to(row, blocks)

    def close(self) -> None:
        """Close the file."""
        self.lines.file.close()


class _RepeatedKeyError(ValueError):
    """A key occurs twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKeyError("a key occurs more than once")
    return found


# NaN is accepted, since Python writes it in fields that are not read.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


class JsonLines(_LineRecords):
    """One JSON object per line. Blank lines are ignored."""

    def _read(self) -> Record | None:
        while True:
            start = self.lines.offset
            line, problem = self.lines.read()
            if problem:
                return Record(self.lines.number, self.lines.offset - start, b"", problem)
            if not line:
                # A mark of the byte order without a line after it leaves nothing of the line.
                if self.lines.offset == start:
                    return None
            elif not line.isspace():
                return Record(self.lines.number, self.lines.offset - start, line)

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field."""
        if record.problem:
            raise BadValueError(record.problem)
        try:
            values = _DECODER.decode(record.value.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            byte = f"byte 0x{record.value[error.start]:02x} at position {error.start}"
            raise BadValueError(f"the line is not UTF-8 ({byte})") from error
        except (ValueError, RecursionError) as error:
            raise BadValueError(f"the line is not valid JSON ({error})") from error
        if not isinstance(values, dict):
            raise BadValueError(f"the line is {short_repr(values)}, not a JSON object")
        return values


class Csv(_LineRecords):
    """Records of a CSV or TSV file with a header. Blank lines are ignored."""

    def __init__(self, file: OpenFile, delimiter: str) -> None:
        super().__init__(file)
        self._limit = read_limits().line_bytes
        # The limit of the module counts for the whole process, and is too low for long texts.
        csv.field_size_limit(max(self._limit, csv.field_size_limit()))
        self._problem = ""
        self._size = 0
        self._ended = False
        self._cells = csv.reader(_CsvLines(self), delimiter=delimiter, strict=True)
        header = self._read()
        self.columns = () if header is None else tuple(header.value)
        if header is not None and header.problem:
            raise DataError(f"{file.address}: the header cannot be read ({header.problem})", "Check the file")

    def next_line(self) -> str:
        """Return the next line for the parser."""
        start = self.lines.offset
        line, problem = self.lines.read()
        self._size += self.lines.offset - start
        if self.lines.offset == start:
            self._ended = True
            raise StopIteration
        if problem or self._size > self._limit:
            raise csv.Error(problem or f"the record is longer than {self._limit} bytes")
        return line.decode("utf-8", "surrogateescape")

    def _read(self) -> Record | None:
        while True:
            self._size, number = 0, self.lines.number + 1
            try:
                cells = next(self._cells)
            except StopIteration:
                return None
            except csv.Error as error:
                if self._ended:
                    raise DataError(
                        f"{self.lines.file.address}: the file ends inside a quoted cell of the record at line {number}",
                        "Close the quotes, or check that the file is complete",
                    ) from error
                return Record(number, self._size, (), str(error))
            if cells:
                return Record(number, self._size, cells)

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field."""
        if record.problem:
            raise BadValueError(f"the record is not valid CSV ({record.problem})")
        assert self.columns is not None
        if len(record.value) != len(self.columns):
            raise BadValueError(f"the record has {len(record.value)} cells, but the header has {len(self.columns)}")
        return dict(zip(self.columns, record.value, strict=True))


class _CsvLines:
    """Iterator of lines that can continue after an error, unlike a generator."""

    def __init__(self, records: Csv) -> None:
        self._records = records

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._records.next_line()


class PlainText(Records):
    """The one document of a text file."""

    def __init__(self, file: OpenFile, field: str) -> None:
        super().__init__()
        self._file = file
        self._field = field
        self.columns = (field,)

    def _read(self) -> Record | None:
        if self.row:
            return None
        limit = read_limits().line_bytes
        try:
            data = self._file.content.read(limit + 1)
            n_bytes = len(data)
            if n_bytes <= limit:
                return Record(0, n_bytes, data)
            while rest := self._file.content.read(_CHUNK):
                n_bytes += len(rest)
        except EncodingError as error:
            return Record(0, 0, b"", error.problem.removeprefix(f"{self._file.address}: "))
        except read_errors() as error:
            raise damaged(self._file.address, error) from error
        return Record(0, n_bytes, b"", f"the file has more than {limit} bytes")

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field."""
        if record.problem:
            raise BadValueError(record.problem)
        try:
            return {self._field: record.value.removeprefix(BYTE_ORDER_MARK).decode("utf-8")}
        except UnicodeDecodeError as error:
            byte = f"byte 0x{record.value[error.start]:02x} at position {error.start}"
            raise BadValueError(f"the text is not UTF-8 ({byte})") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()
