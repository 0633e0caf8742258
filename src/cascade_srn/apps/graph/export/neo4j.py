"""CSV and Parquet files for ``neo4j-admin database import full``.

Each source has a header file and a data file. Fields of a header are ``name:type``, ``name:ID(space)``, ``:LABEL``,
``:START_ID(space)``, ``:END_ID(space)`` and ``:TYPE``. With Parquet, the second line of the header names the columns of
the data, which Neo4j reads from version 2025.04 on.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from cascade_srn.apps.graph.export.filtering import FilteredGraph

# Neo4j takes ids for strings.
_DOCUMENT = "document::VARCHAR"
_FACT = "document || ':' || relation"
# A text that spans lines needs an option of the importer, which makes it slower.
_SPANS_LINES = "regexp_matches({}, '[\\r\\n]')"


@dataclass(frozen=True)
class _Source:
    """A pair of files.

    Attributes:
        name: Name of the files, without suffix.
        columns: The SQL of each field of the header.
        rows: The rest of the query.
        of_nodes: Whether the rows are nodes, not relationships.
        texts: SQL of the columns that may span lines.
    """

    name: str
    columns: dict[str, str]
    rows: str
    of_nodes: bool = False
    texts: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        names = self.data_columns()
        selected = (f'{sql} AS "{name}"' for sql, name in zip(self.columns.values(), names, strict=True))
        return f"SELECT {', '.join(selected)} {self.rows}"

    def data_columns(self) -> list[str]:
        """Return a plain name for each column, such as ``start_id`` for ``:START_ID(entity)``."""
        # Names of columns must differ in more than case, and there is a property "label".
        names = [field.partition(":")[0] or field[1:].partition("(")[0].lower() for field in self.columns]
        return ["labels" if field == ":LABEL" else name for field, name in zip(self.columns, names, strict=True)]


_SOURCES = (
    _Source(
        "entities",
        {
            "node:ID(entity)": "node",
            "name:string": "name",
            # The first label is that of all entities. Labels are separated by semicolons.
            ":LABEL": "'Entity;' || replace(label, ';', ',')",
            "label:string": "label",
            "n_mentions:long": "n_mentions",
            "n_documents:long": "n_documents",
            "degree:long": "degree",
            "votes:string": "votes",
            "first_date:string": "first_date",
            "last_date:string": "last_date",
        },
        "FROM nodes ORDER BY node",
        of_nodes=True,
        texts=("node", "name", "label", "first_date", "last_date"),
    ),
    _Source(
        "documents",
        {
            "key:ID(document)": _DOCUMENT,
            "document_id:string": "document_id",
            "shard:string": "shard",
            "input:string": "input",
            "row:long": '"row"',
            "date:string": "date",
            "title:string": "title",
            ":LABEL": "'Document'",
        },
        "FROM documents ORDER BY document",
        of_nodes=True,
        texts=("document_id", "shard", "input", "date", "title"),
    ),
    _Source(
        "facts",
        {
            "key:ID(fact)": _FACT,
            "edge:long": "edge",
            "sentence_text:string": "sentence_text",
            "sentence_start:long": "sentence_start",
            "sentence_end:long": "sentence_end",
            "head_text:string": "head_text",
            "head_start:long": "head_start",
            "head_end:long": "head_end",
            "tail_text:string": "tail_text",
            "tail_start:long": "tail_start",
            "tail_end:long": "tail_end",
            "score:double": "score",
            "model:string": "model",
            "version:string": "version",
            "date:string": "date",
            ":LABEL": "'Fact'",
        },
        "FROM evidence ORDER BY document, relation",
        of_nodes=True,
        texts=("sentence_text", "head_text", "tail_text", "model", "version", "date"),
    ),
    _Source(
        "relations",
        {
            ":START_ID(entity)": "head",
            ":END_ID(entity)": "tail",
            ":TYPE": "label",
            "edge:long": "edge",
            "n:long": "n",
            "n_documents:long": "n_documents",
            "best_score:double": "best_score",
            "mean_score:double": "mean_score",
            "first_date:string": "first_date",
            "last_date:string": "last_date",
            "symmetric:boolean": '"symmetric"',
            "flag:string": "flag",
        },
        "FROM edges ORDER BY edge",
        texts=("head", "tail", "label", "first_date", "last_date", "flag"),
    ),
    _Source(
        "mentions",
        {
            ":START_ID(entity)": "node",
            ":END_ID(document)": _DOCUMENT,
            ":TYPE": "'MENTIONED_IN'",
            "text:string": "text",
            "start:long": "start",
            "end:long": '"end"',
            "sentence:long": "sentence",
            "label:string": "label",
            "score:double": "score",
            "model:string": "model",
            "step:string": "step",
        },
        "FROM mentions ORDER BY document, entity",
        texts=("node", "text", "label", "model", "step"),
    ),
    _Source(
        "fact_documents",
        {":START_ID(fact)": _FACT, ":END_ID(document)": _DOCUMENT, ":TYPE": "'STATED_IN'"},
        "FROM evidence ORDER BY document, relation",
    ),
    _Source(
        "fact_entities",
        {":START_ID(fact)": _FACT, ":END_ID(entity)": "ending.node", ":TYPE": "ending.role"},
        """
        FROM evidence JOIN edges USING (edge), LATERAL (VALUES (head, 'HEAD'), (tail, 'TAIL')) AS ending(node, role)
        ORDER BY document, relation, role
        """,
        texts=("head", "tail"),
    ),
)


def write(kind: str, graph: FilteredGraph, folder: Path) -> str:
    """Write the files, and return the command that imports them.

    Entities are nodes and edges are relationships between them. Documents and facts, which are the evidence, are nodes
    too, with relationships ``MENTIONED_IN``, ``STATED_IN``, ``HEAD`` and ``TAIL``.
    """
    options = "FORMAT csv, HEADER false" if kind == "csv" else "FORMAT parquet, COMPRESSION zstd"
    for source in _SOURCES:
        with (folder / f"{source.name}_header.csv").open("w", encoding="utf-8", newline="") as handle:
            lines = [list(source.columns)] + ([source.data_columns()] if kind == "parquet" else [])
            csv.writer(handle, lineterminator="\n").writerows(lines)
        graph.copy(source.query, folder / f"{source.name}.{kind}", options)
    parts = ["neo4j-admin database import full neo4j"]
    if kind == "parquet":
        parts.append("--input-type=parquet")
    elif any(_spans_lines(graph, source) for source in _SOURCES if source.texts):
        parts.append("--multiline-fields=true")
    for source in _SOURCES:
        files = f"{source.name}_header.csv,{source.name}.{kind}"
        parts.append(f"--{'nodes' if source.of_nodes else 'relationships'}={files}")
    return " \\\n  ".join(parts)


def _spans_lines(graph: FilteredGraph, source: _Source) -> bool:
    condition = " OR ".join(_SPANS_LINES.format(text) for text in source.texts)
    rows = source.rows.partition("ORDER BY")[0]
    return bool(graph.value(f"SELECT count(*) > 0 {rows} WHERE {condition}"))
