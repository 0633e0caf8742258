"""Read the rows of CSV, TSV and Parquet files, and open the records of any format."""

import csv
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, BinaryIO, cast

from cascade_srn.errors import DataError, require
from cascade_srn.inputs.fields import BadValueError
from cascade_srn.inputs.open import OpenFile, RawFile, damaged
from cascade_srn.inputs.records import JsonLines, LineRecords, Record, Records, TextLines, WholeText
from cascade_srn.storage.limits import read_limits

PARQUET_MAGIC = b"PAR1"
_CORRECT = "Correct the record, or remove it"
_BATCH_ROWS = 64
_BUFFER = 4 << 20


class CsvRows(LineRecords):
    """Records of a CSV or TSV file with a header. Blank lines are ignored."""

    def __init__(self, file: OpenFile, delimiter: str) -> None:
        super().__init__(file)
        # The limit of the module counts for the whole process, and is too low for long texts.
        csv.field_size_limit(max(self.lines.limit, csv.field_size_limit()))
        self._size = 0
        self._ended = False
        self._cells = csv.reader(_CsvLines(self), delimiter=delimiter, strict=True)
        header = self._read()
        self.columns = () if header is None else tuple(header.value)
        if header is not None and header.problem is not None:
            raise DataError(f"{file.address}, line {header.line}: {header.problem.problem}", "Check the header")

    def next_line(self) -> str:
        """Return the next line for the parser."""
        start = self.lines.offset
        line, problem = self.lines.read()
        self._size += self.lines.offset - start
        if self.lines.offset == start:
            self._ended = True
            raise StopIteration
        if problem is not None or self._size > self.lines.limit:
            raise csv.Error(problem.problem if problem else f"the record is longer than {self.lines.limit} bytes")
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
                        f"{self.file.address}: the file ends inside a quoted cell of the record at line {number}",
                        "Close the quotes, or check that the file is complete",
                    ) from error
                problem = BadValueError(f"the record is not valid CSV ({error})", _CORRECT)
                return Record(number, self._size, (), problem)
            if cells:
                return Record(number, self._size, cells)

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field."""
        if record.problem is not None:
            raise record.problem
        assert self.columns is not None
        if len(record.value) != len(self.columns):
            cells = f"the record has {len(record.value)} cells, but the header has {len(self.columns)}"
            raise BadValueError(cells, _CORRECT)
        return dict(zip(self.columns, record.value, strict=True))


class _CsvLines:
    """Iterator of lines that can continue after an error, unlike a generator."""

    def __init__(self, records: CsvRows) -> None:
        self._records = records

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._records.next_line()


class ParquetRows(Records):
    """Rows of an open Parquet file. Row groups are decoded from their start, and never held as a whole.

    Attributes:
        types: Arrow types of all columns, without dictionaries and extensions.
    """

    def __init__(self, handle: BinaryIO, address: str, names: Sequence[str]) -> None:
        super().__init__()
        pa, pq = require("pyarrow", extra="corpus"), require("pyarrow.parquet", extra="corpus")
        self._handle = handle
        self._address = address
        self._limit = read_limits().line_bytes
        self._errors = (pa.ArrowException, OSError)
        try:
            self._n_bytes: int = handle.seek(0, os.SEEK_END)
            # Without these, all pages of a row group are fetched at once.
            self._file = pq.ParquetFile(handle, buffer_size=_BUFFER, pre_buffer=False)
            schema = self._file.schema_arrow
            metadata = self._file.metadata
            sizes: list[int] = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        except self._errors as error:
            handle.close()
            raise damaged(address, error) from error
        self.columns = tuple(schema.names)
        self.types = {column.name: _plain_type(column.type) for column in schema}
        self._names = [name for name in dict.fromkeys(names) if name in self.types]
        self._starts = [0, *accumulate(sizes)]
        self._batches = self._iterate(0)
        self._batch: Any = None
        self._at = 0

    @property
    def position(self) -> int:
        """Share of the stored bytes of the rows read so far."""
        return self._n_bytes * self.row // max(1, self._starts[-1])

    def _iterate(self, group: int) -> Iterator[Any]:
        groups = list(range(group, len(self._starts) - 1))
        return iter(self._file.iter_batches(_BATCH_ROWS, groups, columns=self._names, use_threads=False))

    def _fill(self) -> bool:
        """Make sure that there is a row to read, and return whether there is."""
        try:
            while self._batch is None or self._at == self._batch.num_rows:
                self._batch, self._at = next(self._batches), 0
        except StopIteration:
            return False
        except self._errors as error:
            raise damaged(self._address, error, after=f"row {self.row}") from error
        return True

    def _read(self) -> Record | None:
        if not self._fill():
            return None
        place, self._at = (self._batch, self._at), self._at + 1
        return Record(0, 0, place)

    def skip_to(self, row: int, blocks: tuple[tuple[int, int, int], ...]) -> None:
        """Go forward to a row, without decoding the row groups that lie between."""
        group = bisect_right(self._starts, row) - 1
        if self._starts[group] > self.row and group < len(self._starts) - 1:
            self._batches, self._batch, self.row = self._iterate(group), None, self._starts[group]
        while self.row < row and self._fill():
            step = min(row - self.row, self._batch.num_rows - self._at)
            self._at += step
            self.row += step

    def parse(self, record: Record) -> Mapping[str, Any]:
        """Return the values of a record by field."""
        batch, at = record.value
        values = {}
        for name in self._names:
            value = batch.column(name)[at]
            try:
                values[name] = value.as_py()
            except UnicodeDecodeError as error:
                raise BadValueError(f"the field {name!r} is not valid UTF-8") from error
            except ValueError as error:
                raise BadValueError(f"the field {name!r} cannot be read ({error})") from error
            if isinstance(values[name], str | bytes) and len(values[name]) > self._limit:
                raise BadValueError(f"the field {name!r} is longer than {self._limit} bytes")
        return values

    def lengths(self, name: str) -> Iterator[int]:
        """Yield the number of bytes of each value of a column of strings."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_null(self.types[name]):
            yield from [0] * self._starts[-1]
            return
        while self._fill():
            column = self._batch.column(name)
            if isinstance(column.type, pa.BaseExtensionType):
                column = column.storage
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if column.type in (pa.string_view(), pa.binary_view()):
                column = column.cast(pa.large_binary())
            yield from pc.fill_null(pc.binary_length(column), 0).to_pylist()
            self._at = self._batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._handle.close()


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    return _plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def open_records(
    address: str,
    format: str,
    names: Sequence[str],
    *,
    stream: BinaryIO | None = None,
    max_bytes: int | None = None,
    encoding: str | None = None,
) -> Records:
    """Open a file of a known format to read its records.

    Args:
        address: The file.
        format: "jsonl", "parquet", "csv", "tsv", "lines", or "text" for the file as one record.
        names: Names of the fields to read, the one with the text first.
        stream: Open stream to read instead of the file.
        max_bytes: Size limit of a file that is one record; None for that of a line.
        encoding: Encoding of the text; None for UTF-8, or that of a byte-order mark.
    """
    if format == "parquet" and stream is None:
        return ParquetRows(cast(BinaryIO, RawFile(address, at_random=True)), address, names)
    file = OpenFile(address, stream=stream, encoding=encoding)
    try:
        return read_records(file, format, names[0], max_bytes)
    except BaseException:
        file.close()
        raise


def read_records(file: OpenFile, format: str, field: str, max_bytes: int | None = None) -> LineRecords | WholeText:
    """Return the records of an open file, which is not Parquet, as :func:`open_records` does."""
    if format in ("csv", "tsv"):
        return CsvRows(file, "\t" if format == "tsv" else ",")
    if format == "text":
        return WholeText(file, field, max_bytes)
    return JsonLines(file, field) if format == "jsonl" else TextLines(file, field)
