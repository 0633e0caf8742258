"""The tables of a graph: their columns, and the libraries that read and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cascade_srn.errors import require

if TYPE_CHECKING:
    import pyarrow

GRAPH_VERSION = 2
"""Version of the columns. It changes when a column is removed or changes its meaning."""
STEPS = ("text", "type", "head", "acronym", "fuzzy", "alias", "manual")
"""Steps of the resolution, in their order."""
FLAGS = ("", "contradiction", "cycle")

# The number of the document identifies it in all tables. Its id may repeat.
_DOCUMENT = (("document", "int64"), ("document_id", "string"))
_COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "nodes": (
        # Stable id: name and label in lower case and ASCII where possible, with a suffix where that is not unique.
        ("node", "string"),
        # The most frequent surface form.
        ("name", "string"),
        ("label", "string"),
        ("n_mentions", "int64"),
        ("n_documents", "int64"),
        # Number of edges, in both directions.
        ("degree", "int64"),
        # JSON object: weight by label.
        ("votes", "string"),
        ("first_date", "string"),
        ("last_date", "string"),
    ),
    "mentions": (
        ("node", "string"),
        *_DOCUMENT,
        # Zero-based position among the entities of the document.
        ("entity", "int32"),
        ("sentence", "int32"),
        ("start", "int32"),
        ("end", "int32"),
        ("text", "string"),
        ("label", "string"),
        ("score", "float32"),
        ("model", "string"),
        # How the mention came to its node; "text" if it has the normalised text of the node's name.
        ("step", "string"),
    ),
    "edges": (
        ("edge", "int64"),
        ("head", "string"),
        ("label", "string"),
        ("tail", "string"),
        ("n", "int64"),
        ("n_documents", "int64"),
        ("best_score", "float32"),
        ("mean_score", "float32"),
        ("first_date", "string"),
        ("last_date", "string"),
        ("symmetric", "bool"),
        ("flag", "string"),
    ),
    "evidence": (
        ("edge", "int64"),
        *_DOCUMENT,
        # Zero-based position among the relations of the document.
        ("relation", "int32"),
        ("sentence", "int32"),
        ("sentence_start", "int32"),
        ("sentence_end", "int32"),
        ("sentence_text", "string"),
        # Offsets are into the text of the document. Head and tail are those of the relation as it was extracted.
        ("head_start", "int32"),
        ("head_end", "int32"),
        ("head_text", "string"),
        ("tail_start", "int32"),
        ("tail_end", "int32"),
        ("tail_text", "string"),
        ("score", "float32"),
        ("model", "string"),
        ("version", "string"),
        ("date", "string"),
    ),
    "merges": (
        ("node", "string"),
        ("text", "string"),
        ("label", "string"),
        ("into_text", "string"),
        ("into_label", "string"),
        ("step", "string"),
        ("reason", "string"),
        # Similarity from 0 to 1 of a fuzzy match; 1 for the other steps.
        ("score", "float32"),
    ),
    "documents": (
        *_DOCUMENT,
        # Where it was read: the shard of a corpus job or the file of JSON lines, the file that was extracted from, and
        # the zero-based row in it.
        ("shard", "string"),
        ("input", "string"),
        ("row", "int64"),
        ("date", "string"),
        ("title", "string"),
        ("text", "string"),
    ),
}
TABLES = tuple(_COLUMNS)
# Looked up by readers one value at a time.
INDEXES = (
    ("nodes", "node"),
    ("mentions", "node"),
    ("edges", "edge"),
    ("edges", "head"),
    ("edges", "tail"),
    ("evidence", "edge"),
    ("merges", "node"),
    ("documents", "document"),
    ("documents", "document_id"),
)


def load_library(name: str) -> Any:
    """Import a library of the extra ``graph``."""
    return require(name, extra="graph")


def table_schema(table: str) -> pyarrow.Schema:
    """Return the Arrow schema of a table of the graph."""
    pa = load_library("pyarrow")
    types = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float32": pa.float32(),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in _COLUMNS[table]])
