"""CSV and Parquet files for ``neo4j-admin database import full``.

Each table has a header file and a data file. Fields of a header are ``name:type``, ``name:ID(space)``, ``:LABEL``,
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


@dataclass(frozen=True)
class _ImportFile:
    """A pair of files: the header and the data.

    Attributes:
        name: Name of the files, without suffix.
        columns: The SQL of each field of the header.
        rows: The rest of the query.
        of_nodes: Whether the rows are nodes, not relationships.
    """

    name: str
    columns: dict[str, str]
    rows: str
    of_nodes: bool = False

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

    def spans_lines(self, graph: FilteredGraph) -> bool:
        """Return whether a text has a line break, which needs an option of the importer that makes it slower."""
        texts = [sql for name, sql in self.columns.items() if name.endswith((":string", "(entity)", ":TYPE"))]
        condition = " OR ".join(f"regexp_matches({text}, '[\\r\\n]')" for text in texts)
        return bool(graph.value(f"SELECT count(*) > 0 {self.rows.partition('ORDER BY')[0]} WHERE {condition}"))


def _properties(fields: str) -> dict[str, str]:
    """Return columns that have the name of their property. Names are quoted, because some are keywords."""
    return {field: f'"{field.partition(":")[0]}"' for field in fields.split()}


_FILES = (
    _ImportFile(
        "entities",
        {"node:ID(entity)": "node", "name:string": "name"}
        # The first label is that of all entities. Labels are separated by semicolons.
        | {":LABEL": "'Entity;' || replace(label, ';', ',')"}
        | _properties("label:string n_mentions:long n_documents:long degree:long votes:string")
        | _properties("first_date:string last_date:string identifier:string link:string"),
        "FROM nodes ORDER BY node",
        of_nodes=True,
    ),
    _ImportFile(
        "documents",
        {"key:ID(document)": _DOCUMENT}
        | _properties("document_id:string shard:string input:string row:long date:string title:string")
        | {":LABEL": "'Document'"},
        "FROM documents ORDER BY document",
        of_nodes=True,
    ),
    _ImportFile(
        "facts",
        {"key:ID(fact)": _FACT}
        | _properties("edge:long sentence_text:string sentence_start:long sentence_end:long")
        | _properties("head_text:string head_start:long head_end:long tail_text:string tail_start:long tail_end:long")
        | _properties("score:double model:string version:string date:string")
        | {":LABEL": "'Fact'"},
        "FROM evidence ORDER BY document, relation",
        of_nodes=True,
    ),
    _ImportFile(
        "relations",
        {":START_ID(entity)": "head", ":END_ID(entity)": "tail", ":TYPE": "label"}
        | _properties("edge:long n:long n_documents:long best_score:double mean_score:double")
        | _properties("first_date:string last_date:string symmetric:boolean flag:string"),
        "FROM edges ORDER BY edge",
    ),
    _ImportFile(
        "mentions",
        {":START_ID(entity)": "node", ":END_ID(document)": _DOCUMENT, ":TYPE": "'MENTIONED_IN'"}
        | _properties(
            "text:string start:long end:long sentence:long label:string score:double model:string step:string"
        ),
        "FROM mentions ORDER BY document, entity",
    ),
    _ImportFile(
        "fact_documents",
        {":START_ID(fact)": _FACT, ":END_ID(document)": _DOCUMENT, ":TYPE": "'STATED_IN'"},
        "FROM evidence ORDER BY document, relation",
    ),
    _ImportFile(
        "fact_entities",
        {":START_ID(fact)": _FACT, ":END_ID(entity)": "ending.node", ":TYPE": "ending.role"},
        """
        FROM evidence JOIN edges USING (edge), LATERAL (VALUES (head, 'HEAD'), (tail, 'TAIL')) AS ending(node, role)
        ORDER BY document, relation, role
        """,
    ),
)


def write(kind: str, graph: FilteredGraph, folder: Path) -> str:
    """Write the files, and return the command that imports them.

    Entities are nodes and edges are relationships between them. Documents and facts, which are the evidence, are nodes
    too, with relationships ``MENTIONED_IN``, ``STATED_IN``, ``HEAD`` and ``TAIL``.
    """
    options = "FORMAT csv, HEADER false" if kind == "csv" else "FORMAT parquet, COMPRESSION zstd"
    for file in _FILES:
        with (folder / f"{file.name}_header.csv").open("w", encoding="utf-8", newline="") as handle:
            lines = [list(file.columns)] + ([file.data_columns()] if kind == "parquet" else [])
            csv.writer(handle, lineterminator="\n").writerows(lines)
        graph.copy(file.query, folder / f"{file.name}.{kind}", options)
    parts = ["neo4j-admin database import full neo4j"]
    if kind == "parquet":
        parts.append("--input-type=parquet")
    elif any(file.spans_lines(graph) for file in _FILES):
        parts.append("--multiline-fields=true")
    for file in _FILES:
        files = f"{file.name}_header.csv,{file.name}.{kind}"
        parts.append(f"--{'nodes' if file.of_nodes else 'relationships'}={files}")
    return " \\\n  ".join(parts)
