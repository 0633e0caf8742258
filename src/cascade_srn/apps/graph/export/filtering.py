"""Choose the nodes and edges of an export, and read their rows in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.store import DATABASE
from cascade_srn.apps.graph.tables import load_library, table_schema
from cascade_srn.config import require_range
from cascade_srn.errors import DataError, did_you_mean

_BATCH_ROWS = 10_000
_IS_SELECTED = {
    "mentions": "node IN (SELECT node FROM main.nodes)",
    "links": "node IN (SELECT node FROM main.nodes)",
    "evidence": "edge IN (SELECT edge FROM main.edges)",
    "documents": "document IN (SELECT document FROM main.mentions UNION SELECT document FROM main.evidence)",
}


@dataclass(frozen=True)
class ExportFilter:
    """Nodes and edges to export.

    Attributes:
        min_score: Only edges whose best score is at least this.
        min_count: Only edges with at least this number of relations.
        labels: Only nodes of these types, and edges between them; empty for all.
        relations: Only edges with these labels; empty for all.

    Nodes without an edge are exported unless the filter restricts edges. Counts and scores of a node or an edge are
    those of the whole graph.
    """

    min_score: float = 0.0
    min_count: int = 1
    labels: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_range("min_score", self.min_score, 0, 1, option="min_score")
        require_range("min_count", self.min_count, 1, option="min_count")

    @property
    def restricts_edges(self) -> bool:
        """Whether nodes without an edge are left out."""
        return self.min_score > 0 or self.min_count > 1 or bool(self.relations)


class FilteredGraph:
    """The chosen rows of a graph, as tables ``nodes``, ``edges``, ``mentions``, ``links``, …

    Scores are doubles, rounded to six decimals, so that 0.9 is not written as 0.8999999761581421.
    """

    def __init__(self, graph: Graph, chosen: ExportFilter) -> None:
        self.graph = graph
        self.chosen = chosen
        self._check_labels()
        self._connection = load_library("duckdb").connect()
        try:
            self._attach(graph.folder / DATABASE)
        except BaseException:
            self._connection.close()
            raise
        self.n_nodes: int = self.value("SELECT count(*) FROM nodes")
        self.n_edges: int = self.value("SELECT count(*) FROM edges")

    def __enter__(self) -> FilteredGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. Only a batch of them is in memory as Python objects."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, list(values))
            while batch := cursor.fetchmany(_BATCH_ROWS):
                yield from batch

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the single value of a query."""
        (row,) = self.rows(sql, values)
        return row[0]

    def copy(self, sql: str, path: Path, options: str) -> None:
        """Write the rows of a query to a CSV or Parquet file. ``options`` are those of DuckDB's ``COPY``."""
        target = str(path).replace("'", "''")
        with self._connection.cursor() as cursor:
            cursor.execute(f"COPY ({sql}) TO '{target}' ({options})")

    def _check_labels(self) -> None:
        for option, table in (("labels", "nodes"), ("relations", "edges")):
            known = {row["label"] for row in self.graph.query(f"SELECT DISTINCT label FROM {table}")}
            for label in getattr(self.chosen, option):
                if label not in known:
                    raise DataError(
                        f"the graph has no {table} of type {label!r}", did_you_mean(label, known), option=option
                    )

    def _attach(self, path: Path) -> None:
        quoted = str(path).replace("'", "''")
        run = self._connection.execute
        run(f"ATTACH '{quoted}' AS graph (READ_ONLY)")
        chosen = self.chosen
        run(
            f"""
            CREATE TABLE edges AS SELECT {_columns("edges")} FROM graph.edges
            WHERE ($min_count <= 1 OR n >= $min_count) AND coalesce(round(best_score::DOUBLE, 6), 1) >= $min_score
            AND (len($relations) = 0 OR list_contains($relations, label))
            AND (len($labels) = 0 OR (
                head IN (SELECT node FROM graph.nodes WHERE list_contains($labels, label))
                AND tail IN (SELECT node FROM graph.nodes WHERE list_contains($labels, label))
            ))
            ORDER BY edge
            """,
            {
                "min_count": chosen.min_count,
                "min_score": chosen.min_score,
                "relations": list(chosen.relations),
                "labels": list(chosen.labels),
            },
        )
        run(
            f"""
            CREATE TABLE nodes AS SELECT {_columns("nodes")} FROM graph.nodes
            WHERE (len($labels) = 0 OR list_contains($labels, label))
            AND (NOT $connected OR node IN (SELECT head FROM edges UNION SELECT tail FROM edges))
            ORDER BY node
            """,
            {"labels": list(chosen.labels), "connected": chosen.restricts_edges},
        )
        for table, condition in _IS_SELECTED.items():
            run(f"CREATE VIEW {table} AS SELECT {_columns(table)} FROM graph.{table} WHERE {condition}")


def _columns(table: str) -> str:
    """Return the columns of a table as SQL, scores as rounded doubles."""
    return ", ".join(
        f'round("{column.name}"::DOUBLE, 6) AS "{column.name}"' if str(column.type) == "float" else f'"{column.name}"'
        for column in table_schema(table)
    )
