"""Tables of spans, as CSV, TSV or Parquet: one row per entity or relation, with character offsets.

Columns of an entity: ``document``, ``text``, ``start``, ``end``, ``label`` and ``score``. A relation has ``relation``,
``tail_start``, ``tail_end`` and ``tail_label`` as well. The text stands in the first row of its document. A row without
``start`` is a document without entities.

Spreadsheet programs run a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return as a formula. In
CSV and TSV files such a text is written with an apostrophe in front of it, which the reader removes.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError, require
from cascade_srn.formats.base import Format, ReadContext, read_strictly
from cascade_srn.formats.datasets import parquet_columns
from cascade_srn.formats.files import BYTE_ORDER_MARK, decode_text, open_for_writing, read_bytes
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader
from cascade_srn.storage.files import plain_name
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document, Entity

COLUMNS = ("document", "text", "start", "end", "label", "score", "relation", "tail_start", "tail_end", "tail_label")
_REQUIRED = ("text", "start", "end", "label")
COLUMNS_HINT = (
    "A table has one row per entity or relation. It needs the columns text, start, end and label, and may have "
    "document, score, relation, tail_start, tail_end and tail_label"
)
_SUFFIXES = (".csv", ".tsv", ".parquet")
# Other names of the column that identifies a document.
_IDS = ("document", "document_id", "doc_id", "id")
# Regular expressions that DuckDB reads as well. Apostrophes in front are counted, so that any text can be read back.
FORMULA, NUMBER = r"'*[=+\-@\t\r]", r"[+\-]?[0-9]+(\.[0-9]*)?([eE][+\-]?[0-9]+)?"


def escape_cell(value: Any) -> Any:
    """Return a value for a CSV file that no spreadsheet program runs as a formula. Numbers stay as they are."""
    if isinstance(value, str) and re.match(FORMULA, value) and not re.fullmatch(NUMBER, value):
        return f"'{value}"
    return value


def escape_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the values of :func:`escape_cell`."""
    return {name: escape_cell(value) for name, value in row.items()}


def unescape_cell(text: str) -> str:
    """Return the text that :func:`escape_cell` was given."""
    return text[1:] if text.startswith("'") and re.match(FORMULA, text) else text


