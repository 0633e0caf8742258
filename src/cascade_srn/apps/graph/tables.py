"""The tables of a graph: their columns, and the libraries that read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.errors import require

if TYPE_CHECKING:
    import pyarrow

GRAPH_VERSION = 4
"""Version of the columns. It changes when a column is added, is removed, or changes its meaning."""
STEPS = ("text", "type", "head", "acronym", "fuzzy", "alias", "manual")
"""Steps of the resolution, in their order."""

# Columns with their Arrow types.
#
# All tables: the number of the document identifies it, and its id may repeat.
# nodes: the id is name and label in lower case and ASCII where possible, with a suffix where that is not unique. The
#   name is the most frequent surface form, the degree the number of edges in both directions, and votes a JSON object
#   with the weight by label. identifier is the entry of the vocabulary; link is exact, normalised, n-gram or ambiguous,
#   and null if there is none.
# mentions: entity is the zero-based position among the entities of the document. step is how the mention came to its
#   node; "text" if it has the normalised text of the node's name.
# evidence: relation is the zero-based position among the relations of the document. Offsets are into the text of the
#   document. Head and tail are those of the relation as it was extracted.
# merges: score is the similarity from 0 to 1 of a fuzzy match; 1 for the other steps.
# links: entries of the vocabulary that fit a node. An ambiguous node has several. text is the form that they fit, and
#   score the similarity of n-grams; 1 for the other links.
# documents: the shard of a corpus job or the file of JSON lines, the file that was extracted from, and the zero-based
#   row in it.
_COLUMNS = {
    "nodes": """
        node:string name:string label:string n_mentions:int64 n_documents:int64 degree:int64 votes:string
        first_date:string last_date:string identifier:string link:string
    """,
    "mentions": """
        node:string document:int64 document_id:string entity:int32 sentence:int32 start:int32 end:int32 text:string
        label:string score:float32 model:string step:string
    """,
    "edges": """
        edge:int64 head:string label:string tail:string n:int64 n_documents:int64 best_score:float32 mean_score:float32
        first_date:string last_date:string symmetric:bool flag:string
    """,
    "evidence": """
        edge:int64 document:int64 document_id:string relation:int32 sentence:int32 sentence_start:int32
        sentence_end:int32 sentence_text:string head_start:int32 head_end:int32 head_text:string tail_start:int32
        tail_end:int32 tail_text:string score:float32 model:string version:string date:string status:string
    """,
    "merges": """
        node:string text:string label:string into_text:string into_label:string step:string reason:string score:float32
    """,
    "links": "node:string identifier:string name:string text:string link:string score:float32",
    "documents": """
        document:int64 document_id:string shard:string input:string row:int64 date:string title:string text:string
    """,
}
TABLES = tuple(_COLUMNS)
# Looked up by readers one value at a time.
_INDEXES = """
    nodes.node mentions.node edges.edge edges.head edges.tail evidence.edge merges.node links.node documents.document
    documents.document_id forms.folded
"""
INDEXES = tuple(index.split(".") for index in _INDEXES.split())
# Columns in which few values repeat, so that a dictionary of them only costs time.
_DISTINCT = {"node", "name", "text", "votes", "title", "sentence_text", "head", "tail", "head_text", "tail_text"}
_DISTINCT |= {"slug", "squeeze", "plain"}


def load_library(name: str) -> Any:
    """Import a library of the extra ``graph``."""
    return require(name, extra="graph")


def table_schema(table: str) -> pyarrow.Schema:
    """Return the Arrow schema of a table of the graph."""
    return make_schema(_COLUMNS[table])


def cast_table(name: str, table: pyarrow.Table) -> pyarrow.Table:
    """Return the columns of a table of the graph with their types."""
    schema = table_schema(name)
    return encode_models(table.select(schema.names)).cast(encode_models(schema.empty_table()).schema)


def make_schema(columns: str) -> pyarrow.Schema:
    """Return the Arrow schema of columns that are given as ``name:type``, separated by spaces."""
    pa = load_library("pyarrow")
    pairs = (column.split(":") for column in columns.split())
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in pairs])


def encode_models(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table with a code for each model. The checksums are the largest column otherwise."""
    if "model" not in table.column_names:
        return table
    return table.set_column(table.column_names.index("model"), "model", table["model"].dictionary_encode())


def read_table(path: Path) -> pyarrow.Table:
    """Read a table that :func:`write_table` has written."""
    table: pyarrow.Table = load_library("pyarrow.parquet").read_table(path, read_dictionary=["model"])
    return table


def write_table(table: pyarrow.Table, path: Path, compression: str = "zstd") -> None:
    """Write a table. The same rows give the same bytes."""
    pa, pc = load_library("pyarrow"), load_library("pyarrow.compute")
    # In one piece, because pages end where a piece ends.
    table = encode_models(table).unify_dictionaries().combine_chunks()
    names = table.column_names
    if "model" in names:
        models = table["model"].combine_chunks()
        values = pa.array(sorted({*models.unique().to_pylist()} - {None}), pa.string())
        codes = pc.index_in(models.dictionary, values).take(models.indices)
        table = table.set_column(names.index("model"), "model", pa.DictionaryArray.from_arrays(codes, values))
    numbers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    scores = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    repeated = [name for name in names if name not in {*_DISTINCT, *numbers, *scores}]
    load_library("pyarrow.parquet").write_table(
        table,
        path,
        compression=compression,
        use_dictionary=repeated,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        write_statistics=[*numbers, *repeated],
        store_schema=False,  # readers get texts instead of codes
    )


def splice(
    old: pyarrow.Table, keep: Any, new: pyarrow.Table, columns: Sequence[tuple[str | None, Any, Any]]
) -> pyarrow.Table:
    """Insert rows into a table at their places.

    Args:
        old: The table, in the order of the columns.
        keep: Whether each of its rows is kept.
        new: The new rows, in the same order.
        columns: One or two columns that give the order: the name of the column if its values are replaced, and whole
            numbers for the old and the new rows. No kept row has the same numbers as a new one.
    """
    np, pa = load_library("numpy"), load_library("pyarrow")
    rows = np.flatnonzero(keep)
    kept, added = [old[rows] for _, old, _ in columns], [new for _, _, new in columns]
    keys = kept[0], added[0]
    if len(columns) > 1:
        scale = 1 + max(part.max(initial=0) for part in (kept[1], added[1]))
        keys = kept[0] * scale + kept[1], added[0] * scale + added[1]
    places = np.searchsorted(*keys)
    order = np.insert(rows, places, old.num_rows + np.arange(new.num_rows))
    table = pa.concat_tables([encode_models(part) for part in (old, new)]).unify_dictionaries().combine_chunks()
    table = table.take(pa.array(order))
    for (name, _, _), before, after in zip(columns, kept, added, strict=True):
        if name is not None:
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(np.insert(before, places, after), pa.int64()))
    return table
