"""Tables of a graph from resolved mentions: nodes, edges and evidence, in DuckDB."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.generic import COREFERENCE
from cascade_srn.apps.graph.settings import KEPT, GraphSettings
from cascade_srn.apps.graph.tables import load_library

if TYPE_CHECKING:
    import duckdb
    import pyarrow

_MAX_SLUG = 80
_BATCH = 1000
# Sums of integers do not depend on the order, unlike those of floats.
_WEIGHT = "CAST(round(coalesce(score, 1) * 1000000) AS BIGINT)"


def place_mentions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make ``placed``: the root key of each entity that is not generic, or stands for one that is not.

    Needs ``entities``, ``surfaces`` (text, label, key), ``local`` (document, key, other), ``keys`` (key, root, step).
    """
    connection.execute("""
        CREATE OR REPLACE TABLE placed AS
        SELECT e.* EXCLUDE (antecedent), keys.root,
            CASE WHEN local.other IS NOT NULL THEN 'acronym' ELSE keys.step END AS step
        FROM entities e
        JOIN surfaces s ON s.text = e.text AND s.label = e.label
        LEFT JOIN local ON local.document = e.document AND local.key = s.key
        JOIN keys ON keys.key = coalesce(local.other, s.key)
        WHERE s.key >= 0
    """)
    connection.execute(f"""
        INSERT INTO placed
        SELECT e.* EXCLUDE (antecedent), p.root, '{COREFERENCE}'
        FROM entities e
        JOIN surfaces s ON s.text = e.text AND s.label = e.label
        JOIN placed p ON p.document = e.document AND p.entity = e.antecedent
        WHERE s.key < 0
    """)


def count_votes(
    connection: duckdb.DuckDBPyConnection, roots: Iterable[int], mentions: str = "placed"
) -> dict[int, dict[str, float]]:
    """Return the weights of the types of each of some roots: the sum of the scores of its mentions.

    Args:
        connection: A database.
        roots: The roots.
        mentions: Table of their mentions.
    """
    pa = load_library("pyarrow")
    connection.register("chosen", pa.table({"root": pa.array(list(roots), pa.int64())}))
    votes: defaultdict[int, dict[str, float]] = defaultdict(dict)
    rows = connection.execute(
        f"SELECT root, label, sum({_WEIGHT}) / 1000000 FROM {mentions} SEMI JOIN chosen USING (root) "
        f"WHERE step IS DISTINCT FROM '{COREFERENCE}' "
        "GROUP BY root, label ORDER BY root, label"
    ).fetchall()
    for root, label, weight in rows:
        votes[root][label] = round(float(weight), 4)
    return dict(votes)


def winner(votes: dict[str, float]) -> str:
    """Return the type with the largest weight, and the first in the alphabet of several."""
    return min(votes.items(), key=lambda item: (-item[1], item[0]))[0]


def name_nodes(names: Iterable[tuple[int, str, str, str]]) -> dict[int, str]:
    """Return the ids of nodes, given as root, name, label and key.

    The id is made of name and label. Where several nodes would have the same, the key decides by a checksum.
    """
    groups: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for root, name, label, key in names:
        groups[make_slug(name, label)].append((f"{key}\n{label}", root))
    found: dict[int, str] = {}
    for slug, members in groups.items():
        for number, (key, root) in enumerate(sorted(members)):
            suffix = "" if number == 0 else "-" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:8]
            found[root] = slug + suffix
    return found


def make_slug(name: str, label: str) -> str:
    """Return an id for a name and a label.

    Example:
        >>> make_slug("Named-Entity Recognition", "Task"), make_slug("C++", "Material")
        ('named-entity-recognition-task', 'c-plus-plus-material')
    """
    text = unicodedata.normalize("NFKD", f"{name[:_MAX_SLUG]} {label}".replace("+", " plus ").replace("#", " sharp "))
    kept = "".join(char for char in text if not unicodedata.combining(char)).casefold()
    return re.sub(r"[\W_]+", "-", kept).strip("-") or "node"


