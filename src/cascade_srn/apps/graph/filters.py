"""Filters of edges, and the SQL that applies them.

Parameters of users are values of the query. Labels are quoted, and years are numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.config import Settings, require_range

NODE = "node, name, label, n_mentions, n_documents, degree, first_date, last_date"
COUNTS = "n, n_documents, best_score, mean_score, first_date, last_date"
EDGE = f'edge, head, label, tail, {COUNTS}, "symmetric", flag'
BEST = "n_documents DESC, n DESC, best_score DESC NULLS LAST, edge"
# Ends of an edge are compared with each other and not with the parameter: DuckDB only uses the index of a column if it
# is the only one with a constant.
_INCIDENT = f"""
    SELECT head AS node, tail AS other, {EDGE} FROM edges WHERE head IN {{0}}
    UNION ALL SELECT tail AS node, head AS other, {EDGE} FROM edges WHERE tail IN {{0}} AND head <> tail"""
# Nodes that are found by the index. A scan is faster for more.
BY_INDEX = 200
INCIDENT = _INCIDENT.format("($node)")
YEAR = "TRY_CAST(regexp_extract(date, '^\\d{4}') AS INTEGER) AS year"
# Case, accents and hyphens do not matter in a search.
FOLD = "trim(regexp_replace(lower(strip_accents({})), '[\\s‐‑‒–-]+', ' ', 'g'))"


@dataclass(frozen=True)
class Filters(Settings):
    """Which edges count.

    Attributes:
        types: Entity types of neighbours; empty for all.
        relations: Relation types; empty for all.
        min_score: Lowest best score of an edge. Edges without a score always pass.
        min_count: Fewest pieces of evidence.
        first_year: First year of the evidence. Evidence without a date does not pass.
        last_year: Last year of the evidence.
    """

    types: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    min_score: float = 0.0
    min_count: int = 1
    first_year: int | None = None
    last_year: int | None = None

    def __post_init__(self) -> None:
        require_range("min_score", self.min_score, 0, 1)
        require_range("min_count", self.min_count, 1)
        for name in ("first_year", "last_year"):
            if getattr(self, name) is not None:
                require_range(name, getattr(self, name), 0, 9999)

    @property
    def years(self) -> tuple[str, str] | None:
        """First and last year as text of four digits; None if all years are shown."""
        if self.first_year is None and self.last_year is None:
            return None
        return f"{self.first_year or 0:04}", f"{9999 if self.last_year is None else self.last_year:04}"


NO_FILTERS = Filters()
_RANKED = """
    SELECT nodes.node, name, nodes.label, counted.n, counted.n_documents, counted.best_score, counted.first_date,
        counted.last_date, edge
    FROM counted JOIN nodes USING (node)"""
DATES = """
    SELECT best.* EXCLUDE (first_date, last_date), min(date) AS first_date, max(date) AS last_date FROM best
    JOIN (SELECT node, document FROM mentions) USING (node) JOIN dated USING (document) GROUP BY ALL"""
"""Query that adds the dates of ``dated`` to the nodes in ``best``."""


def choose_edges(
    filters: Filters, more: str = "", *, by_year: bool = False, name: str = "chosen", columns: str = EDGE
) -> str:
    """Return common table expressions up to ``chosen``: the edges in ``found`` that pass the filters.

    Entity types are not checked. Joins are materialized before conditions, since DuckDB would otherwise apply the
    conditions while it scans the table, without the index.

    Args:
        filters: The filters. Their values are ``$min_count`` and ``$min_score``.
        more: Further columns of ``found``, each with a comma after it.
        by_year: Count the evidence of each year by itself, as column ``year``.
        name: Another name than ``chosen``.
        columns: The columns of an edge that ``found`` has.
    """
    condition = passes(filters)
    if filters.years is None and not by_year:
        return f"{name} AS MATERIALIZED (SELECT {more}{columns} FROM found WHERE {condition})"
    year = "year, " if by_year else ""
    dated = f"{in_years(filters, 'first_date')} {'AND year IS NOT NULL' if by_year else ''}"
    # The counts of an edge with one piece of evidence are those of its year. Counting rows of documents is faster than
    # count(DISTINCT document), and numbers of edges are grouped faster than their columns.
    return f"""
        proof AS MATERIALIZED (
            SELECT edge, document, score, date
            FROM (SELECT DISTINCT edge FROM found WHERE found.n > 1) JOIN evidence USING (edge)),
        years AS (SELECT date, {YEAR} FROM (SELECT date FROM proof UNION SELECT first_date FROM found)),
        by_document AS (
            SELECT edge, {year}document, count(*) AS n, max(score) AS best, sum(score) AS scores,
                count(score) AS n_scores, min(date) AS first_date, max(date) AS last_date
            FROM proof {"JOIN years USING (date)" if by_year else ""}
            WHERE {in_years(filters)} {"AND year IS NOT NULL" if by_year else ""} GROUP BY ALL),
        counted_edges AS (
            SELECT edge, {year}sum(n)::BIGINT AS n, count(*) AS n_documents, max(best) AS best_score,
                sum(scores) / nullif(sum(n_scores), 0) AS mean_score, min(first_date) AS first_date,
                max(last_date) AS last_date
            FROM by_document GROUP BY ALL),
        {name} AS MATERIALIZED (
            SELECT {year}{more}{columns} FROM counted_edges
            JOIN (SELECT * EXCLUDE ({COUNTS}) FROM found) USING (edge) WHERE {condition}
            UNION ALL SELECT {year}{more}{columns} FROM (SELECT * REPLACE (best_score AS mean_score) FROM found)
            {"JOIN years ON date = first_date" if by_year else ""} WHERE n = 1 AND {condition} AND {dated})"""


def passes(filters: Filters) -> str:
    """Return a condition that an edge passes filters, without those of types and years."""
    return f"n >= $min_count AND {min_score('best_score')} AND {one_of('label', filters.relations)}"


def one_of_nodes(nodes: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return a list of nodes as SQL for ``IN``, and its values."""
    if len(nodes) > BY_INDEX:
        return "(SELECT unnest($nodes))", {"nodes": list(nodes)}
    values = {f"n{number}": node for number, node in enumerate(nodes)}
    return f"({', '.join(f'${name}' for name in values)})", values


def edges_of(nodes: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return a query of the edges of nodes, with columns ``node`` and ``other``, and its values."""
    given, values = one_of_nodes(nodes)
    return _INCIDENT.format(given), values


def count_related(direction: str, filters: Filters) -> str:
    """Return common table expressions up to ``ranked``: the nodes that have a relation with a node."""
    end = "head" if direction == "in" else "tail"
    return f"""
        found AS MATERIALIZED ({INCIDENT}), {choose_edges(filters, "other, ", name="related")},
        counted AS (
            SELECT other AS node, n, n_documents, best_score, first_date, last_date, edge FROM related
            WHERE label = $relation AND ("symmetric" OR {end} = other)),
        ranked AS MATERIALIZED ({_RANKED})"""


def count_mentions(beside: bool, filters: Filters) -> str:
    """Return common table expressions up to ``ranked``: all nodes, or those in the same documents as a node.

    If documents are counted, the dates are left to ``DATES``.
    """
    if not beside and filters.years is None:
        return "ranked AS (SELECT * EXCLUDE (degree), n_mentions AS n, NULL AS best_score, NULL AS edge FROM nodes)"
    own = "SELECT DISTINCT document FROM mentions WHERE node = $node" if beside else ""
    dated = f"SELECT document, date FROM documents WHERE {in_years(filters)}"
    if beside:
        dated += " AND document IN (FROM own)"
    # Most nodes are in one document, so that their counts are known.
    once = f"""UNION ALL SELECT node, name, label, n_mentions, 1, NULL, NULL, NULL, NULL FROM nodes
            WHERE n_documents = 1 AND {in_years(filters, "first_date")}"""
    return f"""
        {f"own AS MATERIALIZED ({own})," if beside else ""} dated AS MATERIALIZED ({dated}),
        by_document AS (
            SELECT node, count(*) AS n FROM mentions JOIN dated USING (document)
            WHERE {"node <> $node" if beside else "node IN (SELECT node FROM nodes WHERE n_documents > 1)"}
            GROUP BY node, document),
        counted AS (
            SELECT node, sum(n)::BIGINT AS n, count(*) AS n_documents, NULL AS best_score, NULL AS first_date,
                NULL AS last_date, NULL AS edge
            FROM by_document GROUP BY node),
        ranked AS {"MATERIALIZED" if beside else ""} ({_RANKED} {"" if beside else once})"""


def in_years(filters: Filters, date: str = "date") -> str:
    """Return a condition that a date is in the years of the filters."""
    if filters.years is None:
        return "true"
    first, last = filters.years
    return f"left({date}, 4) BETWEEN '{first}' AND '{last}'"


def min_score(score: str) -> str:
    """Return a condition that a score is high enough, or missing. 0.9 in single precision is less than 0.9."""
    return f"coalesce(round({score}::DOUBLE, 6), 1) >= $min_score"


def one_of(column: str, labels: Sequence[str]) -> str:
    """Return a condition that a column has one of the labels; true if there are none."""
    if not labels:
        return "true"
    return f"{column} IN ({', '.join(_quote(label) for label in labels)})"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