def sniff(head: str, path: Path) -> bool:
    """Return whether the suffix is that of a table, and a header of text names the columns."""
    suffix = plain_name(path).suffix
    header = head.partition("\n")[0]
    names = parquet_columns(path) if suffix == ".parquet" else header
    return suffix in _SUFFIXES and all(name in names for name in _REQUIRED)


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a table. Rows of one document stand together."""
    rows = _read_parquet(path) if plain_name(path).suffix == ".parquet" else _read_text(path, context.encoding)
    groups = (list(_limited(group)) for _, group in groupby(rows, key=lambda row: row.raw["document"]))
    return context.read_each(groups, _read_document)


def _limited(rows: Iterable[Value]) -> Iterator[Value]:
    limits = read_limits()
    for number, row in enumerate(rows, 1):
        limits.check_words(number, row.place, "rows")
        yield row


def _read_text(path: Path, encoding: str | None) -> Iterator[Value]:
    data = read_bytes(path, encoding).removeprefix(BYTE_ORDER_MARK)
    text = read_strictly(decode_text, data, Place(str(path)))
    delimiter = "\t" if plain_name(path).suffix == ".tsv" else ","
    csv.field_size_limit(max(len(text), csv.field_size_limit()))
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = _check_columns(path, reader.fieldnames or ())
        for record in reader:
            if None in record:
                where = f"{path}, line {reader.line_num}"
                raise DataError(f"{where}: the row has more columns than the header", "Quote values with a delimiter")
            if None in record.values():
                where = f"{path}, line {reader.line_num}"
                hint = "Check that the file is complete, and write empty values as well"
                raise DataError(f"{where}: the row has fewer columns than the header", hint)
            values = {name: unescape_cell(record[given] or "") or None for name, given in names.items()}
            yield _row(values, path, f"line {reader.line_num}")
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}", "Check the quotes and delimiters") from error


def _read_parquet(path: Path) -> Iterator[Value]:
    pq = require("pyarrow.parquet", extra="corpus")
    try:
        file = pq.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable Parquet file ({error})", "Check that it is complete") from error
    with file:
        names = _check_columns(path, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(batch_size=1024, columns=list(names.values())):
            for record in batch.to_pylist():
                number += 1
                yield _row({name: record[given] for name, given in names.items()}, path, f"row {number}")


def _check_columns(path: Path, given: Iterable[str]) -> dict[str, str]:
    """Return the name in the file of each known column."""
    given = list(given)
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}; its columns are {', '.join(map(repr, given)) or 'none'}",
            f"Use the columns {', '.join(COLUMNS)}",
        )
    names = {name: name for name in COLUMNS if name in given}
    id = next((name for name in _IDS if name in given), None)
    return names | ({} if id is None else {"document": id})


def _row(record: dict[str, Any], path: Path, where: str) -> Value:
    """Return a row. Text and numbers of a CSV file are both strings, so that numbers are parsed here."""
    made = dict.fromkeys(COLUMNS) | record
    for name in ("start", "end", "tail_start", "tail_end"):
        made[name] = _to_number(made[name], int)
    made["score"] = _to_number(made["score"], float)
    id = "" if made["document"] is None else str(made["document"])
    return Value(made | {"document": id}, Place(str(path), where, id), "row")


def _to_number(value: Any, kind: type[int] | type[float]) -> Any:
    """Return a number; other text unchanged, so that the reader refuses it."""
    try:
        return kind(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _read_document(rows: list[Value], context: ReadContext) -> Document:
    first = rows[0]
    # An empty cell of a document without entities is an empty text.
    is_empty = first.raw["text"] is None and all(row.raw["start"] is None for row in rows)
    text = "" if is_empty else first.field("text").string()
    for row in rows[1:]:
        if row.raw["text"] not in (None, "", text):
            problem = "whose text differs from that of the first row of its document"
            raise row.refuse("texts differ", problem, "Give documents ids of their own")
    ends = [end for row in rows if row.raw["start"] is not None for end in _ends(row)]
    links = [row for row in rows if row.raw["relation"] is not None]
    return StandoffReader(first, text, context).build(_distinct(ends), _read_end, links, _read_link)


def _ends(row: Value) -> Iterator[Value]:
    """Yield the entities of a row: one, and the tail of a relation."""
    yield row
    if row.raw["relation"] is not None:
        names = {name: row.raw[f"tail_{name}"] for name in ("start", "end", "label")}
        yield replace(row, raw=row.raw | names | {"score": None}, path="tail")


def _distinct(ends: list[Value]) -> list[Value]:
    """Return each entity once, with the score of the row that has one: it stands in several rows by design."""
    found: dict[tuple[Any, ...], Value] = {}
    for end in sorted(ends, key=lambda end: end.raw["score"] is None or end.raw["relation"] is not None):
        found.setdefault(_key(end), end)
    return [found[key] for key in dict.fromkeys(map(_key, ends))]


def _key(row: Value) -> tuple[Any, ...]:
    return row.raw["start"], row.raw["end"], row.raw["label"]


def _read_end(row: Value) -> StandoffEntity:
    start, end = row.field("start").integer(), row.field("end").integer()
    # The score of a row with a relation is that of the relation.
    score = row.optional_score() if row.raw["relation"] is None else None
    return StandoffEntity(_key(row), start, end, row.field("label").label(), score=score)


def _read_link(row: Value) -> Iterator[Link]:
    tail = (row.raw["tail_start"], row.raw["tail_end"], row.raw["tail_label"])
    yield Link(_key(row), row.field("relation").label(), tail, row.optional_score())


def write(documents: Iterable[Document], path: Path) -> None:
    """Write a row for each entity, then for each relation. Words are lost. Without a suffix, CSV is written."""
    suffix = plain_name(path).suffix
    rows = (row for document in _with_unique_ids(documents) for row in to_rows(document))
    if suffix == ".parquet":
        _write_parquet(rows, path)
        return
    with open_for_writing(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="", write_through=True)
        writer = csv.DictWriter(text, COLUMNS, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(escape_row, rows))
        text.detach()


def _with_unique_ids(documents: Iterable[Document]) -> Iterator[Document]:
    """Refuse documents in a row with the same id, which would be read as one."""
    previous = None
    for document in documents:
        if document.id == previous:
            problem = f"two documents have the id {document.id!r}, but rows of a document are found by it"
            raise DataError(problem, "Rename one of them")
        previous = document.id
        yield document


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> None:
    pa, pq = require("pyarrow", extra="corpus"), require("pyarrow.parquet", extra="corpus")
    kinds = {"score": pa.float64()} | dict.fromkeys(("start", "end", "tail_start", "tail_end"), pa.int64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    with open_for_writing(path) as handle, pq.ParquetWriter(handle, schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == 4096:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema))


def to_rows(document: Document) -> Iterator[dict[str, Any]]:
    """Yield the row of each entity, then of each relation. A document without entities has one row."""
    text: str | None = document.text
    for entity in document.entities:
        yield {"document": document.id, "text": text, "score": entity.score} | _bounds(entity)
        text = None
    for relation in document.relations:
        tail = {f"tail_{name}": value for name, value in _bounds(relation.tail).items()}
        ends = _bounds(relation.head) | tail
        yield {"document": document.id, "text": text, "relation": relation.label, "score": relation.score} | ends
    if text is not None:
        yield {"document": document.id, "text": text}


def _bounds(entity: Entity) -> dict[str, Any]:
    return {"start": entity.start, "end": entity.end, "label": entity.label}


TABLE = Format("table", _SUFFIXES, sniff, read, write, loses=("words and sentences",), needs_ids=True)