def find_relations(
    connection: duckdb.DuckDBPyConnection,
    settings: GraphSettings,
    symmetric: Collection[str],
    min_scores: Mapping[str, float] = {},
) -> dict[str, int]:
    """Make ``single`` from ``relations``, ``placed`` and ``nodes`` (root, node): the relations between two nodes.

    Returns:
        Number of mentions and relations that are left out, by reason.
    """
    left_out = {status: 0 for status in KEPT if status not in settings.keep}
    rows = connection.execute("SELECT status, count(*) FROM relations GROUP BY status").fetchall()
    left_out |= {status: count for status, count in rows if status in left_out}
    # Tables of corpus jobs have scores of single precision.
    bounds = " AND NOT (label = ? AND round(score::DOUBLE, 6) < ?)" * len(min_scores)
    connection.execute(
        f"""
        CREATE TABLE scored AS SELECT * FROM relations
        WHERE (score IS NULL OR (score >= ?{bounds})) AND NOT list_contains(?::VARCHAR[], coalesce(status, ''))
        """,
        [settings.min_score, *(value for pair in min_scores.items() for value in pair), sorted(left_out)],
    )
    total = count_rows(connection, "relations") - sum(left_out.values())
    connection.execute(
        """
        CREATE TABLE found AS
        SELECT r.document, r.relation, r.sentence, r.label, r.score, r.model, r.status,
            list_contains($labels, r.label) AS "symmetric",
            CASE WHEN "symmetric" AND hn.node > tn.node THEN tn.node ELSE hn.node END AS head,
            CASE WHEN "symmetric" AND hn.node > tn.node THEN hn.node ELSE tn.node END AS tail,
            h.start AS head_start, h."end" AS head_end, h.text AS head_text,
            t.start AS tail_start, t."end" AS tail_end, t.text AS tail_text
        FROM scored r
        JOIN placed h ON h.document = r.document AND h.entity = r.head
        JOIN placed t ON t.document = r.document AND t.entity = r.tail
        JOIN nodes hn ON hn.root = h.root
        JOIN nodes tn ON tn.root = t.root
    """,
        {"labels": sorted(symmetric)},
    )
    connection.execute("""
        CREATE TABLE single AS SELECT * EXCLUDE (number) FROM (
            SELECT *, row_number() OVER (
                PARTITION BY document, label, head, tail,
                    least(head_start, tail_start), greatest(head_start, tail_start),
                    least(head_end, tail_end), greatest(head_end, tail_end)
                ORDER BY score DESC NULLS LAST, relation
            ) AS number FROM found WHERE head <> tail
        ) WHERE number = 1
    """)
    loops = connection.execute("SELECT count(*) FROM found WHERE head = tail").fetchall()[0][0]
    scored, placed, single = (count_rows(connection, name) for name in ("scored", "found", "single"))
    return {
        "generic mentions": count_rows(connection, "entities") - count_rows(connection, "placed"),
        **{f"{status} relations": count for status, count in left_out.items()},
        "relations below the minimum score": total - scored,
        "relations of generic mentions": scored - placed,
        "relations within one node": loops,
        "repeated relations": placed - loops - single,
    }


def make_edges(connection: duckdb.DuckDBPyConnection, min_count: int) -> int:
    """Make ``edges`` from ``single``. Return the number of relations whose edge has too few of them."""
    connection.execute(
        f"""
        CREATE TABLE edges AS
        SELECT row_number() OVER (ORDER BY head, label, tail) - 1 AS edge, * FROM (
            SELECT head, label, tail, count(*) AS n, count(DISTINCT document) AS n_documents,
                max(score) AS best_score,
                sum({_WEIGHT}) FILTER (score IS NOT NULL) / 1000000 / count(score) AS mean_score,
                min(date) AS first_date, max(date) AS last_date, any_value("symmetric") AS "symmetric", '' AS flag
            FROM single JOIN dates USING (document) GROUP BY head, label, tail HAVING count(*) >= ?
        )
        """,
        [min_count],
    )
    kept = connection.execute("SELECT coalesce(sum(n), 0) FROM edges").fetchall()[0][0]
    return count_rows(connection, "single") - int(kept)


def quote_sentences(connection: duckdb.DuckDBPyConnection) -> None:
    """Make ``quotes``: the text of each sentence that has a relation in ``single``.

    Python cuts a sentence in constant time, but DuckDB would count the characters before it.
    """
    places: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    rows = """
        SELECT DISTINCT document, sentence, start, "end" FROM single JOIN sentences USING (document, sentence)
        ORDER BY ALL
    """
    for document, *place in connection.execute(rows).fetchall():
        places[document].append(place)
    quotes: list[tuple[int, int, str]] = []
    found = connection.execute("SELECT document, text FROM documents WHERE text IS NOT NULL ORDER BY document")
    while batch := found.fetchmany(_BATCH):
        for document, text in batch:
            quotes += [(document, sentence, text[start:end]) for sentence, start, end in places.get(document, ())]
    pa = load_library("pyarrow")
    types = {"document": pa.int64(), "sentence": pa.int32(), "quote": pa.string()}
    columns = zip(*quotes, strict=True) if quotes else ((),) * 3
    arrays = [pa.array(list(values), kind) for values, kind in zip(columns, types.values(), strict=True)]
    connection.register("quotes", pa.table(arrays, names=list(types)))


