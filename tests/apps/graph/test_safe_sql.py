"""SQL of clients that are not trusted."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("duckdb")

from cascade_srn.apps.graph.safe_sql import MAX_CELL, SafeSql
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.errors import ConfigError, DataError


@pytest.fixture
def sql(sample_graph):
    opened = SafeSql(sample_graph)
    yield opened
    opened.close()


def test_rows_are_limited(sql):
    found = sql.query("SELECT node, label FROM nodes ORDER BY node", limit=2)
    assert [row["node"] for row in found["rows"]] == ["b-bert-crf-b-method", "bert-crf-method"]
    assert found["truncated"]
    assert not sql.query("SELECT 1 FROM nodes", limit=5)["truncated"]
    assert sql.query("SELECT 1 AS a, 2 AS a, 'x'::BLOB AS b, DATE '2020-01-01' AS c, 'nan'::DOUBLE AS d")["rows"] == [
        {"a": 1, "a_1": 2, "b": "b'x'", "c": "2020-01-01", "d": None}
    ]
    found = sql.query(f"SELECT repeat('x', {MAX_CELL + 1}) AS text")
    assert (len(found["rows"][0]["text"]), found["truncated"]) == (MAX_CELL, True)
    with pytest.raises(ConfigError):
        sql.query("SELECT 1", limit=0)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY nodes TO '{folder}/stolen.csv'",
        "ATTACH '{folder}/other.db'",
        "CREATE TABLE memory.main.x AS SELECT 1",
        "DELETE FROM nodes",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "SELECT * FROM secret",
        "SELEC 1",
        "SELECT nothing FROM nodes",
        "",
    ],
)
def test_only_the_graph_can_be_read(sql, tmp_path, query):
    secret = [{"a": 1}]  # by default, DuckDB reads Python variables by name
    (tmp_path / "secret.csv").write_text("password\n1234\n")
    with pytest.raises(DataError) as caught:
        sql.query(query.format(file=tmp_path / "secret.csv", folder=tmp_path))
    assert "1234" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv"]
    assert secret


def test_long_queries_are_stopped(sample_graph):
    opened = SafeSql(sample_graph, seconds=0.3)
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE hash(a.range, b.range) = 1"
    with pytest.raises(DataError) as caught:
        opened.query(endless)
    assert "0.3 s" in caught.value.problem
    # Others are not stopped with it.
    done = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(opened.query, endless)
        while not done.wait(0.01) and not slow.done():
            assert len(opened.query("SELECT * FROM nodes")["rows"]) == 5
        with pytest.raises(DataError):
            slow.result()
    opened.close()


def test_memory_is_limited(sql):
    with pytest.raises(DataError):
        sql.query("SELECT len(list(range::VARCHAR || repeat('x', 1000))) FROM range(100000000)")


def test_other_readers_of_the_graph_keep_their_settings(sql, sample_graph):
    with open_graph(sample_graph) as graph:
        (row,) = graph.query("SELECT current_setting('enable_external_access') AS access")
    assert row["access"]
