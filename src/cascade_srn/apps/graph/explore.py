"""Questions that the explorer asks of a graph: search, neighbourhoods, evidence and rankings.

Every answer is bounded, so it stays small however large the graph is. Filters are applied in the database.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.explore_sql import (
    BEST,
    EDGE,
    FOLD,
    INCIDENT,
    NO_FILTERS,
    NODE,
    Filters,
    choose_edges,
    count_mentions,
    count_related,
    in_years,
    min_score,
    one_of,
)
from cascade_srn.apps.graph.generic import COREFERENCE
from cascade_srn.apps.graph.store import DATABASE, read_record
from cascade_srn.apps.graph.tables import load_library
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    import duckdb

MAX_CENTRES, MAX_NEIGHBOURS, MAX_ROWS = 40, 200, 1000
# Edges between two neighbours that are added to a neighbourhood.
MAX_INNER_EDGES = 300
MAX_QUERY = 200
DIRECTIONS = ("in", "out")

Row = dict[str, Any]


class NotInGraph(DataError):
    """A node or edge that the graph does not have."""


class Explorer:
    """Read-only access to the graph in a folder. All methods may be called from several threads.

    Args:
        folder: A folder that ``graph build`` has written.

    Raises:
        DataError: The folder has no graph, or a damaged one.
        ConfigError: The extra ``graph`` is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        read_record(folder)
        self.name = Path(folder).resolve().name
        self._database = _connect(Path(folder) / DATABASE)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @cached_property
    def overview(self) -> Row:
        """Numbers of nodes, edges and documents, labels, years, and the best-connected nodes of each type."""
        (counts,) = self._query("""
            SELECT (SELECT count(*) FROM graph.nodes) AS n_nodes, (SELECT count(*) FROM graph.edges) AS n_edges,
                (SELECT count(*) FROM graph.evidence) AS n_evidence,
                (SELECT count(*) FROM graph.documents) AS n_documents""")
        types = self._query("SELECT label, count(*) AS n FROM graph.nodes GROUP BY label ORDER BY label")
        relations = self._query("""
            SELECT label, count(*) AS n, bool_or("symmetric") AS "symmetric" FROM graph.edges
            GROUP BY label ORDER BY label""")
        (years,) = self._query("""
            SELECT min(TRY_CAST(left(first_date, 4) AS INTEGER)) AS first,
                max(TRY_CAST(left(last_date, 4) AS INTEGER)) AS last FROM graph.edges""")
        best = self._query(f"""
            SELECT {NODE} FROM graph.nodes
            QUALIFY row_number() OVER (PARTITION BY label ORDER BY degree DESC, n_documents DESC, node) <= 4
            ORDER BY label, degree DESC, n_documents DESC, node""")
        span = None if years["first"] is None else years
        return {"name": self.name, **counts, "types": types, "relations": relations, "years": span, "best": best}

    def search(self, text: str, *, types: Sequence[str] = (), limit: int = 12) -> list[Row]:
        """Find nodes by name or by another form in the texts, best first.

        Every word of the query must occur. Names that are equal to the query come first, then names that start with
        it, then names with a word that starts with it. Nodes in more documents come first among these.

        Args:
            text: The query. Case, accents and hyphens do not matter.
            types: Entity types of the nodes; all if empty.
            limit: Most nodes to return.
        """
        self._check_limit(limit)
        (folded,) = self._query(f"SELECT {FOLD.format('$text')} AS query", text=text[:MAX_QUERY])
        query = folded["query"]
        words = {f"w{number}": word for number, word in enumerate(query.split())}
        if not words:
            return []
        contains = " AND ".join(f"contains(folded, ${name})" for name in words)
        return self._query(
            f"""
            WITH found AS MATERIALIZED (
                SELECT node, arg_min(text, (place, -n)) AS form, min(place) AS place FROM (
                    SELECT node, text, n, CASE WHEN folded = $query THEN 0 WHEN starts_with(folded, $query) THEN 1
                        WHEN contains(folded, ' ' || $query) THEN 2 ELSE 3 END AS place
                    FROM memory.main.forms WHERE {contains})
                GROUP BY node)
            SELECT {NODE}, form FROM found JOIN graph.nodes USING (node)
            WHERE {one_of("label", types)} ORDER BY place, n_documents DESC, degree DESC, node LIMIT {limit}""",
            query=query,
            **words,
        )

    def node(self, node: str) -> Row:
        """Return a node with its forms in the texts, the reasons of its merges, and its relations by type.

        Raises:
            NotInGraph: There is no such node.
        """
        (found,) = self._nodes([node])
        found["forms"] = self._query(
            """SELECT text, count(*) AS n, any_value(step) AS step FROM graph.mentions
            WHERE node = $node AND step IS DISTINCT FROM $coreference
            GROUP BY text ORDER BY n DESC, text LIMIT 20""",
            coreference=COREFERENCE,
            node=node,
        )
        found["votes"] = json.loads(found["votes"] or "{}")
        found["merges"] = self._query(
            """SELECT text, label, into_text, into_label, step, reason, score FROM graph.merges WHERE node = $node
            ORDER BY step, text LIMIT 50""",
            node=node,
        )
        found["relations"] = self._query(
            f"""WITH found AS MATERIALIZED ({INCIDENT})
            SELECT label, CASE WHEN "symmetric" THEN 'both' WHEN head = $node THEN 'out' ELSE 'in' END AS direction,
                count(*) AS n_edges, sum(n)::BIGINT AS n
            FROM found GROUP BY ALL ORDER BY ALL""",
            node=node,
        )
        return found

    def neighbourhood(self, centres: Sequence[str], filters: Filters = NO_FILTERS, *, limit: int = 25) -> Row:
        """Return nodes with their best neighbours, and the edges between all of them.

        Args:
            centres: Nodes whose neighbours are shown. They are always in the answer.
            filters: Which edges are shown. With years, counts and scores are those of the evidence of these years.
            limit: Most edges of each centre.

        Returns:
            ``nodes``, ``edges``, and ``centres``: for each centre the number of edges that pass the filters.

        Raises:
            NotInGraph: There is no such node.
        """
        self._check_limit(limit, MAX_NEIGHBOURS)
        self._check_labels(filters)
        centres = list(dict.fromkeys(centres))
        if len(centres) > MAX_CENTRES:
            raise ConfigError(f"{len(centres)} nodes are expanded", f"Expand at most {MAX_CENTRES}")
        self._nodes(centres)
        edges: dict[int, Row] = {}
        totals = []
        for centre in centres:
            found = self._incident(centre, filters, limit)
            totals.append({"node": centre, "n_edges": found[0]["total"] if found else 0, "n_shown": len(found)})
            edges |= {row["edge"]: _without(row, "total") for row in found}
        ends = dict.fromkeys(end for edge in edges.values() for end in (edge["head"], edge["tail"]))
        names = list(dict.fromkeys([*centres, *ends]))
        for row in self._inner_edges(names, filters):
            edges.setdefault(row["edge"], row)
        nodes = [_without(row, "votes") for row in self._nodes(names)]
        return {"centres": totals, "nodes": nodes, "edges": list(edges.values())}

    def edge(self, edge: int) -> Row:
        """Return an edge with the names and types of its ends.

        Raises:
            NotInGraph: There is no such edge.
        """
        found = self._query(f"SELECT {EDGE} FROM graph.edges WHERE edge = $edge", edge=edge)
        if not found:
            raise NotInGraph(f"the graph has no edge {edge}", "Use a number from a neighbourhood")
        return with_names(found, self._nodes([found[0]["head"], found[0]["tail"]]))[0]

    def evidence(self, edge: int, filters: Filters = NO_FILTERS, *, limit: int = 10, offset: int = 0) -> Row:
        """Return the sentences that an edge comes from, best first.

        Args:
            edge: Number of the edge.
            filters: Only the years and the minimum score apply.
            limit: Most sentences to return.
            offset: Sentences to leave out at the start.

        Returns:
            ``edge``, ``total``, and ``evidence``: sentences with offsets, scores, and number, id, title and place of
            the document.

        Raises:
            NotInGraph: There is no such edge.
        """
        self._check_limit(limit)
        require_range("offset", offset, 0)
        described = self.edge(edge)
        rows = self._query(
            f"""WITH found AS MATERIALIZED (SELECT * FROM graph.evidence WHERE edge = $edge),
            page AS MATERIALIZED (
                SELECT *, count(*) OVER () AS total FROM found
                WHERE {min_score("score")} AND {in_years(filters)}
                ORDER BY score DESC NULLS LAST, document, relation LIMIT {limit} OFFSET {offset})
            SELECT page.* EXCLUDE (edge), title, shard, input, "row"
            FROM page LEFT JOIN graph.documents USING (document)
            ORDER BY score DESC NULLS LAST, document, relation""",
            edge=edge,
            min_score=filters.min_score,
        )
        total = rows[0]["total"] if rows else 0
        self._add_labels(described, rows)
        return {"edge": described, "total": total, "evidence": [_without(row, "total") for row in rows]}

    def ranking(
        self,
        *,
        type: str | None = None,
        node: str | None = None,
        relation: str | None = None,
        direction: str = "in",
        filters: Filters = NO_FILTERS,
        limit: int = 25,
        offset: int = 0,
    ) -> Row:
        """Rank nodes by the number of documents.

        There are three rankings: all nodes (no ``node``), nodes in the same documents as a node (no ``relation``), and
        nodes that have a relation with a node, such as the methods that are used for a task.

        Args:
            type: Entity type of the ranked nodes; all if None.
            node: The node that they are related to.
            relation: Their relation with it.
            direction: "in" if the ranked nodes are the heads of the relation, "out" if they are the tails. It does not
                matter if the relation is symmetric.
            filters: The years, the minimum count and, with a relation, the minimum score. Labels are not used.
            limit: Most nodes to return.
            offset: Nodes to leave out at the start.

        Returns:
            ``total`` and ``rows``: nodes with ``n``, ``n_documents``, ``best_score`` and dates of what was counted.

        Raises:
            NotInGraph: There is no such node.
            ConfigError: An unknown type, relation or direction, or a relation without a node.
        """
        self._check_limit(limit)
        require_range("offset", offset, 0)
        self._check_labels(Filters(types=(type,) if type else (), relations=(relation,) if relation else ()))
        if direction not in DIRECTIONS:
            raise ConfigError(f"direction is {direction!r}", did_you_mean(direction, DIRECTIONS))
        if relation is not None and node is None:
            raise ConfigError("a relation is given without a node", "Give the node that it leads to or from")
        values: dict[str, Any] = {}
        if node is not None:
            self._nodes([node])
            values["node"] = node
        if relation is not None:
            values |= {"relation": relation, "min_score": filters.min_score}
            counted = count_related(direction, filters)
        else:
            counted = count_mentions(node is not None, filters)
        rows = self._query(
            f"""WITH {counted},
            ranked AS MATERIALIZED (
                SELECT nodes.node, name, nodes.label, counted.n, counted.n_documents, counted.best_score,
                    counted.first_date, counted.last_date, edge
                FROM counted JOIN graph.nodes AS nodes USING (node))
            SELECT *, count(*) OVER () AS total FROM ranked
            WHERE n >= $min_count AND {one_of("label", (type,) if type else ())}
            ORDER BY n_documents DESC, n DESC, name, node LIMIT {limit} OFFSET {offset}""",
            min_count=filters.min_count,
            **values,
        )
        total = rows[0]["total"] if rows else 0
        return {"total": total, "rows": [_without(row, "total") for row in rows]}

    def _add_labels(self, edge: Row, evidence: list[Row]) -> None:
        """Add the extracted types of head and tail, which may differ from those of the nodes."""
        mentions = self._query(
            """WITH own AS MATERIALIZED (SELECT * FROM graph.mentions WHERE node IN ($head, $tail))
            SELECT document, "start", "end", label FROM own WHERE list_contains($documents, document)""",
            head=edge["head"],
            tail=edge["tail"],
            documents=[row["document"] for row in evidence],
        )
        labels = {(row["document"], row["start"], row["end"]): row["label"] for row in mentions}
        for row in evidence:
            for end in ("head", "tail"):
                place = (row["document"], row[f"{end}_start"], row[f"{end}_end"])
                row[f"{end}_label"] = labels.get(place, edge[f"{end}_label"])

    def _incident(self, node: str, filters: Filters, limit: int) -> list[Row]:
        ends = "SELECT *, NULL AS type FROM chosen"
        if filters.types:
            ends = "SELECT chosen.*, nodes.label AS type FROM chosen JOIN graph.nodes AS nodes ON nodes.node = other"
        return self._query(
            f"""WITH found AS MATERIALIZED ({INCIDENT}), {choose_edges(filters, "other, ")},
            ends AS MATERIALIZED ({ends})
            SELECT * EXCLUDE (other, type), count(*) OVER () AS total FROM ends WHERE {one_of("type", filters.types)}
            ORDER BY {BEST} LIMIT {limit}""",
            node=node,
            min_score=filters.min_score,
            min_count=filters.min_count,
        )

    def _inner_edges(self, nodes: Sequence[str], filters: Filters) -> list[Row]:
        """Return the best edges between nodes."""
        if not nodes:
            return []
        values = {f"n{number}": node for number, node in enumerate(nodes)}
        names = ", ".join(f"${name}" for name in values)
        return self._query(
            f"""WITH near AS MATERIALIZED (SELECT {EDGE} FROM graph.edges WHERE head IN ({names})),
            found AS MATERIALIZED (SELECT * FROM near WHERE tail IN ({names})), {choose_edges(filters)}
            SELECT * FROM chosen ORDER BY {BEST} LIMIT {MAX_INNER_EDGES}""",
            min_score=filters.min_score,
            min_count=filters.min_count,
            **values,
        )

    def _nodes(self, nodes: Sequence[str]) -> list[Row]:
        """Return nodes in the given order."""
        values = {f"n{number}": node for number, node in enumerate(nodes)}
        if not values:
            return []
        names = ", ".join(f"${name}" for name in values)
        rows = self._query(f"SELECT {NODE}, votes FROM graph.nodes WHERE node IN ({names})", **values)
        found = {row["node"]: row for row in rows}
        for node in nodes:
            if node not in found:
                raise NotInGraph(f"the graph has no node {node!r}", "Search for its name")
        return [found[node] for node in nodes]

    def _check_labels(self, filters: Filters) -> None:
        for kind, given in (("types", filters.types), ("relations", filters.relations)):
            known = [row["label"] for row in self.overview[kind]]
            for label in given:
                if label not in known:
                    noun = "entity type" if kind == "types" else "relation"
                    raise ConfigError(f"the graph has no {noun} {label!r}", did_you_mean(label, known))

    @staticmethod
    def _check_limit(limit: int, most: int = MAX_ROWS) -> None:
        require_range("limit", limit, 1, most)

    def _query(self, sql: str, **values: Any) -> list[Row]:
        # A cursor per query, because a connection must not be used by two threads at the same time.
        with self._database.cursor() as cursor:
            found = cursor.execute(sql, values) if values else cursor.execute(sql)
            names = [column[0] for column in found.description]
            return [dict(zip(names, map(_round, row), strict=True)) for row in found.fetchall()]