def flag_edges(edges: pyarrow.Table, acyclic: Collection[str]) -> tuple[pyarrow.Table, dict[str, int]]:
    """Flag edges of acyclic relation types that contradict each other or form a cycle.

    Returns:
        The table of edges, and their number by flag.
    """
    networkx, np, pa = load_library("networkx"), load_library("numpy"), load_library("pyarrow")
    flags = np.full(edges.num_rows, "", dtype=object)
    known = pa.array(sorted(acyclic), pa.string())
    places = np.flatnonzero(load_library("pyarrow.compute").is_in(edges["label"], known).to_numpy())
    chosen = edges.select(["head", "label", "tail"]).take(pa.array(places))
    values, codes = _encode(chosen["label"])
    heads, tails = _encode_ends(chosen)
    for number in range(len(values)):
        rows = _on_cycles(np.flatnonzero(codes == number), heads, tails)
        pairs = set(zip(heads[rows].tolist(), tails[rows].tolist(), strict=True))
        groups = networkx.strongly_connected_components(networkx.DiGraph(pairs))
        group = {node: at for at, members in enumerate(groups) for node in members}
        for row in rows.tolist():
            head, tail = heads[row], tails[row]
            if (tail, head) in pairs:
                flags[places[row]] = "contradiction"
            elif group[head] == group[tail]:
                flags[places[row]] = "cycle"
    place = edges.column_names.index("flag")
    counts = {flag: int((flags == flag).sum()) for flag in ("contradiction", "cycle")}
    return edges.set_column(place, "flag", pa.array(flags, pa.string())), counts


def count_nodes(nodes: pyarrow.Table, mentions: pyarrow.Table, edges: pyarrow.Table, dates: Any) -> pyarrow.Table:
    """Return the table of nodes with their numbers of mentions, documents and edges, and with their dates.

    Args:
        nodes: Nodes in the order of their ids, each with a mention.
        mentions: Mentions in the order of nodes and documents.
        edges: The edges.
        dates: Date of each document, or None.
    """
    np, pa, pc = load_library("numpy"), load_library("pyarrow"), load_library("pyarrow.compute")
    _, node = _encode(mentions["node"])
    document = mentions["document"].to_numpy()
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    is_first = (np.diff(node, prepend=-1) != 0) | (np.diff(document, prepend=-1) != 0)
    known = sorted(set(dates) - {None})
    code = {date: number for number, date in enumerate(known)}
    codes = np.array([code.get(date, -1) for date in dates], dtype=np.int64)[document]
    last = np.maximum.reduceat(codes, starts) if len(starts) else codes
    # Without a date, the largest number stands for none.
    first = np.minimum.reduceat(np.where(codes < 0, len(known), codes), starts) if len(starts) else codes
    ends = pa.chunked_array([*edges["head"].chunks, *edges["tail"].chunks], pa.string())
    ids = nodes["node"].combine_chunks()
    degree = np.bincount(pc.index_in(ends, ids).to_numpy().astype(np.int64), minlength=nodes.num_rows)
    shown = pa.array([*known, None], pa.string())
    columns = {
        "n_mentions": pa.array(np.bincount(node, minlength=nodes.num_rows), pa.int64()),
        "n_documents": pa.array(np.bincount(node[is_first], minlength=nodes.num_rows), pa.int64()),
        "degree": pa.array(degree, pa.int64()),
        "first_date": shown.take(pa.array(first)),
        "last_date": shown.take(pa.array(np.where(last < 0, len(known), last))),
    }
    for name, values in columns.items():
        nodes = nodes.append_column(name, values)
    return nodes


def _on_cycles(rows: Any, heads: Any, tails: Any) -> Any:
    """Leave out edges whose head no edge leads to, or whose tail none leaves, again and again."""
    np = load_library("numpy")
    while True:
        left = rows[np.isin(heads[rows], tails[rows]) & np.isin(tails[rows], heads[rows])]
        if len(left) == len(rows):
            return rows
        rows = left


def _encode(column: pyarrow.ChunkedArray) -> tuple[Any, Any]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)


def _encode_ends(edges: pyarrow.Table) -> tuple[Any, Any]:
    """Return numbers that are the same for the same nodes, for heads and tails."""
    pa = load_library("pyarrow")
    _, codes = _encode(pa.chunked_array([*edges["head"].chunks, *edges["tail"].chunks], pa.string()))
    return codes[: edges.num_rows], codes[edges.num_rows :]


QUERIES = {
    "mentions": """
        SELECT node, document, document_id, entity, sentence, start, "end", placed.text, placed.label, score, model,
            step
        FROM placed JOIN nodes USING (root) JOIN documents USING (document) ORDER BY node, document, entity
    """,
    "edges": "SELECT * FROM edges ORDER BY edge",
    "evidence": """
        SELECT edge, f.document, document_id, relation, f.sentence,
            s.start AS sentence_start, s."end" AS sentence_end,
            quote AS sentence_text,
            head_start, head_end, head_text, tail_start, tail_end, tail_text, f.score, f.model, d.version, d.date,
            coalesce(f.status, 'asserted') AS status
        FROM single f JOIN edges e USING (head, label, tail) JOIN documents d USING (document)
        LEFT JOIN sentences s ON s.document = f.document AND s.sentence = f.sentence
        LEFT JOIN quotes q ON q.document = f.document AND q.sentence = f.sentence
        ORDER BY edge, f.document, relation
    """,
}
"""Queries of the tables that are written."""


def count_rows(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """Return the number of rows of a table."""
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])
