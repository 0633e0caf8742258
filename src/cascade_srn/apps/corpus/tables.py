"""Tables that a corpus job writes: their columns, and their version."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

TABLE_VERSION = 1
"""Version of the columns. It changes when a column is removed or changes its meaning."""
TABLES = ("documents", "entities", "relations", "errors")

# Every table begins with these. All three together identify a document: a shard may cover several files, and rows
# count within a file.
_PLACE = (("document_id", "string"), ("shard", "string"), ("row", "int64"))
_COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "documents": (
        ("input", "string"),
        ("text", "string"),
        # Half-open character offsets of each sentence.
        ("sentences", "offsets"),
        ("n_words", "int32"),
        ("n_entities", "int32"),
        ("n_relations", "int32"),
        ("model", "string"),
    ),
    "entities": (
        # Zero-based position among the entities of the document. Relations refer to it.
        ("entity", "int32"),
        ("sentence", "int32"),
        ("start", "int32"),
        ("end", "int32"),
        ("text", "string"),
        # Lower case, with one space between words and natural characters.
        ("normalized", "string"),
        ("label", "string"),
        ("score", "float32"),
        ("model", "string"),
    ),
    "relations": (
        ("relation", "int32"),
        ("sentence", "int32"),
        ("label", "string"),
        ("score", "float32"),
        ("head", "int32"),
        ("head_start", "int32"),
        ("head_end", "int32"),
        ("head_text", "string"),
        ("head_label", "string"),
        ("tail", "int32"),
        ("tail_start", "int32"),
        ("tail_end", "int32"),
        ("tail_text", "string"),
        ("tail_label", "string"),
        # asserted, negated or hedged, by the words of the sentence.
        ("status", "string"),
        ("model", "string"),
    ),
    "errors": (("input", "string"), ("reason", "string"), ("attempts", "int32")),
}


def column_names(table: str) -> tuple[str, ...]:
    """Return the names of the columns of a table, without those that are carried along."""
    return tuple(name for name, _ in (*_PLACE, *_COLUMNS[table]))


def table_schema(table: str, kept: "dict[str, pyarrow.DataType] | None" = None) -> "pyarrow.Schema":
    """Return the Arrow schema of a table. Columns that are carried along come last, in ``documents``."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float32": pa.float32(),
        # Parquet calls the items of a list elements.
        "offsets": pa.list_(pa.field("element", pa.struct([("start", pa.int32()), ("end", pa.int32())]))),
    }
    fields = [pa.field(name, types[kind]) for name, kind in (*_PLACE, *_COLUMNS[table])]
    if table == "documents":
        fields += [pa.field(name, kind) for name, kind in (kept or {}).items()]
    return pa.schema(fields, metadata={"cascade_srn.table": table, "cascade_srn.version": str(TABLE_VERSION)})
