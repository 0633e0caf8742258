"""The folder of a graph: its tables as Parquet and in a DuckDB file, and how they are written and read.

``graph.json`` has the version, the settings and the counts, and marks a folder as a graph. Needs the extra ``graph``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.tables import GRAPH_VERSION, INDEXES, STEPS, TABLES, load_library, table_schema
from cascade_srn.errors import DataError
from cascade_srn.storage.atomic import replacing_folder

if TYPE_CHECKING:
    import duckdb
    import networkx
    import pyarrow

RECORD, DATABASE = "graph.json", "graph.duckdb"
_KEY = "graph_version"


def write_graph(
    folder: str | Path,
    tables: Mapping[str, pyarrow.Table],
    record: Mapping[str, Any],
    *,
    overwrite: bool = False,
    add: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a graph to a folder, which appears when it is complete.

    Args:
        folder: A new or empty folder, or with ``overwrite`` that of another graph.
        tables: A table for each of ``TABLES``, with its columns.
        record: What ``graph.json`` has beside the version and the counts, such as the settings.
        overwrite: Replace an existing graph.
        add: Called with the new folder, to write further files to it.

    Raises:
        DataError: The folder has other files, or a graph without ``overwrite``.
    """
    parquet = load_library("pyarrow.parquet")
    check_target(folder, overwrite=overwrite)
    with replacing_folder(folder, marker=RECORD, key=_KEY) as fresh:
        for name in TABLES:
            table = tables[name].select(table_schema(name).names).cast(table_schema(name))
            parquet.write_table(table, fresh / f"{name}.parquet", compression="zstd")
        _write_database(fresh)
        add(fresh)
        counts = {name: tables[name].num_rows for name in TABLES}
        content = {_KEY: GRAPH_VERSION, **record, "counts": counts}
        (fresh / RECORD).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Raise a :class:`DataError` if a graph cannot be written to a folder."""
    check_folder(Path(folder), "a graph", _is_graph, overwrite=overwrite)


def check_folder(folder: Path, kind: str, is_kind: Callable[[Path], bool], *, overwrite: bool) -> None:
    """Raise a :class:`DataError` unless a folder is missing, empty, or of a kind that may be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not is_kind(folder):
        problem = "contains other files" if folder.is_dir() else "is a file"
        raise DataError(f"{folder} {problem}", "Choose a new or empty folder", option="output")
    if not overwrite:
        raise DataError(f"{folder} is {kind} already", "Choose another folder, or replace it", option="overwrite")


def _write_database(folder: Path) -> None:
    connection = load_library("duckdb").connect(str(folder / DATABASE))
    try:
        for name in TABLES:
            source = str(folder / f"{name}.parquet").replace("'", "''")
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{source}')")
        for table, column in INDEXES:
            connection.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


def _is_graph(folder: Path) -> bool:
    try:
        return isinstance(read_record(folder), dict)
    except DataError:
        return False


def read_record(folder: str | Path) -> dict[str, Any]:
    """Read ``graph.json``.

    Raises:
        DataError: The folder is no graph, or one of a later version of the package.
    """
    path = Path(folder) / RECORD
    hint = "Give a folder that `graph build` has written"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = "has no graph.json" if Path(folder).is_dir() else f"cannot be read ({error.strerror})"
        raise DataError(f"{folder} {reason}", hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error})", hint) from error
    if not isinstance(record, dict) or _KEY not in record:
        raise DataError(f"{path} is not that of a graph", hint)
    if record[_KEY] != GRAPH_VERSION:
        raise DataError(
            f"{path} has the version {record[_KEY]!r}, but this release reads version {GRAPH_VERSION}",
            "Build the graph again",
        )
    return record


def open_graph(folder: str | Path) -> Graph:
    """Open a graph for reading.

    Several processes may have the same graph open.

    Args:
        folder: A folder that :func:`cascade_srn.apps.graph.build` has written.

    Raises:
        DataError: The folder is no graph, or is damaged.

    Example:
        >>> with open_graph("graph") as graph:  # doctest: +SKIP
        ...     [node["name"] for node in graph.search("named ent", limit=2)]
        ['named entity recognition', 'named entities']
    """
    record = read_record(folder)
    duckdb = load_library("duckdb")
    path = str(Path(folder) / DATABASE).replace("'", "''")
    while True:
        # Attached, because one process gets the same database for the same path, even if the file was replaced.
        connection = duckdb.connect()
        try:
            connection.execute(f"ATTACH '{path}' AS graph (READ_ONLY)")
        except duckdb.Error as error:
            connection.close()
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{Path(folder) / DATABASE} cannot be opened ({reason})", "Build the graph again"
            ) from error
        before, record = record, read_record(folder)
        if record == before:
            return Graph(Path(folder), record, connection)
        connection.close()  # the graph was replaced between the two