def _connect(path: Path) -> "duckdb.DuckDBPyConnection":
    """Open a graph, and collect the forms of all names in memory for the search."""
    duckdb = load_library("duckdb")
    database = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    try:
        database.execute(f"ATTACH '{str(path).replace(chr(39), 2 * chr(39))}' AS graph (READ_ONLY)")
        database.execute(f"""
            CREATE TABLE memory.main.forms AS
            SELECT node, text, {FOLD.format("text")} AS folded, sum(n)::BIGINT AS n FROM (
                SELECT node, text, count(*) AS n FROM graph.mentions
                WHERE step IS DISTINCT FROM '{COREFERENCE}' GROUP BY ALL
                UNION ALL SELECT node, name AS text, 0 AS n FROM graph.nodes)
            GROUP BY ALL ORDER BY folded, node""")
    except duckdb.Error as error:
        database.close()
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} cannot be opened ({reason})", "Build the graph again") from error
    return database


def _round(value: Any) -> Any:
    """Remove the digits that single precision adds to a score."""
    return round(value, 6) if isinstance(value, float) else value


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def with_names(edges: Iterable[Row], nodes: Iterable[Row]) -> list[Row]:
    """Add the names and types of the ends to edges."""
    by_node = {node["node"]: node for node in nodes}
    return [
        {
            **edge,
            **{f"{end}_name": by_node[edge[end]]["name"] for end in ("head", "tail")},
            **{f"{end}_label": by_node[edge[end]]["label"] for end in ("head", "tail")},
        }
        for edge in edges
    ]
