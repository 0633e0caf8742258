"""Write documents as tables of CSV, TSV or Parquet, with one row per entity or relation.

The columns are those of the format ``table`` (:mod:`cascade_srn.formats.table`), which reads the tables back, then
the texts of the entities and the status of relations, then fields that are carried along.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.extract.targets import NO_FIELDS, Target, Writer
from cascade_srn.formats.files import to_json
from cascade_srn.formats.table import COLUMNS, escape_cell, escape_row, to_rows
from cascade_srn.types import Document

if TYPE_CHECKING:
    import pyarrow

MORE_COLUMNS = ("entity_text", "tail_text", "status")
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_ROWS_AT_ONCE = 4096


class CsvWriter(Writer):
    """Writes the rows of each document as soon as it arrives."""

    target: Target

    def __init__(self, target: Target, format: str, kept: Sequence[str] = ()) -> None:
        self.target = target
        self.kept = kept
        self._delimiter = _DELIMITERS[format]
        self._has_header = False

    def write(self, document: Document, fields: Mapping[str, Any] = NO_FIELDS) -> None:
        """Write the rows of a document."""
        self._write(_rows(document, fields, self.kept))

    def finish(self) -> None:
        """Complete the output. It has a header in any case."""
        self._write(iter(()))
        super().finish()

    def _write(self, rows: Iterator[dict[str, Any]]) -> None:
        text = io.StringIO(newline="")
        columns = (*COLUMNS, *MORE_COLUMNS, *self.kept)
        writer = csv.DictWriter(text, columns, delimiter=self._delimiter, lineterminator="\n")
        if not self._has_header:
            writer.writerow({name: escape_cell(name) for name in columns})
            self._has_header = True
        writer.writerows(map(escape_row, rows))
        if data := text.getvalue():
            self.target.write(data.encode())


class ParquetWriter(Writer):
    """Writes row groups of some thousand rows. Fields that are carried along are strings."""

    target: Target

    def __init__(self, target: Target, kept: Sequence[str] = ()) -> None:
        self.target = target
        self.kept = kept
        self._rows: list[dict[str, Any]] = []
        self._file: Any = None

    def write(self, document: Document, fields: Mapping[str, Any] = NO_FIELDS) -> None:
        """Add the rows of a document."""
        self._rows.extend(_rows(document, fields, self.kept))
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._flush()

    def finish(self) -> None:
        """Write the last rows and the end of the file."""
        self._close()
        super().finish()

    def abandon(self) -> Path | None:
        """Complete the file with the documents so far, so that it can be read."""
        try:
            if self._rows or self._file is not None:
                self._close()
        finally:
            kept = super().abandon()
        return kept

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = _arrow_schema(self.kept)
        if self._file is None:
            self._file = pq.ParquetWriter(pa.PythonFile(_Sink(self.target), mode="w"), schema)
        rows, self._rows = self._rows, []
        self._file.write_table(pa.Table.from_pylist(rows, schema))

    def _close(self) -> None:
        self._flush()
        self._file.close()


class _Sink:
    """A target as a file object that can be written only."""

    closed = False

    def __init__(self, target: Target) -> None:
        self._target = target
        self._n_bytes = 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._target.write(content)
        self._n_bytes += len(content)
        return len(content)

    def tell(self) -> int:
        return self._n_bytes

    def flush(self) -> None:
        """Do nothing: the target flushes after each write."""

    def close(self) -> None:
        """Do nothing: the target is committed or abandoned."""


def _arrow_schema(kept: Sequence[str]) -> "pyarrow.Schema":
    import pyarrow as pa

    kinds = {"score": pa.float64()} | dict.fromkeys(("start", "end", "tail_start", "tail_end"), pa.int64())
    columns = [(name, kinds.get(name, pa.string())) for name in (*COLUMNS, *MORE_COLUMNS)]
    return pa.schema([*columns, *((name, pa.string()) for name in kept)])


def _rows(document: Document, fields: Mapping[str, Any], kept: Sequence[str]) -> Iterator[dict[str, Any]]:
    carried = {name: _to_text(fields.get(name)) for name in kept}
    entities = ((entity.text, None, None) for entity in document.entities)
    relations = ((relation.head.text, relation.tail.text, relation.status) for relation in document.relations)
    more = chain(entities, relations)
    for row in to_rows(document):
        # A document without entities has one row.
        yield row | dict(zip(MORE_COLUMNS, next(more, (None, None, None)), strict=True)) | carried


def _to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else to_json(value)
