"""Read the rows of a Parquet file in small batches."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, BinaryIO

from cascade_srn.apps.corpus.fields import DEFAULT_ID, InputSettings, suggest_field
from cascade_srn.errors import DataError
from cascade_srn.inputs.addresses import damaged
from cascade_srn.inputs.records import BadValueError, Record, Records
from cascade_srn.storage.limits import read_limits

MAGIC = b"PAR1"
_BATCH_ROWS = 64
_BUFFER = 4 << 20


class ParquetRows(Records):
    """Rows of an open Parquet file. Row groups are decoded from their start, and never held as a whole.

    Args:
        handle: The open file.
        address: Its address, for messages.
        names: Names of the columns to read.

    Attributes:
        types: Arrow types of all columns, without dictionaries and extensions.
    """

    def __init__(self, handle: BinaryIO, address: str, names: tuple[str, ...]) -> None:
        super().__init__()
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            needs = f"{address}: reading Parquet files needs pyarrow"
            raise DataError(needs, "Run pip install 'cascade-srn[corpus]'") from error
        self._handle = handle
        self._address = address
        self._limit = read_limits().line_bytes
        self._errors = (pa.ArrowException, OSError)
        try:
            # Without these, all pages of a row group are fetched at once.
            self._file = pq.ParquetFile(handle, buffer_size=_BUFFER, pre_buffer=False)
            schema = self._file.schema_arrow
            metadata = self._file.metadata
            sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        except self._errors as error:
            raise damaged(address, error) from error
        self.columns = tuple(schema.names)
        self.types = {column.name: _plain_type(column.type) for column in schema}
        self._names = [name for name in dict.fromkeys(names) if name in self.types]
        self._starts = [0, *accumulate(sizes)]
        self._batches = self._iterate(0)
        self._batch: Any = None
        self._at = 0

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

    def check_text_column(self, settings: InputSettings) -> None:
        """Raise a DataError if there is no column of strings for the text."""
        import pyarrow as pa

        name = settings.field
        repeated = [other for other in (*settings.names, DEFAULT_ID) if (self.columns or ()).count(other) > 1]
        if repeated:
            raise DataError(f"{self._address}: the column {repeated[0]!r} occurs more than once", "Rename one of them")
        kind = self.types.get(name)
        if kind is None:
            raise DataError(f"{self._address}: no column {name!r}", suggest_field(name, self.types), option="field")
        if kind not in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.null()):
            raise DataError(
                f"{self._address}: the column {name!r} has the type {kind}, not a string",
                "Name the column with the text",
                option="field",
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._handle.close()


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    return _plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind
