"""Shortest paths between two nodes.

The search runs from both ends and always expands the end with fewer edges, through the indexes of the edges. It reads
the edges around the two nodes and not the whole graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from cascade_srn.apps.graph.filters import BEST, BY_INDEX, EDGE, NO_FILTERS, Filters, choose_edges, edges_of, one_of
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from cascade_srn.apps.graph.questions import Graph
    from cascade_srn.apps.graph.reader import Row

MAX_LENGTH = 8
# The nodes before a node on the shortest ways from an end, with the documents of the edge between.
_Parents = dict[str, dict[str, int]]


def find_paths(
    graph: Graph,
    start: str,
    end: str,
    filters: Filters = NO_FILTERS,
    *,
    without: Sequence[str] = (),
    max_length: int = 5,
    limit: int = 3,
    evidence: int = 1,
) -> list[Row]:
    """Find the shortest paths between two nodes, in either direction of the edges.

    Of paths with the same length, those whose weakest edge is in the most documents come first.

    Args:
        graph: The graph.
        start: Id or name of the first node.
        end: Id or name of the last node.
        filters: Which edges may be used. Types are those of the nodes between.
        without: Ids or names of nodes that must not be on a path.
        max_length: Most edges of a path.
        limit: Most paths to return.
        evidence: Sentences of each edge, best first.

    Returns:
        Paths with their ``length``, their ``nodes``, and their ``steps``: the best edge between two nodes, with the
        names of its ends and its ``evidence``. Empty if the nodes are not connected.

    Raises:
        NotInGraph: No node has a name, or several have.
        ConfigError: Both nodes are the same, or a limit is out of range.
    """
    require_range("max_length", max_length, 1, MAX_LENGTH)
    require_range("limit", limit, 1)
    start, end = graph.resolve(start), graph.resolve(end)
    if start == end:
        raise ConfigError(f"both ends are the node {start!r}", "Give two nodes")
    graph.check_labels(filters)
    barred = {graph.resolve(node) for node in without} - {start, end}
    # The best edge by its two ends.
    best: dict[frozenset[str], int] = {}
    found = _search(graph, start, end, filters, barred, max_length, limit, best)
    pairs = dict.fromkeys(frozenset(pair) for nodes in found for pair in pairwise(nodes))
    edges = graph.with_evidence(
        graph.with_names(_edges(graph, [best[pair] for pair in pairs], filters)), evidence, filters
    )
    by_ends = {frozenset((row["head"], row["tail"])): row for row in edges}
    return [
        {
            "length": len(nodes) - 1,
            "nodes": graph.get_nodes(nodes),
            "steps": [by_ends[frozenset(pair)] for pair in pairwise(nodes)],
        }
        for nodes in found
    ]


def _search(
    graph: Graph,
    start: str,
    end: str,
    filters: Filters,
    barred: Collection[str],
    max_length: int,
    limit: int,
    best: dict[frozenset[str], int],
) -> list[list[str]]:
    """Return the nodes of the best shortest paths, and add the best edge between two nodes to ``best``."""
    parents: dict[str, _Parents] = {start: {start: {}}, end: {end: {}}}
    fronts = {start: [start], end: [end]}
    for _ in range(max_length):
        side = min(fronts, key=lambda one: (_count_edges(graph, fronts[one]), one))
        other = end if side == start else start
        known = parents[side]
        level: _Parents = {}
        for row in _expand(graph, fronts[side], filters, (start, end)):
            if row["other"] not in known and row["other"] not in barred:
                level.setdefault(row["other"], {})[row["node"]] = row["n_documents"]
                best[frozenset((row["node"], row["other"]))] = row["edge"]
        known |= level
        fronts[side] = list(level)
        if not level:
            return []
        if meeting := level.keys() & parents[other].keys():
            ways = [_join(parents, start, end, node, limit) for node in sorted(meeting)]
            ranked = sorted((way for some in ways for way in some), key=lambda way: (-way[0], -way[1], way[2]))
            return [nodes for _, _, nodes in ranked[:limit]]
    return []


_Way = tuple[int, int, list[str]]


def _join(parents: Mapping[str, _Parents], start: str, end: str, node: str, limit: int) -> list[_Way]:
    """Return the best paths through a node: documents of the weakest edge, of all edges, and the nodes."""
    first, second = (_ways(parents[side], node, limit) for side in (start, end))
    joined = [
        (min(one[0], other[0]), one[1] + other[1], [*reversed(one[2]), *other[2][1:]])
        for one in first
        for other in second
    ]
    return sorted(joined, key=lambda way: (-way[0], -way[1], way[2]))[:limit]


def _ways(parents: _Parents, node: str, limit: int) -> list[_Way]:
    """Return the best ways from a node back to an end. Ways of the nodes before are found once each."""
    order, seen = [node], {node}
    for one in order:
        for before in parents[one]:
            if before not in seen:
                seen.add(before)
                order.append(before)
    best: dict[str, list[_Way]] = {}
    for one in reversed(order):
        ways = [
            (min(n, weakest), n + total, [one, *nodes])
            for before, n in parents[one].items()
            for weakest, total, nodes in best[before]
        ]
        best[one] = sorted(ways, key=lambda way: (-way[0], -way[1], way[2]))[:limit] or [(1 << 62, 0, [one])]
    return best[node]


def _count_edges(graph: Graph, nodes: Sequence[str]) -> int:
    """Return the number of edges of nodes, which is what expanding them costs."""
    if len(nodes) > BY_INDEX:
        return len(nodes) * 10
    return sum(row["degree"] for row in graph.get_nodes(nodes))


def _expand(graph: Graph, nodes: Sequence[str], filters: Filters, ends: Collection[str]) -> list[Row]:
    """Return the neighbours of nodes, with the best edge and its number of documents."""
    incident, values = edges_of(list(nodes))
    typed = ""
    if filters.types:
        values["ends"] = list(ends)
        condition = f"{one_of('label', filters.types)} OR list_contains($ends, node)"
        typed = f"WHERE other IN (SELECT node FROM nodes WHERE {condition})"
    return graph.select(
        f"""WITH found AS MATERIALIZED ({incident}),
        {choose_edges(filters, "node, other, ")}
        SELECT node, other, max(n_documents) AS n_documents, first(edge ORDER BY {BEST}) AS edge
        FROM chosen {typed} GROUP BY node, other ORDER BY node, other""",
        min_score=filters.min_score,
        min_count=filters.min_count,
        **values,
    )


def _edges(graph: Graph, edges: Sequence[int], filters: Filters) -> list[Row]:
    """Return edges by their numbers, with the counts of the years of the filters."""
    if not edges:
        return []
    values = {f"e{number}": edge for number, edge in enumerate(edges)}
    return graph.select(
        f"""WITH found AS MATERIALIZED (
            SELECT {EDGE} FROM edges WHERE edge IN ({", ".join(f"${name}" for name in values)})),
        {choose_edges(filters)}
        SELECT * FROM chosen""",
        min_score=filters.min_score,
        min_count=filters.min_count,
        **values,
    )
