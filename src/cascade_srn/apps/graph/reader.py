"""Read nodes, edges and evidence of a graph, and find nodes by their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from cascade_srn.apps.graph.filters import (
    EDGE,
    FOLD,
    NO_FILTERS,
    NODE,
    YEAR,
    Filters,
    in_years,
    min_score,
    one_of,
    one_of_nodes,
)
from cascade_srn.apps.graph.generic import COREFERENCE
from cascade_srn.apps.graph.tables import STEPS
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]
MAX_QUERY = 200
# Names that a message suggests.
N_SUGGESTIONS = 5
NO_LIMIT = (1 << 63) - 1
FORMS = f"""
    SELECT node, text, {FOLD.format("text")} AS folded, sum(n)::BIGINT AS n FROM (
        SELECT node, text, count(*) AS n FROM mentions
        WHERE step IS DISTINCT FROM '{COREFERENCE}' AND {{where}} GROUP BY ALL
        UNION ALL SELECT node, name AS text, 0 AS n FROM nodes WHERE {{where}})
    GROUP BY ALL ORDER BY folded, node, text"""
"""Query of the table of all names, which the search uses. It is derived from other tables and has no Parquet file."""


class NotInGraph(DataError):
    """A node or edge that the graph does not have, or a name that several nodes have."""


class GraphReader:
    """Rows of a graph that is open for reading. Methods may be called by several threads."""

    def __init__(self, folder: Path, record: Mapping[str, Any], connection: duckdb.DuckDBPyConnection) -> None:
        self.folder = folder
        self.record = record
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run an SQL query and return its rows.

        Args:
            sql: A query in DuckDB's SQL, with ``?`` for values.
            values: The values.

        Returns:
            A dictionary per row. Of several columns with the same name, the second gets ``_1``, the third ``_2``, …
        """
        return self._run(sql, list(values))

    @property
    def has_vocabulary(self) -> bool:
        """Whether nodes are linked to a vocabulary."""
        return "vocabulary" in self.record

    @cached_property
    def types(self) -> list[Row]:
        """Entity types with their number of nodes."""
        return self.select("SELECT label, count(*) AS n FROM nodes GROUP BY label ORDER BY label")

    @cached_property
    def relations(self) -> list[Row]:
        """Relation types with their number of edges, and whether they are symmetric."""
        return self.select("""
            SELECT label, count(*) AS n, bool_or("symmetric") AS "symmetric" FROM edges
            GROUP BY label ORDER BY label""")

    @cached_property
    def years(self) -> Row | None:
        """First and last year of the documents; None if none has a date that begins with a year."""
        (found,) = self.select(f"SELECT min(year) AS first, max(year) AS last FROM (SELECT {YEAR} FROM documents)")
        return None if found["first"] is None else found

    def search(self, text: str, *, types: Sequence[str] = (), limit: int = 12) -> list[Row]:
        """Find nodes by name or by another form in the texts, best first.

        Every word of the query must occur. Names that are equal to the query come first, then names that start with
        it, then names with a word that starts with it. Nodes in more documents come first among these.

        Args:
            text: The query. Case, accents and hyphens do not matter.
            types: Entity types of the nodes; all if empty.
            limit: Most nodes to return.

        Returns:
            Rows of ``nodes`` with ``form``, the name that matches.
        """
        require_range("limit", limit, 1)
        query = self._fold(text)
        words = {f"w{number}": word for number, word in enumerate(query.split())}
        if not words:
            return []
        contains = " AND ".join(f"contains(folded, ${name})" for name in words)
        rows: list[Row] = []
        # Names that start with the query come first, and may be enough.
        for condition, values in (("starts_with(folded, $query)", {}), (contains, words)):
            rows = self.select(
                f"""
                WITH found AS MATERIALIZED (
                    SELECT node, arg_min(text, (place, -n)) AS form, min(place) AS place FROM (
                        SELECT node, text, n, CASE WHEN folded = $query THEN 0 WHEN starts_with(folded, $query) THEN 1
                            WHEN contains(folded, ' ' || $query) THEN 2 ELSE 3 END AS place
                        FROM forms WHERE {condition})
                    GROUP BY node)
                SELECT {NODE}, form FROM found JOIN nodes USING (node)
                WHERE {one_of("label", types)} ORDER BY place, n_documents DESC, degree DESC, node LIMIT {limit}""",
                query=query,
                **values,
            )
            if len(rows) == limit:
                break
        return rows

    def resolve(self, text: str, *, types: Sequence[str] = ()) -> str:
        """Return the id of a node that is given by its id, by a name, or by its identifier in the vocabulary.

        Names of nodes come before other forms in the texts, and the same case before another case.

        Args:
            text: An id, a name, another form, or an identifier.
            types: Entity types of the node; all if empty.

        Raises:
            NotInGraph: No node has this id or name, or several have. The hint has the nearest names.
        """
        self.check_labels(Filters(types=tuple(types)))
        allowed = one_of("label", types)
        if self.select(f"SELECT 1 FROM (SELECT label FROM nodes WHERE node = $node) WHERE {allowed}", node=text):
            return text
        rows = self.select(
            f"""WITH found AS MATERIALIZED (SELECT * FROM forms WHERE folded = $query)
            SELECT {NODE}, list(text) AS texts, {FOLD.format("any_value(name)")} = $query AS is_name
            FROM found JOIN nodes USING (node) WHERE {allowed} GROUP BY {NODE} ORDER BY n_documents DESC, node""",
            query=self._fold(text),
        ) or self.select(
            f"""SELECT {NODE}, [] AS texts, false AS is_name FROM nodes WHERE identifier = $identifier AND {allowed}
            ORDER BY n_documents DESC, node""",
            identifier=text,
        )
        for chosen in ([row for row in rows if row["is_name"]], [row for row in rows if text in row["texts"]], rows):
            same_case = [row for row in chosen if row["name"] == text]
            if len(same_case or chosen) == 1:
                return str((same_case or chosen)[0]["node"])
            if chosen:
                names = _list_nodes(chosen[:N_SUGGESTIONS])
                raise NotInGraph(f"{len(chosen)} nodes have the name {text!r}", f"Give the id of one of them: {names}")
        raise NotInGraph(f"no node has the name {text!r}", self._suggest(text, types))

    def node(self, node: str) -> Row:
        """Return the row of a node.

        Args:
            node: Its id.

        Raises:
            NotInGraph: There is no such node.
        """
        return self.get_nodes([node])[0]

    def edge(self, edge: int) -> Row:
        """Return an edge with the names and types of its ends.

        Raises:
            NotInGraph: There is no such edge.
        """
        found = self.select(f"SELECT {EDGE} FROM edges WHERE edge = $edge", edge=edge)
        if not found:
            last = self.record["counts"]["edges"] - 1
            raise NotInGraph(f"the graph has no edge {edge}", f"Edges are numbered from 0 to {last}")
        return self.with_names(found)[0]

    def evidence(
        self, edge: int, filters: Filters = NO_FILTERS, *, limit: int | None = None, offset: int = 0
    ) -> list[Row]:
        """Return the relations behind an edge, those with the best scores first.

        Args:
            edge: Number of the edge.
            filters: Only the years and the minimum score apply.
            limit: Most rows to return; None for all.
            offset: Rows to leave out at the start.

        Returns:
            Rows of ``evidence`` with ``title``, ``shard``, ``input`` and ``row`` of the document, with the extracted
            types of head and tail, and with ``total``, the number of rows without limit and offset.

        Raises:
            NotInGraph: There is no such edge.
        """
        require_range("offset", offset, 0)
        described = self.edge(edge)
        rows = self.select(
            f"""WITH found AS MATERIALIZED (SELECT * FROM evidence WHERE edge = $edge),
            page AS MATERIALIZED (
                SELECT *, count(*) OVER () AS total FROM found
                WHERE {min_score("score")} AND {in_years(filters)}
                ORDER BY score DESC NULLS LAST, document, relation LIMIT {_limit(limit)} OFFSET {offset})
            SELECT page.*, title, shard, input, "row" FROM page LEFT JOIN documents USING (document)
            ORDER BY score DESC NULLS LAST, document, relation""",
            edge=edge,
            min_score=filters.min_score,
        )
        self._add_labels(described, rows)
        return rows

    def quote(self, node: str, *, limit: int = 3) -> list[Row]:
        """Return passages of documents that mention a node, those with the best scores first.

        Args:
            node: Id of the node.
            limit: Most documents.

        Returns:
            ``document``, ``document_id``, ``title``, ``date``, ``text``, which is the mention, and ``quote``: about 300
            characters around it, or None if the graph has no text.
        """
        rows = self.select(
            f"""WITH own AS MATERIALIZED (
                SELECT document, "start", "end", text, score FROM mentions WHERE node = $node),
            best AS MATERIALIZED (
                SELECT * FROM own QUALIFY row_number() OVER (PARTITION BY document ORDER BY "start") = 1
                ORDER BY score DESC NULLS LAST, document LIMIT {_limit(limit)})
            SELECT document, document_id, title, date, best.text, "start", "end", documents.text AS quote
            FROM best JOIN documents USING (document) ORDER BY score DESC NULLS LAST, document""",
            node=node,
        )
        for row in rows:
            start, end = row.pop("start"), row.pop("end")
            row["quote"] = None if row["quote"] is None else _cut(row["quote"], start, end)
        return rows

    def explain(self, node: str, *, limit: int | None = None) -> dict[str, Any]:
        """Return why a node is what it is.

        Args:
            node: Id of the node.
            limit: Maximum number of forms, of merges and of mentions.

        Returns:
            The row of the ``node``, its surface ``forms`` with counts and steps, its ``merges`` with their reasons, its
            ``mentions``, and with a vocabulary the ``links`` to its entries.
        """
        found = self.node(node)
        # Materialized, since a sort with a limit would keep DuckDB from using the index.
        own = "WITH own AS MATERIALIZED (SELECT * FROM mentions WHERE node = $node)"
        forms = f"""
            {own} SELECT text, label, step, count(*) AS n, count(DISTINCT document) AS n_documents
            FROM own GROUP BY ALL ORDER BY n DESC, text, label, step LIMIT {_limit(limit)}
        """
        merges = f"""
            SELECT text, label, into_text, into_label, step, reason, score FROM merges WHERE node = $node
            ORDER BY list_position($steps, step), text, label, into_text, into_label, reason LIMIT {_limit(limit)}
        """
        mentions = f"""
            {own} SELECT * EXCLUDE (node) FROM own ORDER BY document, entity LIMIT {_limit(limit)}
        """
        links = """
            SELECT identifier, name, text, link, score FROM links WHERE node = $node ORDER BY identifier
        """
        return {
            "node": found,
            **({"links": self.select(links, node=node)} if self.has_vocabulary else {}),
            "forms": self.select(forms, node=node),
            "merges": self.select(merges, node=node, steps=list(STEPS)),
            "mentions": self.select(mentions, node=node),
        }

    def _fold(self, text: str) -> str:
        (row,) = self.select(f"SELECT {FOLD.format('$text')} AS folded", text=text[:MAX_QUERY])
        return str(row["folded"])

    def _suggest(self, text: str, types: Sequence[str]) -> str:
        """Return a hint with the nearest names."""
        kinds = [row["label"] for row in self.types if row["label"].casefold() == text.casefold()]
        if kinds:
            return f"{kinds[0]} is an entity type: give it as a type and not as a name"
        near = self.search(text, types=types, limit=N_SUGGESTIONS) or self.select(
            f"""WITH near AS MATERIALIZED (
                SELECT node, max(jaro_winkler_similarity(folded, $query)) AS similarity FROM (
                    SELECT node, folded FROM forms UNION ALL SELECT node, replace(node, '-', ' ') FROM nodes)
                WHERE abs(length(folded) - length($query)) <= 3 GROUP BY node)
            SELECT {NODE} FROM near JOIN nodes USING (node) WHERE {one_of("label", types)} AND similarity > 0.8
            ORDER BY similarity DESC, n_documents DESC, node LIMIT {N_SUGGESTIONS}""",
            query=self._fold(text.replace("-", " ")),
        )
        return f"Did you mean {_list_nodes(near)}?" if near else "Search for a part of the name"

    def get_nodes(self, nodes: Sequence[str]) -> list[Row]:
        """Return nodes in the given order."""
        if not nodes:
            return []
        given, values = one_of_nodes(list(dict.fromkeys(nodes)))
        columns = f"{NODE}, votes{', identifier, link' if self.has_vocabulary else ''}"
        rows = self.select(f"SELECT {columns} FROM nodes WHERE node IN {given}", **values)
        found = {row["node"]: row for row in rows}
        for node in nodes:
            if node not in found:
                raise NotInGraph(f"the graph has no node {node!r}", self._suggest(node, ()))
        return [found[node] for node in nodes]

    def with_names(self, edges: list[Row]) -> list[Row]:
        """Add the names, types and identifiers of the ends to edges."""
        ends = list(dict.fromkeys(row[end] for row in edges for end in ("head", "tail")))
        by_node = {row["node"]: row for row in self.get_nodes(ends)}
        columns = ("name", "label", *(("identifier",) if self.has_vocabulary else ()))
        for row in edges:
            for end in ("head", "tail"):
                row |= {f"{end}_{name}": by_node[row[end]][name] for name in columns}
        return edges

    def with_evidence(self, edges: list[Row], n: int, filters: Filters) -> list[Row]:
        """Add the best sentences to edges, or to edges of a year."""
        if not n or not edges:
            return edges
        values = {f"e{number}": edge for number, edge in enumerate({row["edge"] for row in edges})}
        by_year = "year" in edges[0]
        found = self.select(
            f"""WITH near AS MATERIALIZED (
                SELECT edge, document, document_id, relation, date, score, sentence_text, head_text, tail_text
                FROM evidence WHERE edge IN ({", ".join(f"${e}" for e in values)})),
            best AS MATERIALIZED (
                SELECT *, {YEAR if by_year else "NULL AS year"} FROM near
                WHERE {min_score("score")} AND {in_years(filters)}
                QUALIFY row_number() OVER (
                    PARTITION BY edge, year ORDER BY score DESC NULLS LAST, document, relation) <= {n})
            SELECT edge, year, document, best.document_id, title, best.date, score, sentence_text, head_text, tail_text
            FROM best LEFT JOIN documents USING (document) ORDER BY score DESC NULLS LAST, document, relation""",
            min_score=filters.min_score,
            **values,
        )
        rows: defaultdict[tuple[int, int | None], list[Row]] = defaultdict(list)
        for one in found:
            rows[one.pop("edge"), one.pop("year")].append(one)
        return [row | {"evidence": rows[row["edge"], row.get("year")]} for row in edges]

    def _add_labels(self, edge: Row, evidence: list[Row]) -> None:
        """Add the extracted types of head and tail, which may differ from those of the nodes."""
        mentions = self.select(
            """WITH own AS MATERIALIZED (SELECT * FROM mentions WHERE node IN ($head, $tail))
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

    def check_labels(self, filters: Filters) -> None:
        """Raise a :class:`ConfigError` if the graph does not have the types and relations of filters."""
        for noun, given, known in (
            ("entity type", filters.types, self.types if filters.types else []),
            ("relation", filters.relations, self.relations if filters.relations else []),
        ):
            labels = [row["label"] for row in known]
            for label in given:
                if label not in labels:
                    raise ConfigError(f"the graph has no {noun} {label!r}", did_you_mean(label, labels))

    def select(self, sql: str, **values: Any) -> list[Row]:
        """Run an SQL query with ``$name`` for values, and return its rows. Scores are rounded to six decimals."""
        return [{name: _round(value) for name, value in row.items()} for row in self._run(sql, values)]

    def _run(self, sql: str, values: list[Any] | dict[str, Any]) -> list[Row]:
        # Each cursor is a connection of its own, so that threads do not disturb each other.
        with self._connection.cursor() as cursor:
            cursor.execute("USE graph")
            found = cursor.execute(sql, values) if values else cursor.execute(sql)
            names = distinct_names([column[0] for column in found.description or ()])
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _limit(limit: int | None) -> int:
    if limit is not None:
        require_range("limit", limit, 1)
    return NO_LIMIT if limit is None else limit


def _cut(text: str, start: int, end: int, context: int = 150) -> str:
    """Return the words around a mention."""
    low, high = max(0, start - context), min(len(text), end + context)
    before = text[low:start] if low == 0 else text[low:start].partition(" ")[2]
    after = text[end:high] if high == len(text) else text[end:high].rpartition(" ")[0]
    return f"{'… ' * (low > 0)}{before}{text[start:end]}{after}{' …' * (high < len(text))}"


def _list_nodes(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row['node']} ({row['name']}, {row['label']}, {row['n_documents']:,})" for row in rows)


def _round(value: Any) -> Any:
    """Remove the digits that single precision adds to a score."""
    return round(value, 6) if isinstance(value, float) else value


def distinct_names(names: list[str]) -> list[str]:
    """Add a number to names that were there before."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        # A name with a number may be that of another column.
        found.append(name if name not in found else next(one for one in numbered if one not in (*found, *names)))
    return found
