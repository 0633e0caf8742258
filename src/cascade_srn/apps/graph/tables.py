"""The tables of a graph: their columns, and the libraries that read and write them."""

from __future__ import annotations

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


def load_library(name: str) -> Any:
    """Import a library of the extra ``graph``."""
    return require(name, extra="graph")


def table_schema(table: str) -> pyarrow.Schema:
    """Return the Arrow schema of a table of the graph."""
    return make_schema(_COLUMNS[table])


def make_schema(columns: str) -> pyarrow.Schema:
    """Return the Arrow schema of columns that are given as ``name:type``, separated by spaces."""
    pa = load_library("pyarrow")
    pairs = (column.split(":") for column in columns.split())
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in pairs])
