"""A synthetic graph of any size, made by DuckDB, to check that queries use the indexes."""

import duckdb

from cascade_srn.apps.graph.store import write_graph

# Node 0 has many edges; all others have few, as in real graphs.
_TABLES = {
    "nodes": """
        SELECT 'node-' || i AS node, 'name ' || i || ' of the graph' AS name,
            ['Method', 'Task', 'Metric'][1 + i % 3] AS label,
            4 AS n_mentions, 4 AS n_documents, 6 AS degree, '{}' AS votes, '2001' AS first_date, '2020' AS last_date,
            NULL AS identifier, NULL AS link
        FROM range({n}) AS t(i)""",
    "edges": """
        SELECT i AS edge, 'node-' || CASE WHEN i % 50 = 0 THEN 0 ELSE hash(i) % {n} END AS head,
            ['USED-FOR', 'PART-OF', 'COMPARE'][1 + i % 3] AS label, 'node-' || hash(i + 7) % {n} AS tail,
            1 + i % 5 AS n, 1 + i % 4 AS n_documents, 0.5 + i % 50 / 100 AS best_score,
            0.5 AS mean_score, '2001' AS first_date,
            '2020' AS last_date, i % 3 = 2 AS symmetric_, '' AS flag
        FROM range(3 * {n}) AS t(i)""",
    "mentions": """
        SELECT 'node-' || i % {n} AS node, i // 40 AS document, 'd' || i // 40 AS document_id,
            i % 40 AS entity, 0 AS sentence, 0 AS "start", 4 AS "end", 'name ' || i % {n} AS text, 'Method' AS label,
            0.9 AS score, 'm' AS model, 'text' AS step
        FROM range(4 * {n}) AS t(i)""",
    "evidence": """
        SELECT i % (3 * {n}) AS edge, i // 40 AS document, 'd' || i // 40 AS document_id, i % 40 AS relation,
            0 AS sentence, 0 AS sentence_start, 9 AS sentence_end, 'name name' AS sentence_text, 0 AS head_start,
            4 AS head_end, 'name' AS head_text, 5 AS tail_start, 9 AS tail_end, 'name' AS tail_text, 0.7 AS score,
            'm' AS model, '1' AS version, 'asserted' AS status, (2000 + i % 20)::VARCHAR AS date
        FROM range(4 * {n}) AS t(i)""",
    "merges": """
        SELECT 'node-' || i AS node, 'n' || i AS text, 'Method' AS label, 'name' AS into_text, 'Method' AS into_label,
            'fuzzy' AS step, 'similar' AS reason, 0.9 AS score
        FROM range({n} // 4) AS t(i)""",
    "documents": """
        SELECT i AS document, 'd' || i AS document_id, 's' AS shard, 's' AS input, i AS "row",
            (2000 + i % 20)::VARCHAR AS date, NULL AS title, 'name name' AS text
        FROM range({n} // 10) AS t(i)""",
}


def write_large_graph(folder, n_nodes):
    """Write a graph with this number of nodes, and three times as many edges."""
    with duckdb.connect() as connection:
        tables = {
            name: connection.sql(sql.replace("{n}", str(n_nodes))).to_arrow_table() for name, sql in _TABLES.items()
        }
    names = [name.removesuffix("_") for name in tables["edges"].column_names]
    tables["edges"] = tables["edges"].rename_columns(names)
    write_graph(folder, tables, {"settings": {}, "models": []})
    return folder
