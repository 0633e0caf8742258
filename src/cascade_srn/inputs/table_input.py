"""Read the rows of CSV, TSV and Parquet files."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.formats.json_records import Value, is_encodable
from cascade_srn.formats.reports import Place
from cascade_srn.inputs.raw_text import TextFile, open_text, plain_name
from cascade_srn.storage.files import PACKED
from cascade_srn.storage.limits import read_limits

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"
TABLE_ENDINGS = (*(kind + packed for kind in DELIMITERS for packed in ("", *PACKED)), PARQUET)
"""Suffixes of the files that are read as tables."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its values by column, or the error if it is malformed.

    ``number`` counts rows from 1, or is the line that the row ends at. ``position`` is the number of bytes read so far.
    """

    number: int
    value: Value | DataError
    position: int


def is_table(path: Path) -> bool:
    """Return whether a path has the suffix of a table."""
    return path.name.lower().endswith(TABLE_ENDINGS)


def read_rows(path: Path, field: str, kept: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Row]:
    """Read the rows of a table.

    Args:
        path: A file with one of :data:`TABLE_ENDINGS`.
        field: Column with the text, which must exist.
        kept: Further columns that must exist.
        optional: Columns that are read if they exist.

    Raises:
        DataError: The file cannot be read, or lacks a column.
    """
    if plain_name(path).suffix.lower() == PARQUET:
        yield from _read_parquet(path, field, kept, optional)
        return
    with open_text(path) as file:
        yield from _read_csv(file, field, kept)


def _read_csv(file: TextFile, field: str, kept: Sequence[str]) -> Iterator[Row]:
    # The limit of the module is too low for long texts. It counts for the whole process.
    csv.field_size_limit(max(read_limits().line_bytes, csv.field_size_limit()))
    lines = (line.decode("utf-8", "surrogateescape") for line, _ in file.lines())
    cells = csv.reader(lines, delimiter=DELIMITERS[plain_name(file.path).suffix.lower()], strict=True)
    header: list[str] | None = None
    while True:
        try:
            row = next(cells)
        except StopIteration:
            return
        except csv.Error as error:
            if header is None:
                raise DataError(f"{file.path}: the header is not valid CSV ({error})", "Check the file") from error
            yield Row(
                cells.line_num, _malformed(file.path, cells.line_num, f"is not valid CSV ({error})"), file.position
            )
            continue
        if header is None:
            header = row
            _check_columns(file.path, header, field, kept)
        elif row:
            yield Row(cells.line_num, _to_value(file.path, cells.line_num, header, row), file.position)


def _to_value(path: Path, line: int, header: list[str], row: list[str]) -> Value | DataError:
    if len(row) != len(header):
        return _malformed(path, line, f"has {len(row)} cells, but the header has {len(header)}")
    if not all(map(is_encodable, row)):
        return _malformed(path, line, "is not UTF-8")
    return Value(dict(zip(header, row, strict=True)), Place(str(path), f"line {line}"))


def _malformed(path: Path, line: int, problem: str) -> DataError:
    return DataError(f"{path}, line {line}: the row {problem}", "Correct the row, or remove it")


def _read_parquet(path: Path, field: str, kept: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataError(f"{path}: reading Parquet needs pyarrow", "Run pip install 'cascade-srn[corpus]'") from None
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            _check_columns(path, names, field, kept)
            wanted = list(dict.fromkeys((field, *kept, *(name for name in optional if name in names))))
            size, n_rows = path.stat().st_size, max(1, file.metadata.num_rows)
            for batch in file.iter_batches(batch_size=256, columns=wanted):
                for record in batch.to_pylist():
                    number += 1
                    place = Place(str(path), f"row {number}")
                    yield Row(number, Value(record, place), size * number // n_rows)
    except (OSError, pa.ArrowException) as error:
        after = f" after row {number}" if number else ""
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} cannot be read as Parquet{after} ({reason})", "Check that it is complete") from error


def _check_columns(path: Path, names: Sequence[str], field: str, kept: Sequence[str]) -> None:
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{path}: the column {repeated!r} occurs more than once", "Rename one of them")
    for option, name in (("field", field), *(("keep", name) for name in kept)):
        if name not in names:
            raise DataError(
                f"{path} has no column {name!r}",
                f"{did_you_mean(name, names)} Give the name of a column",
                option=option,
            )