class Graph:
    """A graph that is open for reading. Make one with :func:`open_graph`.

    Rows are dictionaries with the columns of their table. Methods may be called by several threads.

    Attributes:
        folder: The folder.
        record: Content of ``graph.json``: settings, counts, model checksums.
    """

    def __init__(self, folder: Path, record: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> None:
        self.folder = folder
        self.record = record
        self._connection = connection

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Run an SQL query and return its rows.

        Args:
            sql: A query in DuckDB's SQL, with ``?`` for values.
            values: The values.

        Returns:
            A dictionary per row. Of several columns with the same name, the second gets ``_1``, the third ``_2``, …
        """
        return self._rows(sql, list(values))

    def search(self, text: str, *, label: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
        """Find nodes by the beginning of a word in their name or in another form of it.

        Args:
            text: What the user has typed, in any case.
            label: Only nodes of this type.
            limit: Maximum number of nodes.

        Returns:
            Rows of ``nodes``. Names that begin with the text come first, then the most frequent.
        """
        wanted = " ".join(text.lower().split())
        rows = """
            WITH forms AS (
                SELECT node, lower(name) AS form FROM nodes
                UNION ALL SELECT node, lower(text) AS form FROM merges
            ), ranks AS (
                SELECT node, min(CASE WHEN form = $text THEN 0 WHEN starts_with(form, $text) THEN 1 ELSE 2 END) AS rank
                FROM forms
                WHERE starts_with(form, $text) OR contains(form, ' ' || $text) OR contains(form, '-' || $text)
                GROUP BY node
            )
            SELECT nodes.* FROM ranks JOIN nodes USING (node) WHERE $label IS NULL OR label = $label
            ORDER BY rank, n_mentions DESC, node LIMIT $limit
        """
        return self._rows(rows, {"text": wanted, "label": label, "limit": limit})

    def node(self, node: str) -> dict[str, Any]:
        """Return the row of a node.

        Raises:
            DataError: There is no such node.
        """
        found = self.query("SELECT * FROM nodes WHERE node = ?", [node])
        if not found:
            near = self.search(node.replace("-", " "), limit=1) or self.query(
                "SELECT node FROM nodes ORDER BY jaro_winkler_similarity(node, ?) DESC, node LIMIT 1", [node]
            )
            hint = f"Did you mean {near[0]['node']!r}?" if near else "The graph is empty"
            raise DataError(f"there is no node {node!r}", hint)
        return found[0]

    def resolve(self, text: str) -> str:
        """Return the id of a node that is given by its id or by a name.

        Raises:
            DataError: No node has this id or name, or several have.
        """
        if self.query("SELECT 1 FROM nodes WHERE node = ?", [text]):
            return text
        rows = self.query("SELECT node FROM nodes WHERE lower(name) = lower(?) ORDER BY node", [text]) or self.query(
            "SELECT DISTINCT node FROM merges WHERE lower(text) = lower(?) ORDER BY node", [text]
        )
        if len(rows) > 1:
            names = ", ".join(row["node"] for row in rows[:5])
            raise DataError(f"{len(rows)} nodes have the name {text!r}", f"Choose one of them: {names}")
        return str(rows[0]["node"] if rows else self.node(text)["node"])

    def edge(self, edge: int) -> dict[str, Any]:
        """Return the row of an edge.

        Raises:
            DataError: There is no such edge.
        """
        found = self.query("SELECT * FROM edges WHERE edge = ?", [edge])
        if not found:
            raise DataError(
                f"there is no edge {edge}", f"Edges are numbered from 0 to {self.record['counts']['edges']}"
            )
        return found[0]

    def neighbours(
        self,
        node: str,
        *,
        relations: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        min_count: int = 1,
        min_score: float = 0.0,
        first_date: str | None = None,
        last_date: str | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the edges of a node with the node at their other end.

        Args:
            node: Id of the node.
            relations: Only edges with these labels.
            labels: Only neighbours with these types.
            min_count: Only edges with at least this number of relations.
            min_score: Only edges whose best score is at least this.
            first_date: Only edges with evidence of this date or later.
            last_date: Only edges with evidence of this date or earlier.
            limit: Maximum number of edges.

        Returns:
            Rows of ``edges``, the most frequent first, with ``neighbour``, ``neighbour_name``, ``neighbour_label`` and
            ``neighbour_degree``.
        """
        rows = """
            SELECT edges.*, other.node AS neighbour, other.name AS neighbour_name, other.label AS neighbour_label,
                other.degree AS neighbour_degree
            FROM edges JOIN nodes AS other ON other.node = CASE WHEN edges.head = $node THEN tail ELSE head END
            WHERE (edges.head = $node OR edges.tail = $node)
                AND ($relations IS NULL OR list_contains($relations, edges.label))
                AND ($labels IS NULL OR list_contains($labels, other.label))
                AND n >= $min_count AND coalesce(round(best_score::DOUBLE, 6), 1) >= $min_score
                AND ($first IS NULL OR edges.last_date >= $first) AND ($last IS NULL OR edges.first_date <= $last)
            ORDER BY n DESC, n_documents DESC, edge LIMIT $limit
        """
        values = {
            "node": node,
            "relations": None if relations is None else list(relations),
            "labels": None if labels is None else list(labels),
            "min_count": min_count,
            "min_score": min_score,
            "first": first_date,
            "last": last_date,
            "limit": limit if limit is not None else 1 << 62,
        }
        return self._rows(rows, values)

    def evidence(self, edge: int, *, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the relations behind an edge, those with the best scores first.

        Args:
            edge: Number of the edge.
            limit: Maximum number of rows.

        Returns:
            Rows of ``evidence`` with ``title``, ``shard``, ``input`` and ``row`` of the document.
        """
        rows = """
            SELECT evidence.*, title, shard, input, "row" FROM evidence JOIN documents USING (document)
            WHERE edge = $edge ORDER BY score DESC NULLS LAST, document, relation LIMIT $limit
        """
        return self._rows(rows, {"edge": edge, "limit": limit if limit is not None else 1 << 62})

    def explain(self, node: str, *, limit: int | None = None) -> dict[str, Any]:
        """Return why a node is what it is.

        Args:
            node: Id of the node.
            limit: Maximum number of forms, of merges and of mentions.

        Returns:
            The row of the node, its surface ``forms`` with counts and steps, its ``merges`` with their reasons, and
            its ``mentions``.
        """
        found = self.node(node)
        values = {"node": node, "limit": limit if limit is not None else 1 << 62}
        forms = """
            SELECT text, label, step, count(*) AS n, count(DISTINCT document) AS n_documents
            FROM mentions WHERE node = $node GROUP BY ALL ORDER BY n DESC, text, label, step LIMIT $limit
        """
        merges = """
            SELECT text, label, into_text, into_label, step, reason, score
            FROM merges WHERE node = $node ORDER BY list_position($steps, step), text, label LIMIT $limit
        """
        mentions = """
            SELECT * EXCLUDE (node) FROM mentions WHERE node = $node ORDER BY document, entity LIMIT $limit
        """
        return {
            "node": found,
            "forms": self._rows(forms, values),
            "merges": self._rows(merges, values | {"steps": list(STEPS)}),
            "mentions": self._rows(mentions, values),
        }

    def to_networkx(self, *, min_count: int = 1, min_score: float = 0.0) -> networkx.MultiDiGraph:
        """Convert the graph to a ``networkx.MultiDiGraph``.

        Args:
            min_count: Only edges with at least this number of relations.
            min_score: Only edges whose best score is at least this.

        Returns:
            Nodes have their id as key and the other columns as attributes; edges have their number as key. Empty
            values are left out, because GraphML and GEXF have none. With a minimum, nodes without edges are left out.
        """
        graph = load_library("networkx").MultiDiGraph()
        edges = self.query(
            "SELECT * FROM edges WHERE n >= ? AND coalesce(round(best_score::DOUBLE, 6), 1) >= ? ORDER BY edge",
            [min_count, min_score],
        )
        used = {end for edge in edges for end in (edge["head"], edge["tail"])}
        whole = min_count <= 1 and min_score <= 0
        for row in self.query("SELECT * FROM nodes ORDER BY node"):
            if whole or row["node"] in used:
                graph.add_node(row.pop("node"), **_without_nulls(row))
        for row in edges:
            graph.add_edge(row.pop("head"), row.pop("tail"), key=row.pop("edge"), **_without_nulls(row))
        return graph

    def _rows(self, sql: str, values: list[Any] | dict[str, Any]) -> list[dict[str, Any]]:
        # Each cursor is a connection of its own, so that threads do not disturb each other.
        with self._connection.cursor() as cursor:
            cursor.execute("USE graph")
            cursor.execute(sql, values)
            names = _distinct([column[0] for column in cursor.description or ()])
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _distinct(names: list[str]) -> list[str]:
    """Add a number to names that were there before."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        # A name with a number may be that of another column.
        found.append(name if name not in found else next(one for one in numbered if one not in (*found, *names)))
    return found


def _without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
