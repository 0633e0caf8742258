"""Hugging Face datasets: a folder of ``save_to_disk`` or a Parquet file. Needs pyarrow; writing a folder, ``datasets``.

Rows have ``tokens`` and tags (``ner_tags``, ``tags`` or ``labels``, as names or class numbers), or the fields of the
package's JSON lines.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cascade_srn.errors import CascadeError, DataError, require
from cascade_srn.formats import jsonl
from cascade_srn.formats.base import Format, ReadContext
from cascade_srn.formats.brat import new_folder
from cascade_srn.formats.builder import DocumentBuilder, read_tokens
from cascade_srn.formats.conll import read_tags
from cascade_srn.formats.files import replacing
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document, Sentence, Span

_TAGS = ("ner_tags", "tags", "labels", "ner", "bio_tags")
_INFO = "dataset_info.json"


def sniff(head: str, path: Path) -> bool:
    """Return whether a folder was saved by ``datasets``, or a Parquet file has tokens, or words and entities."""
    if path.is_dir():
        return (path / _INFO).exists() or (path / "dataset_dict.json").exists()
    if path.suffix != ".parquet":
        return False
    names = parquet_columns(path)
    return "tokens" in names or {"text", "entities"} <= names


def parquet_columns(path: Path) -> set[str]:
    """Return the names of the columns of a Parquet file; none if it cannot be read."""
    try:
        import pyarrow.parquet as pq

        return set(pq.read_schema(path).names)
    except (ImportError, OSError, ValueError):
        return set()


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read one document for each row. Messages count rows from 1."""
    names: dict[str, list[str]] = {}
    for number, (raw, schema) in enumerate(_read_rows(path), 1):
        if number == 1:
            names = _class_names(schema)
            _check_columns(path, list(schema.names))
        record = Value(raw, Place(str(path), f"row {number}"))
        document = context.attempt("document", _read_row, record, names, context)
        if document is not None:
            yield document


def _read_rows(path: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    pa, pq = require("pyarrow", extra="formats"), require("pyarrow.parquet", extra="formats")
    if path.is_dir() and (path / "dataset_dict.json").exists():
        splits = sorted(member.name for member in path.iterdir() if (member / _INFO).exists())
        raise DataError(f"{path} has several splits", f"Pass one of its folders: {', '.join(splits)}")
    try:
        if path.is_dir():
            files = json.loads((path / "state.json").read_text(encoding="utf-8"))["_data_files"]
            for file in files:
                # Only the name: the folder may come from an archive, which must not lead to other files.
                with pa.memory_map(str(path / Path(file["filename"]).name)) as source:
                    for batch in pa.ipc.open_stream(source):
                        yield from ((row, batch.schema) for row in _to_rows(batch, path))
        else:
            with pq.ParquetFile(path) as table:
                for at in range(table.num_row_groups):
                    read_limits().check_size(table.metadata.row_group(at).total_byte_size, path)
                for batch in table.iter_batches(batch_size=64):
                    yield from ((row, table.schema_arrow) for row in _to_rows(batch, path))
    except CascadeError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read as a dataset ({error})", "Save it again") from error


def _to_rows(batch: Any, path: Path) -> list[dict[str, Any]]:
    # A value that is stored once, or compressed, can stand in any number of rows.
    read_limits().check_size(batch.nbytes, path)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def _class_names(schema: Any) -> dict[str, list[str]]:
    """Return the names of classes by column, from the features that ``datasets`` stores with the schema."""
    stored = (schema.metadata or {}).get(b"huggingface")
    features = json.loads(stored)["info"]["features"] if stored else {}
    names = {}
    for column, feature in features.items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and "names" in inner:
            names[column] = list(inner["names"])
    return names


def _check_columns(path: Path, names: list[str]) -> None:
    if not ("tokens" in names or "text" in names):
        raise DataError(
            f"{path} has neither a column 'tokens' nor 'text'; its columns are {', '.join(map(repr, names))}",
            "Rename the column",
        )


def _read_row(record: Value, names: dict[str, list[str]], context: ReadContext) -> Document:
    if record.get("tokens") is None:
        return jsonl.read_document(record, context)
    record = record.with_document_id("id")
    words, escaped = read_tokens(record.field("tokens"), context)
    column = next((name for name in _TAGS if record.get(name) is not None), _TAGS[0])
    record.note_unread(("id", "tokens", column), context)
    given = record.field(column).items(len(words), len(words))
    tags = [_tag(item, names.get(column)) for item in given]
    builder = DocumentBuilder(context)
    for start, end, label in read_tags(tags):
        context.attempt("entity", builder.add_entity, given[start], Span(start, end, label))
    return Document.from_sentences(
        [Sentence.from_words(words, builder.entities[0], escaped=escaped)], id=record.place.document
    )


def _tag(item: Value, names: list[str] | None) -> str:
    if isinstance(item.raw, str):
        return item.raw
    if names is None:
        problem = "but the column has no names of classes"
        raise item.refuse("unknown class", problem, "Store it as ClassLabel, or as names such as B-Method")
    return names[item.index(len(names), "class")]


def write(documents: Iterable[Document], path: Path) -> None:
    """Write a Parquet file if the name ends in ``.parquet``, else a folder of ``datasets``. Clusters are lost."""
    pa, pq = require("pyarrow", extra="formats"), require("pyarrow.parquet", extra="formats")
    text, number = pa.string(), pa.int64()
    entity = pa.struct(
        [("id", number), ("text", text), ("label", text), ("start", number), ("end", number), ("score", pa.float64())]
    )
    relation = pa.struct([("head", number), ("tail", number), ("label", text), ("score", pa.float64())])
    columns = [("id", text), ("text", text), ("sentences", pa.list_(pa.list_(pa.list_(number))))]
    schema = pa.schema([*columns, ("entities", pa.list_(entity)), ("relations", pa.list_(relation))])
    table = pa.Table.from_pylist([jsonl.to_record(document) for document in documents], schema)
    if path.suffix == ".parquet":
        with replacing(path) as handle:
            pq.write_table(table, handle)
        return
    datasets = require("datasets", extra="formats")
    with new_folder(path) as folder:
        were_off = datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        try:
            datasets.Dataset(table).save_to_disk(folder)
        finally:
            if not were_off:
                datasets.enable_progress_bars()


DATASETS = Format("datasets", (), sniff, read, write, folder=True)
