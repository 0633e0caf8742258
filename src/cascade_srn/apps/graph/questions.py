"""Questions to a graph: neighbours, triples, paths, trends, rankings and an overview.

All of them are answered by the database through its indexes. ``cascade-srn graph``, the explorer and the server for
agents use the same functions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.filters import (
    BEST,
    COUNTS,
    DATES,
    EDGE,
    INCIDENT,
    NO_FILTERS,
    NODE,
    YEAR,
    Filters,
    choose_edges,
    count_mentions,
    count_related,
    edges_of,
    one_of,
    one_of_nodes,
    passes,
)
from cascade_srn.apps.graph.generic import COREFERENCE
from cascade_srn.apps.graph.paths import find_paths
from cascade_srn.apps.graph.reader import NO_LIMIT, GraphReader, Row
from cascade_srn.apps.graph.tables import load_library
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    import networkx

# Edges between two neighbours that are added to a neighbourhood.
MAX_INNER_EDGES = 300
# Nodes that communities are found among, and those of them that an overview shows.
N_LARGE, N_SHOWN = 1000, 120
# Edges among which triples are looked for first.
N_BEST = 2000
DIRECTIONS = ("in", "out")


class Graph(GraphReader):
    """A graph that is open for reading. Make one with :func:`cascade_srn.apps.graph.open_graph`.

    Rows are dictionaries with the columns of their table. Nodes are given by their id or by a name. Methods may be
    called by several threads.

    Attributes:
        folder: The folder.
        record: Content of ``graph.json``: settings, counts, model checksums.
    """

    @cached_property
    def overview(self) -> Row:
        """Numbers of nodes, edges and documents, labels, years, and the best-connected nodes of each type."""
        counts = {f"n_{name}": self.record["counts"][name] for name in ("nodes", "edges", "evidence", "documents")}
        best = self.select(f"""
            SELECT {NODE} FROM nodes
            QUALIFY row_number() OVER (PARTITION BY label ORDER BY degree DESC, n_documents DESC, node) <= 4
            ORDER BY label, degree DESC, n_documents DESC, node""")
        labels = {"types": self.types, "relations": self.relations, "years": self.years}
        return {"name": self.folder.resolve().name, **counts, **labels, "best": best}

    @cached_property
    def communities(self) -> Row:
        """The best-connected nodes of the whole graph, the edges between them, and their communities.

        Communities are found among the 1,000 nodes with the most edges by the method of Louvain, with the number of
        documents as weights. Each other node counts for the community that most of its relations lead to.

        Returns:
            ``nodes`` with the number of their ``community``, ``edges``, and ``communities``: ``n_nodes`` and the names
            of the best-connected nodes, largest first.
        """
        nodes = self.select(f"SELECT {NODE} FROM nodes WHERE degree > 0 ORDER BY degree DESC, node LIMIT {N_LARGE}")
        ids = [row["node"] for row in nodes]
        edges = self.select(
            """WITH large AS MATERIALIZED (SELECT unnest($ids) AS node)
            SELECT head, tail, sum(n_documents)::BIGINT AS weight FROM edges
            WHERE head IN (FROM large) AND tail IN (FROM large) AND head <> tail GROUP BY ALL ORDER BY ALL""",
            ids=ids,
        )
        library = load_library("networkx")
        large = library.Graph()
        large.add_nodes_from(ids)
        for row in edges:
            before = large.get_edge_data(row["head"], row["tail"], {"weight": 0})["weight"]
            large.add_edge(row["head"], row["tail"], weight=before + row["weight"])
        groups = [sorted(group, key=ids.index) for group in library.community.louvain_communities(large, seed=0)]
        sizes = self._community_sizes(groups)
        order = sorted(range(len(groups)), key=lambda group: (-sizes[group], groups[group]))
        community = {node: number for number, group in enumerate(order) for node in groups[group]}
        names = {row["node"]: row["name"] for row in nodes}
        described = [
            {"community": number, "n_nodes": sizes[group], "nodes": groups[group][:6]}
            | {"names": [names[node] for node in groups[group][:6]]}
            for number, group in enumerate(order)
        ]
        shown = [row | {"community": community[row["node"]]} for row in nodes[:N_SHOWN]]
        return {"nodes": shown, "edges": self._inner_edges(ids[:N_SHOWN], NO_FILTERS), "communities": described}

    def _community_sizes(self, groups: Sequence[Sequence[str]]) -> Counter[int]:
        members = [(node, number) for number, group in enumerate(groups) for node in group]
        rows = self.select(
            """WITH known AS MATERIALIZED (SELECT unnest($ids) AS node, unnest($numbers) AS community),
            votes AS (
                SELECT other, community, sum(n) AS votes FROM (
                    SELECT head AS node, tail AS other, n FROM edges UNION ALL SELECT tail, head, n FROM edges)
                JOIN known USING (node) WHERE other NOT IN (SELECT node FROM known) GROUP BY ALL),
            chosen AS (SELECT other, arg_max(community, (votes, -community)) AS community FROM votes GROUP BY other)
            SELECT community, count(*) AS n FROM chosen GROUP BY community""",
            ids=[node for node, _ in members],
            numbers=[number for _, number in members],
        )
        return Counter(dict(enumerate(map(len, groups)))) + Counter({row["community"]: row["n"] for row in rows})

    def describe(self, node: str) -> Row:
        """Return a node with its forms in the texts, the reasons of its merges, and its relations by type.

        Args:
            node: Id of the node.

        Raises:
            NotInGraph: There is no such node.
        """
        found = self.explain(node, limit=50)
        forms: dict[str, Row] = {}
        for row in found["forms"]:
            if row["step"] != COREFERENCE:
                form = forms.setdefault(row["text"], {"text": row["text"], "n": 0, "step": row["step"]})
                form["n"] += row["n"]
        relations = self.select(
            f"""WITH found AS MATERIALIZED ({INCIDENT})
            SELECT label, CASE WHEN "symmetric" THEN 'both' WHEN head = $node THEN 'out' ELSE 'in' END AS direction,
                count(*) AS n_edges, sum(n)::BIGINT AS n
            FROM found GROUP BY ALL ORDER BY ALL""",
            node=node,
        )
        described: Row = found["node"]
        return described | {
            "forms": sorted(forms.values(), key=lambda row: (-row["n"], row["text"]))[:20],
            "votes": json.loads(described["votes"] or "{}"),
            "merges": found["merges"],
            "relations": relations,
            **({"links": found["links"]} if self.has_vocabulary else {}),
        }

    def neighbours(
        self, node: str, filters: Filters = NO_FILTERS, *, limit: int | None = None, evidence: int = 0
    ) -> list[Row]:
        """Return the edges of a node with the node at their other end, those in the most documents first.

        Args:
            node: Id or name of the node.
            filters: Which edges are returned. With years, counts and scores are those of the evidence of these years.
            limit: Most edges to return; None for all.
            evidence: Sentences of each edge, best first, as ``evidence``.

        Returns:
            Rows of ``edges`` with the names and types of both ends, with ``neighbour``, ``neighbour_name`` and
            ``neighbour_label``, and with ``total``, the number of edges without the limit.

        Raises:
            NotInGraph: There is no such node.
        """
        node = self.resolve(node)
        self.check_labels(filters)
        rows = self.with_names([without(row, "node") for row in self._incident([node], filters, limit)])
        for row in rows:
            end = "tail" if row["head"] == node else "head"
            row |= {"neighbour": row[end], "neighbour_name": row[f"{end}_name"], "neighbour_label": row[f"{end}_label"]}
        return self.with_evidence(rows, evidence, filters)

    def neighbourhood(self, centres: Sequence[str], filters: Filters = NO_FILTERS, *, limit: int = 25) -> Row:
        """Return nodes with their best neighbours, and the edges between all of them.

        Args:
            centres: Ids of nodes whose neighbours are shown. They are always in the answer.
            filters: Which edges are shown. With years, counts and scores are those of the evidence of these years.
            limit: Most edges of each centre.

        Returns:
            ``nodes``, ``edges``, and ``centres``: for each centre the number of edges that pass the filters.

        Raises:
            NotInGraph: There is no such node.
        """
        self.check_labels(filters)
        centres = list(dict.fromkeys(centres))
        self.get_nodes(centres)
        by_centre: dict[str, list[Row]] = {centre: [] for centre in centres}
        for row in self._incident(centres, filters, limit):
            by_centre[row["node"]].append(row)
        edges: dict[int, Row] = {}
        totals = []
        for centre, found in by_centre.items():
            totals.append({"node": centre, "n_edges": found[0]["total"] if found else 0, "n_shown": len(found)})
            edges |= {row["edge"]: without(row, "node", "total") for row in found}
        ends = dict.fromkeys(end for edge in edges.values() for end in (edge["head"], edge["tail"]))
        names = list(dict.fromkeys([*centres, *ends]))
        for row in self._inner_edges(names, filters):
            edges.setdefault(row["edge"], row)
        nodes = [without(row, "votes") for row in self.get_nodes(names)]
        return {"centres": totals, "nodes": nodes, "edges": list(edges.values())}

    def triples(
        self,
        head: str | None = None,
        tail: str | None = None,
        filters: Filters = NO_FILTERS,
        *,
        head_type: str | None = None,
        tail_type: str | None = None,
        by_year: bool = False,
        limit: int | None = 30,
        evidence: int = 0,
    ) -> list[Row]:
        """Return edges by their ends and relation, those in the most documents first.

        A symmetric relation is found from both ends, and is turned so that its ends are those asked for.

        Args:
            head: Id or name of the head; a name with ``*`` stands for all nodes that match; an entity type, written as
                in the schema, for all nodes of the type; None for any node.
            tail: The same for the tail.
            filters: Relations, minimum score and count, and years. Types are not used.
            head_type: Entity type of the head; None for any.
            tail_type: Entity type of the tail; None for any.
            by_year: Count each year by itself. Rows have ``year``, and the limit applies to each year.
            limit: Most rows to return; None for all.
            evidence: Sentences of each row, best first, as ``evidence``.

        Returns:
            Rows of ``edges`` with the names and types of both ends.

        Raises:
            NotInGraph: No node has the name, or several have.
            ConfigError: The graph has no such type or relation.
            DataError: Years are asked for, and no document has one.
        """
        if by_year or filters.years:
            self._check_years()
        self.check_labels(filters)
        values: dict[str, Any] = {"min_score": filters.min_score, "min_count": filters.min_count}
        types = {row["label"] for row in self.types}
        ends = {
            end: (None, name) if kind is None and name in types else (name, kind)
            for end, name, kind in (("head", head, head_type), ("tail", tail, tail_type))
        }
        conditions = {end: self._match(end, *given, values) for end, given in ends.items()}
        sets = {end: sql for end, sql in conditions.items() if sql.startswith("SELECT")}
        conditions |= {end: f"{{}} IN (FROM {end}s)" for end in sets}
        given = "".join(f"{end}s AS MATERIALIZED ({sql}), " for end, sql in sets.items())
        known = [end for end in ends if conditions[end] == f"{{}} = ${end}"]
        edges = f"SELECT {EDGE} FROM edges"
        nears = [edges]
        if known:  # by the index of each end
            nears = [f"{edges} WHERE head = ${known[0]} UNION {edges} WHERE tail = ${known[0]}"]
        elif limit is not None and not by_year and filters.years is None and not any(name for name, _ in ends.values()):
            # The answer is often among the best edges, whose ends are looked up faster than those of all.
            nears = [f"{edges} WHERE {passes(filters)} ORDER BY {BEST} LIMIT {N_BEST}", edges]
        straight, turned = (
            " AND ".join((conditions["head"].format(first), conditions["tail"].format(second)))
            for first, second in (("head", "tail"), ("tail", "head"))
        )
        year = "year, " if by_year else ""
        columns = f"edge, label, {COUNTS}"
        ends_of = "CASE WHEN turned THEN t ELSE h END AS head, CASE WHEN turned THEN h ELSE t END AS tail"
        best = f"SELECT * FROM chosen ORDER BY {BEST} LIMIT {limit or NO_LIMIT}"
        if by_year:  # only rows that fewer rows than the limit precede in the number of documents are sorted
            best = f"""
                SELECT * EXCLUDE above FROM chosen JOIN (
                    SELECT year, n_documents,
                        sum(count(*)) OVER (PARTITION BY year ORDER BY n_documents DESC) - count(*) AS above
                    FROM chosen GROUP BY year, n_documents) USING (year, n_documents)
                WHERE above < {limit or NO_LIMIT}
                QUALIFY row_number() OVER (PARTITION BY year ORDER BY {BEST}) <= {limit or NO_LIMIT}"""
        rows: list[Row] = []
        for near in nears:
            rows = self.select(
                f"""WITH {given}near AS {"" if near == edges else "MATERIALIZED"} ({near}), found AS MATERIALIZED (
                    SELECT false AS turned, {columns} FROM near WHERE {straight}
                    UNION ALL SELECT true AS turned, {columns} FROM near
                    WHERE "symmetric" AND {turned} AND NOT ({straight})),
                {choose_edges(filters, "turned, ", by_year=by_year, columns=columns)},
                best AS MATERIALIZED ({best})
                SELECT {year}{columns}, "symmetric", flag, {ends_of}
                FROM best JOIN (SELECT edge, head AS h, tail AS t, "symmetric", flag FROM near) USING (edge)
                ORDER BY {year}{BEST}""",
                **values,
            )
            if len(rows) == limit:
                break
        return self.with_evidence(self.with_names(rows), evidence, filters)

    def trends(self, nodes: Sequence[str], filters: Filters = NO_FILTERS) -> list[Row]:
        """Count the documents of each year that mention nodes.

        Args:
            nodes: Ids or names of nodes.
            filters: Only the years apply.

        Returns:
            A row for each node and each year from the first to the last: ``node``, ``name``, ``label``, ``year``,
            ``n_documents``, ``n_all``, the number of all documents of this year, and the ``share`` of these.

        Raises:
            NotInGraph: No node has a name, or several have.
            DataError: No document has a year.
        """
        years = self._check_years()
        totals = self.select(f"SELECT year, count(*) AS n FROM (SELECT {YEAR} FROM documents) GROUP BY year")
        n_documents = {row["year"]: row["n"] for row in totals}
        first = max(years["first"], filters.first_year or 0)
        last = min(years["last"], 9999 if filters.last_year is None else filters.last_year)
        described = self.get_nodes(list(dict.fromkeys(self.resolve(node) for node in nodes)))
        if not described:
            return []
        given, values = one_of_nodes([row["node"] for row in described])
        counted = self.select(
            f"""WITH own AS MATERIALIZED (SELECT DISTINCT node, document FROM mentions WHERE node IN {given})
            SELECT node, year, count(*) AS n FROM (SELECT node, {YEAR} FROM own JOIN documents USING (document))
            GROUP BY node, year""",
            **values,
        )
        counts = {(one["node"], one["year"]): one["n"] for one in counted}
        found = []
        for row in described:
            for year in range(first, last + 1):
                n, total = counts.get((row["node"], year), 0), n_documents.get(year, 0)
                count = {"year": year, "n_documents": n, "n_all": total, "share": round(n / total, 6) if total else 0.0}
                found.append({name: row[name] for name in ("node", "name", "label")} | count)
        return found

    paths = find_paths

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
        require_range("limit", limit, 1)
        require_range("offset", offset, 0)
        self.check_labels(Filters(types=(type,) if type else (), relations=(relation,) if relation else ()))
        if direction not in DIRECTIONS:
            raise ConfigError(f"direction is {direction!r}", did_you_mean(direction, DIRECTIONS))
        if relation is not None and node is None:
            raise ConfigError("a relation is given without a node", "Give the node that it leads to or from")
        values: dict[str, Any] = {}
        dates = "FROM best"
        if node is not None:
            self.get_nodes([node])
            values["node"] = node
        if relation is not None:
            values |= {"relation": relation, "min_score": filters.min_score}
            counted = count_related(direction, filters)
        else:
            counted = count_mentions(node is not None, filters)
            dates = DATES if node is not None or filters.years else dates
        columns = "node, name, label, n, n_documents, best_score, first_date, last_date, edge"
        order = "n_documents DESC, n DESC, name, node"
        rows = self.select(
            f"""WITH {counted},
            chosen AS MATERIALIZED (
                SELECT {columns} FROM ranked WHERE n >= $min_count AND {one_of("label", (type,) if type else ())}),
            best AS MATERIALIZED (
                SELECT *, (SELECT count(*) FROM chosen) AS total FROM chosen ORDER BY {order}
                LIMIT {limit} OFFSET {offset})
            SELECT {columns}, total FROM ({dates}) ORDER BY {order}""",
            min_count=filters.min_count,
            **values,
        )
        total = rows[0]["total"] if rows else 0
        return {"total": total, "rows": [without(row, "total") for row in rows]}

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

    def _match(self, end: str, name: str | None, type: str | None, values: Row) -> str:
        """Return a condition of one end of an edge, which is ``{}``, or a query of its nodes; and add its values."""
        types = () if type is None else (type,)
        self.check_labels(Filters(types=types))
        if name is None:
            return "true" if type is None else f"SELECT node FROM nodes WHERE {one_of('label', types)}"
        if "*" not in name:
            values[end] = self.resolve(name, types=types)
            return f"{{}} = ${end}"
        values[end] = self._fold(name)
        named = f"SELECT DISTINCT node FROM forms WHERE folded GLOB ${end}"
        return named if type is None else f"{named} AND node IN (SELECT node FROM nodes WHERE {one_of('label', types)})"

    def _check_years(self) -> Row:
        if self.years is None:
            raise DataError(
                "no document of the graph has a year", "Build it with the date of the documents", option="date_field"
            )
        return self.years

    def _incident(self, nodes: Sequence[str], filters: Filters, limit: int | None) -> list[Row]:
        """Return the best edges of each node, as column ``node``, with the ``total`` number of its edges."""
        if not nodes:
            return []
        if limit is not None:
            require_range("limit", limit, 1)
        typed = ""
        if filters.types:
            labels = one_of("label", filters.types)
            typed = f"JOIN (SELECT node AS other FROM nodes WHERE {labels}) USING (other)"
        incident, values = edges_of(nodes)
        # Numbers of edges are sorted faster than whole rows.
        return self.select(
            f"""WITH found AS MATERIALIZED ({incident}),
            {choose_edges(filters, "node, other, ", columns=f"edge, {COUNTS}")},
            best AS MATERIALIZED (
                SELECT node, count(*) AS total,
                    unnest(array_agg(edge ORDER BY {BEST})[:{limit or NO_LIMIT}]) AS edge
                FROM chosen {typed} GROUP BY node)
            SELECT node, {EDGE}, total FROM best JOIN chosen USING (node, edge)
            JOIN (SELECT * EXCLUDE ({COUNTS}) FROM found) USING (node, edge) ORDER BY {BEST}""",
            **values,
            min_score=filters.min_score,
            min_count=filters.min_count,
        )

    def _inner_edges(self, nodes: Sequence[str], filters: Filters) -> list[Row]:
        """Return the best edges between nodes."""
        if not nodes:
            return []
        given, values = one_of_nodes(nodes)
        return self.select(
            f"""WITH near AS MATERIALIZED (SELECT {EDGE} FROM edges WHERE head IN {given}),
            found AS MATERIALIZED (SELECT * FROM near WHERE tail IN {given}), {choose_edges(filters)}
            SELECT * FROM chosen ORDER BY {BEST} LIMIT {MAX_INNER_EDGES}""",
            min_score=filters.min_score,
            min_count=filters.min_count,
            **values,
        )


def without(row: Row, *names: str) -> Row:
    """Return a row without some columns."""
    return {name: value for name, value in row.items() if name not in names}


def _without_nulls(row: Mapping[str, Any]) -> Row:
    return {name: value for name, value in row.items() if value is not None}
