"""Change the tables of a graph where documents come and go, and leave all other rows.

Some documents are placed again: the new ones, and those with a name that now leads to another node. Their rows are
replaced in the old tables, and so are the nodes and edges that have them. All other rows only get new numbers.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.edges import count_rows, find_relations, place_mentions
from cascade_srn.apps.graph.incremental import DocumentChange, ResolutionChange
from cascade_srn.apps.graph.load import Extracted
from cascade_srn.apps.graph.reader import FORMS
from cascade_srn.apps.graph.resolve import Texts
from cascade_srn.apps.graph.settings import GraphSettings
from cascade_srn.apps.graph.tables import INDEXES, STEPS, load_library, splice, table_schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow

_GONE = -1


@dataclass(frozen=True)
class Earlier:
    """A graph before a change.

    Attributes:
        record: Content of ``graph.json``.
        tables: Tables of the graph and of its state.
        extracted: The documents before the change.
        numbers: New number of each of them; -1 if it is gone.
        texts: What the texts of all documents say after the change.
        difference: What the documents that come and go change.
        local: Table ``local`` of the state, with the new numbers of documents.
        definitions: Table ``definitions`` of the state after the change.
    """

    record: Mapping[str, Any]
    tables: Mapping[str, pyarrow.Table]
    extracted: Extracted
    numbers: Any
    texts: Texts
    difference: DocumentChange
    local: pyarrow.Table
    definitions: pyarrow.Table


class Patch:
    """Tables of a graph after a change.

    Args:
        earlier: The graph before the change.
        change: The names that are resolved again.
        extracted: The documents after the change.
    """

    def __init__(self, earlier: Earlier, change: ResolutionChange, extracted: Extracted) -> None:
        np, pc = load_library("numpy"), load_library("pyarrow.compute")
        self._earlier, self._extracted = earlier, extracted
        old = earlier.tables
        self._ids = old["nodes"]["node"].to_pylist()
        counts = old["nodes"]["n_mentions"].to_numpy()
        self._starts = np.cumsum(counts) - counts
        self._mention_nodes = np.repeat(np.arange(len(counts)), counts)
        roots = old["roots"]
        # Roots of names that are resolved again, with the ids of their nodes.
        chosen = roots.filter(pc.is_in(roots["root"], _array(sorted(change.old_roots), "int64")))
        self._own = dict(zip(chosen["root"].to_pylist(), chosen["node"].to_pylist(), strict=True))
        self._own_slugs = set(chosen["slug"].to_pylist())
        self._renamed: dict[str, str] = {}
        # Documents, in the new order, that are placed again.
        self._again = np.ones(extracted.tables["documents"].num_rows, dtype=bool)
        self._again[earlier.numbers[earlier.numbers >= 0]] = False
        surfaces, local = change.tables["surfaces"], change.tables["local"]
        moved = np.array(sorted(change.moved), dtype=np.int64)
        texts = surfaces.filter(_mask(np.isin(surfaces["key"].to_numpy(), moved)))["text"]
        entities = extracted.tables["entities"]
        found = pc.is_in(entities["text"], texts.combine_chunks())
        self._again[entities.filter(found)["document"].to_numpy()] = True
        before, after = (set(zip(*(c.to_pylist() for c in t.columns), strict=True)) for t in (earlier.local, local))
        moved_keys = set(moved.tolist())
        again = {document for document, _, other in after if other in moved_keys}
        again |= {document for document, _, _ in before ^ after}
        self._again[sorted(again)] = True

    def scope(self) -> dict[str, pyarrow.Table]:
        """Return the tables of the documents that are placed again."""
        return _select(self._extracted, self._again)

    def add_voters(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make ``voters``: ``placed`` and the mentions of other documents that vote for the nodes of changed names."""
        np, pa = load_library("numpy"), load_library("pyarrow")
        mentions = self._earlier.tables["mentions"]
        # A name outside these documents has the same root as before.
        own = [(root, _find(self._ids, node)) for root, node in self._own.items()]
        rows = self._rows_of(at for _, at in own)
        root_of = np.full(len(self._ids), _GONE)
        root_of[[at for _, at in own]] = [root for root, _ in own]
        documents = self._earlier.numbers[mentions["document"].to_numpy()[rows]]
        rows = rows[(documents != _GONE) & ~self._again[documents]]
        standing = mentions.select(["label", "score", "step"]).take(pa.array(rows))
        standing = standing.append_column("root", pa.array(root_of[self._mention_nodes[rows]], pa.int64()))
        connection.register("standing", standing)
        connection.execute("""
            CREATE VIEW voters AS SELECT root, label, score, step FROM placed
            UNION ALL SELECT root, label, score, step FROM standing
        """)

    def find_slugs(self, connection: duckdb.DuckDBPyConnection, slugs: set[str]) -> list[tuple[int, str, str, str]]:
        """Return number of the root, name, label and key of the other nodes whose ids are decided again."""
        pc = load_library("pyarrow.compute")
        roots = self._earlier.tables["roots"]
        wanted = pc.and_(
            pc.is_in(roots["slug"], _array(sorted(slugs | self._own_slugs), "string")),
            pc.invert(pc.is_in(roots["root"], _array(list(self._own), "int64"))),
        )
        connection.register("given_roots", roots.filter(wanted))
        connection.register("given_nodes", self._earlier.tables["nodes"].select(["node", "name", "label"]))
        rows: list[tuple[int, str, str, str]] = connection.execute("""
            SELECT r.root, n.name, n.label, keys.text FROM given_roots r JOIN given_nodes n USING (node)
            JOIN keys ON keys.key = r.root
        """).fetchall()
        return rows

    def rename(self, own: pyarrow.Table, others: Mapping[int, str]) -> tuple[pyarrow.Table, bool]:
        """Set the ids of nodes.

        Args:
            own: Roots of the names that are resolved again.
            others: Ids of other nodes by root.

        Returns:
            The roots of all nodes, and whether more documents have to be placed again.
        """
        pa, pc, np = load_library("pyarrow"), load_library("pyarrow.compute"), load_library("numpy")
        roots = self._earlier.tables["roots"]
        near = roots.filter(pc.is_in(roots["root"], _array(sorted(others), "int64")))
        rows = list(zip(*(column.to_pylist() for column in near.columns), strict=True))
        self._renamed = {node: others[root] for root, node, _ in rows if others[root] != node}
        gone = pc.is_in(roots["root"], _array([*self._own, *others], "int64"))
        renamed = [[row[0] for row in rows], [others[row[0]] for row in rows], [row[2] for row in rows]]
        arrays = [pa.array(values, kind) for values, kind in zip(renamed, own.schema.types, strict=True)]
        kept = roots.filter(pc.invert(gone)).cast(own.schema)
        new_ids = dict(zip(own["root"].to_pylist(), own["node"].to_pylist(), strict=True))
        moved = [node for root, node in self._own.items() if new_ids.get(root) != node]
        rows_moved = self._rows_of(_find(self._ids, node) for node in (*moved, *self._renamed))
        documents = self._earlier.numbers[self._earlier.tables["mentions"]["document"].to_numpy()[rows_moved]]
        documents = np.unique(documents[documents != _GONE])
        is_more = not bool(self._again[documents].all())
        self._again[documents] = True
        return pa.concat_tables([kept, pa.table(arrays, schema=own.schema), own]), is_more

    def add_standing(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Add the relations of other documents to ``single`` where an edge changes."""
        np, pa = load_library("numpy"), load_library("pyarrow")
        old, numbers = self._earlier.tables, self._earlier.numbers
        self._gone = (numbers == _GONE) | self._again[numbers]
        evidence = old["evidence"].select(["edge", "document", "score"])
        is_gone = self._gone[evidence["document"].to_numpy()]
        edges = evidence["edge"].to_numpy()
        touched = np.zeros(old["edges"].num_rows, dtype=bool)
        touched[edges[is_gone]] = True
        connection.register("old_edges", old["edges"].select(["edge", "head", "label", "tail", "symmetric"]))
        found = connection.execute("""
            WITH ends AS (SELECT DISTINCT head, label, tail FROM single)
            SELECT edge FROM old_edges SEMI JOIN ends USING (head, label, tail)
        """).fetchnumpy()["edge"]
        touched[found] = True
        self._touched = touched
        rows = evidence.filter(_mask(touched[edges] & ~is_gone))
        rows = rows.set_column(1, "document", pa.array(numbers[rows["document"].to_numpy()], pa.int64()))
        connection.register("standing_evidence", rows)
        connection.execute("""
            INSERT INTO single BY NAME SELECT document, head, label, tail, "symmetric", score
            FROM standing_evidence JOIN old_edges USING (edge)
        """)

    def merge(
        self,
        connection: duckdb.DuckDBPyConnection,
        new: Mapping[str, pyarrow.Table],
        own: pyarrow.Table,
        merges: pyarrow.Table,
    ) -> dict[str, pyarrow.Table]:
        """Return the tables of the graph.

        Args:
            connection: The database with ``edges`` and ``old_edges``.
            new: Tables of the documents that are placed again, and the edges that change.
            own: Id, name, label and votes of the nodes of names that are resolved again.
            merges: The merges of these.
        """
        np, pa = load_library("numpy"), load_library("pyarrow")
        old, numbers = self._earlier.tables, self._earlier.numbers
        self.new = {name: table.cast(table_schema(name)) for name, table in new.items()}
        # Nodes: unchanged ones, renamed ones, and those of names that are resolved again.
        described = old["nodes"].select(own.column_names)
        is_kept = np.ones(len(self._ids), dtype=bool)
        is_kept[[_find(self._ids, node) for node in (*self._own.values(), *self._renamed)]] = False
        renamed = described.take(_array([_find(self._ids, node) for node in self._renamed], "int64"))
        renamed = renamed.set_column(0, "node", _array(list(self._renamed.values()), "string"))
        described = pa.concat_tables([described.filter(_mask(is_kept)), renamed, own]).combine_chunks()
        ids = described["node"].to_pylist()
        order = sorted(range(len(ids)), key=ids.__getitem__)
        new_ids = [ids[at] for at in order]
        old_rank = np.full(len(self._ids), _GONE, dtype=np.int64)
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        old_rank[is_kept] = number[: is_kept.sum()]
        for node in self._own.values():
            old_rank[_find(self._ids, node)] = _find(new_ids, node)

        def ranks(column: Any) -> Any:
            return np.array([_find(new_ids, node) for node in column.to_pylist()], dtype=np.int64)

        tables = {"nodes": described.take(_array(order, "int64"))}
        rows, added = old["mentions"], self.new["mentions"]
        documents = rows["document"].to_numpy()
        keys: list[tuple[str | None, Any, Any]] = [
            (None, old_rank[self._mention_nodes], ranks(added["node"])),
            ("document", numbers[documents], added["document"].to_numpy()),
        ]
        tables["mentions"] = splice(rows, ~self._gone[documents], added, keys)
        tables["edges"], self.edge_numbers, new_numbers = self._merge_edges(ranks, old_rank, connection)
        self.new["evidence"] = self.new["evidence"].set_column(
            0, "edge", pa.array(new_numbers[self.new["evidence"]["edge"].to_numpy()], pa.int64())
        )
        rows, added = old["evidence"], self.new["evidence"]
        documents = rows["document"].to_numpy()
        keys = [
            ("edge", self.edge_numbers[rows["edge"].to_numpy()], added["edge"].to_numpy()),
            ("document", numbers[documents], added["document"].to_numpy()),
        ]
        tables["evidence"] = splice(rows, ~self._gone[documents], added, keys)
        tables["merges"] = self._merge_merges(merges)
        tables["documents"] = self._extracted.tables["documents"].select(table_schema("documents").names)
        return tables

    def _merge_edges(self, ranks: Any, old_rank: Any, connection: duckdb.DuckDBPyConnection) -> Any:
        """Return the table of edges, and the new numbers of old edges and of those that change."""
        np, pa = load_library("numpy"), load_library("pyarrow")
        old, new, keep = self._earlier.tables["edges"], self.new["edges"], ~self._touched
        n_old, ids = old.num_rows, self._earlier.tables["nodes"]["node"].combine_chunks()
        ends = [(old_rank[_numbers(old[end], ids)], ranks(new[end])) for end in ("head", "tail")]
        labels = _array(sorted({*old["label"].unique().to_pylist(), *new["label"].unique().to_pylist()}), "string")
        label = _numbers(old["label"], labels), _numbers(new["label"], labels)
        rows = np.concatenate([np.flatnonzero(keep), n_old + np.arange(new.num_rows)])
        keys = [np.concatenate(pair)[rows] for pair in (ends[0], label, ends[1])]
        rows = rows[np.lexsort(keys[::-1])] if len(rows) else rows
        table = pa.concat_tables([old, new]).combine_chunks().take(pa.array(rows))
        table = table.set_column(0, "edge", pa.array(np.arange(len(rows)), pa.int64()))
        numbers = np.full(n_old + new.num_rows, _GONE)
        numbers[rows] = np.arange(len(rows))
        before, after = numbers[:n_old], numbers[n_old:]
        pairs = connection.execute("""
            SELECT o.edge AS old, e.edge AS new FROM old_edges o JOIN edges e USING (head, label, tail)
        """).fetchnumpy()
        before[pairs["old"]] = after[pairs["new"]]
        return table, before, after

    def _merge_merges(self, new: pyarrow.Table) -> pyarrow.Table:
        """Return the table of merges, from those of the nodes of names that are resolved again."""
        pa, pc = load_library("pyarrow"), load_library("pyarrow.compute")
        old = self._earlier.tables["merges"]
        renamed = old.filter(pc.is_in(old["node"], _array(list(self._renamed), "string")))
        ids = [self._renamed[node] for node in renamed["node"].to_pylist()]
        renamed = renamed.set_column(0, "node", _array(ids, "string"))
        gone = pc.is_in(old["node"], _array([*self._own.values(), *self._renamed], "string"))
        self.new["merges"] = pa.concat_tables([renamed, new])
        table = pa.concat_tables([old.filter(pc.invert(gone)), self.new["merges"]]).combine_chunks()
        nodes = table["node"].to_pylist()
        # All parts are sorted, and no node is in two of them.
        return table.take(_array(sorted(range(len(nodes)), key=nodes.__getitem__), "int64"))

    def count_dropped(self, dropped: Mapping[str, int], settings: GraphSettings, symmetric: set[str]) -> dict[str, int]:
        """Return what is left out of the whole graph, from what is left out of the documents that are placed again."""
        connection = load_library("duckdb").connect()
        try:
            for name, table in _select(self._earlier.extracted, self._gone).items():
                connection.register(name, table)
            for name in ("surfaces", "keys", "local"):
                connection.register(name, self._earlier.tables[name])
            connection.register("nodes", self._earlier.tables["roots"])
            place_mentions(connection)
            before = find_relations(connection, settings, symmetric)
        finally:
            connection.close()
        known = Counter(self._earlier.record["dropped"])
        return {reason: known[reason] - before.get(reason, 0) + count for reason, count in dropped.items()}

    def write_database(self, source: Path, target: Path, tables: Mapping[str, pyarrow.Table], *, linked: bool) -> bool:
        """Write a database with the new tables: a copy of the old one, in which some rows are replaced.

        Args:
            source: The old database.
            target: The new one.
            tables: The new tables.
            linked: Whether nodes are linked to a vocabulary, so that all of them may change.

        Returns:
            Whether it was written. A database that is damaged or was changed by others cannot be used.
        """
        np, pa, pc = load_library("numpy"), load_library("pyarrow"), load_library("pyarrow.compute")
        shutil.copyfile(source, target)
        old, numbers = self._earlier.tables, self._earlier.numbers
        # Rows of an indexed column are not changed in place.
        moving = [(table, column) for table, column in INDEXES if column in ("edge", "document")]
        connection = _open(target, self._earlier.record["counts"], [f"{table}_{column}" for table, column in moving])
        if connection is None:
            target.unlink()
            return False
        try:
            places = np.arange(len(numbers))
            connection.register("document_map", pa.table({"old": places, "new": numbers, "gone": self._gone}))
            edges = np.arange(len(self.edge_numbers))
            moved = pa.table({"old": edges, "new": self.edge_numbers, "gone": self._touched})
            connection.register("edge_map", moved)
            gone_rows = old["mentions"]["node"].filter(_mask(self._gone[old["mentions"]["document"].to_numpy()]))
            ends = [old["edges"].filter(_mask(self._touched)), self.new["edges"]]
            nodes = {*gone_rows.to_pylist(), *self.new["mentions"]["node"].to_pylist()}
            nodes |= {node for table in ends for end in ("head", "tail") for node in table[end].to_pylist()}
            nodes |= {*self._own.values(), *self._renamed, *self._renamed.values()}
            connection.register("changed", pa.table({"node": _array(sorted(nodes), "string")}))
            changed = tables["nodes"]
            if not linked:
                changed = changed.filter(pc.is_in(changed["node"], _array(sorted(nodes), "string")))
            new_documents = np.ones(tables["documents"].num_rows, dtype=bool)
            new_documents[numbers[numbers != _GONE]] = False
            flags = tables["edges"]["flag"]
            flagged = tables["edges"].filter(pc.not_equal(flags, "")).select(["edge", "flag"])
            merged = _array([*self._own.values(), *self._renamed], "string")
            connection.register("flagged", flagged)
            connection.register("merged", pa.table({"node": merged}))
            new = self.new | {
                "nodes": changed,
                "links": tables["links"],
                "documents": tables["documents"].filter(_mask(new_documents)),
                "edges": tables["edges"].filter(_mask(~np.isin(edges_of(tables), self.edge_numbers[~self._touched]))),
            }
            connection.execute("BEGIN")
            for statement in _PATCHES:
                connection.execute(statement.replace("<nodes>", "" if linked else "WHERE node IN (FROM changed)"))
            for name, table in new.items():
                schema = table_schema(name)
                connection.register("given", table.select(schema.names).cast(schema))
                connection.execute(f"INSERT INTO {name} SELECT * FROM given")
            connection.execute("""
                UPDATE edges SET flag = new.flag FROM (
                    SELECT e.edge, coalesce(f.flag, '') AS flag FROM edges e LEFT JOIN flagged f USING (edge)
                    WHERE e.flag <> coalesce(f.flag, '')) AS new
                WHERE new.edge = edges.edge
            """)
            connection.execute(f"INSERT INTO forms {FORMS.format(where='node IN (FROM changed)')}")
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")  # an index needs changes in their place
            for table, column in moving:
                connection.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
            connection.execute("CHECKPOINT")
        finally:
            connection.close()
        return True

    def _rows_of(self, nodes: Iterable[int]) -> Any:
        """Return the rows of the old mentions of some nodes."""
        np = load_library("numpy")
        counts = self._earlier.tables["nodes"]["n_mentions"].to_numpy()
        parts = [np.arange(self._starts[at], self._starts[at] + counts[at]) for at in nodes]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


_PATCHES = (
    "DELETE FROM mentions WHERE document IN (SELECT old FROM document_map WHERE gone)",
    "UPDATE mentions SET document = new FROM document_map WHERE old = document AND new <> old",
    "DELETE FROM evidence WHERE document IN (SELECT old FROM document_map WHERE gone)",
    "UPDATE evidence SET document = new FROM document_map WHERE old = document AND new <> old",
    "UPDATE evidence SET edge = new FROM edge_map WHERE old = edge AND new <> old",
    "DELETE FROM documents WHERE document IN (SELECT old FROM document_map WHERE new < 0)",
    "UPDATE documents SET document = new FROM document_map WHERE old = document AND new <> old",
    "DELETE FROM edges WHERE edge IN (SELECT old FROM edge_map WHERE gone)",
    "UPDATE edges SET edge = new FROM edge_map WHERE old = edge AND new <> old",
    "DELETE FROM nodes <nodes>",
    "DELETE FROM links",
    "DELETE FROM merges WHERE node IN (FROM merged)",
    "DELETE FROM forms WHERE node IN (FROM changed)",
)


def _open(path: Path, counts: Mapping[str, int], indexes: Iterable[str]) -> duckdb.DuckDBPyConnection | None:
    """Open a database and drop indexes; None if its tables do not have these numbers of rows."""
    duckdb, connection = load_library("duckdb"), None
    try:
        connection = duckdb.connect(str(path))
        for index in indexes:
            connection.execute(f"DROP INDEX {index}")
        if all(count_rows(connection, table) == count for table, count in counts.items()):
            return connection
    except duckdb.Error:
        pass  # the caller writes a new one
    if connection is not None:
        connection.close()
    return None


def make_merges(rows: Iterable[tuple[Any, ...]]) -> pyarrow.Table:
    """Make the table of merges, in the order of nodes and steps."""
    pa, schema = load_library("pyarrow"), table_schema("merges")
    ordered = sorted(set(rows), key=lambda row: (row[0], STEPS.index(row[5]), *row[1:]))
    columns = list(zip(*ordered, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.table(arrays, schema=schema)


def _find(ids: Sequence[str], node: str) -> int:
    """Return the place of an id among sorted ones, or -1."""
    at = bisect_left(ids, node)
    return at if at < len(ids) and ids[at] == node else _GONE


def edges_of(tables: Mapping[str, pyarrow.Table]) -> Any:
    """Return the numbers of the edges."""
    return tables["edges"]["edge"].to_numpy()


def _select(extracted: Extracted, chosen: Any) -> dict[str, pyarrow.Table]:
    """Return the tables of some documents."""
    tables = extracted.tables
    return {name: table.filter(_mask(chosen[table["document"].to_numpy()])) for name, table in tables.items()}


def _numbers(column: Any, known: Any) -> Any:
    """Return the positions of values among known ones."""
    np = load_library("numpy")
    return load_library("pyarrow.compute").index_in(column, known).to_numpy().astype(np.int64)


def _mask(values: Any) -> Any:
    return load_library("pyarrow").array(values)


def _array(values: list[Any], kind: str) -> Any:
    pa = load_library("pyarrow")
    return pa.array(values, pa.type_for_alias(kind))
