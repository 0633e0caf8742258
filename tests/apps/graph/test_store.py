import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.store import check_target, open_graph, read_record, write_graph
from cascade_srn.apps.graph.tables import TABLES, table_schema
from cascade_srn.errors import DataError

duckdb = pytest.importorskip("duckdb")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def graph(sample_graph):
    with open_graph(sample_graph) as graph:
        yield graph


def test_the_database_has_the_rows_of_the_parquet_files(graph, sample_graph):
    for name in TABLES:
        rows = parquet.read_table(sample_graph / f"{name}.parquet")
        assert rows.schema == table_schema(name)
        assert graph.query(f"SELECT * FROM {name}") == rows.to_pylist()
        assert graph.record["counts"][name] == rows.num_rows
        assert rows.num_rows > 0 or name == "links"


def test_offsets_of_mentions_and_evidence_point_to_their_texts(graph):
    for row in graph.query("SELECT m.*, d.text AS whole FROM mentions m JOIN documents d USING (document)"):
        assert row["whole"][row["start"] : row["end"]] == row["text"]
    for row in graph.query("SELECT e.*, d.text AS whole FROM evidence e JOIN documents d USING (document)"):
        assert row["whole"][row["sentence_start"] : row["sentence_end"]] == row["sentence_text"]
        for role in ("head", "tail"):
            assert row["whole"][row[f"{role}_start"] : row[f"{role}_end"]] == row[f"{role}_text"]
            assert row["sentence_start"] <= row[f"{role}_start"] < row[f"{role}_end"] <= row["sentence_end"]


def test_columns_of_the_same_name_are_all_returned(graph):
    (row,) = graph.query("SELECT 1 AS a, 2 AS a, 3 AS b, 4 AS a_1, 5 AS a, ? AS b", [6])
    assert row == {"a": 1, "a_2": 2, "b": 3, "a_1": 4, "a_3": 5, "b_1": 6}
    for row in graph.query("SELECT * FROM edges JOIN nodes ON head = node"):
        assert (row["label"], row["label_1"]) == (graph.edge(row["edge"])["label"], graph.node(row["head"])["label"])


def test_an_unknown_node_suggests_one(graph):
    with pytest.raises(DataError) as caught:
        graph.node("crf-metho")
    assert "crf-method" in caught.value.hint
    with pytest.raises(DataError):
        graph.edge(99)


def test_neighbours_are_filtered(graph):
    def ends(**filters):
        return {row["neighbour"] for row in graph.neighbours("bert-crf-method", Filters(**filters))}

    assert ends() == {"crf-method", "lstm-method", "named-entity-recognition-task"}
    assert ends(relations=("COMPARE",)) == {"lstm-method"}
    assert ends(types=("Task",)) == {"named-entity-recognition-task"}
    assert ends(min_score=0.75) == {"crf-method", "named-entity-recognition-task"}
    assert ends(min_count=2) == set()
    assert ends(first_year=2020) == {"lstm-method", "named-entity-recognition-task"}
    assert ends(last_year=2019) == {"crf-method"}
    assert len(graph.neighbours("bert-crf-method", limit=1)) == 1


def test_a_score_that_equals_the_minimum_passes(graph):
    # Scores are stored with single precision, and 0.9 is a little less than that there.
    assert [row["neighbour"] for row in graph.neighbours("CRF", Filters(min_score=0.9))] == [
        "named-entity-recognition-task"
    ]
    assert graph.to_networkx(min_score=0.9).number_of_edges() == 1


def test_explain_has_forms_merges_and_mentions(graph):
    found = graph.explain("named-entity-recognition-task")
    assert [(row["text"], row["n"]) for row in found["forms"]] == [("NER", 2), ("named entity recognition", 1)]
    assert [row["step"] for row in found["merges"]] == ["acronym"]
    assert len(found["mentions"]) == found["node"]["n_mentions"] == 3


def test_evidence_has_titles_and_the_best_first(graph):
    for edge in graph.query("SELECT * FROM edges"):
        rows = graph.evidence(edge["edge"])
        assert len(rows) == edge["n"]
        assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert graph.evidence(5)[0]["title"] == "Paper 2019.a"


def test_networkx_has_no_empty_values(graph):
    pytest.importorskip("networkx")
    whole = graph.to_networkx()
    assert (whole.number_of_nodes(), whole.number_of_edges()) == (5, 6)
    assert all(value is not None for _, values in whole.nodes(data=True) for value in values.values())
    assert whole.edges["bert-crf-method", "lstm-method", 1]["label"] == "COMPARE"
    assert set(graph.to_networkx(min_score=0.85)) == {"crf-method", "named-entity-recognition-task"}


def test_threads_may_share_a_graph(graph):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: len(graph.neighbours("crf-method")), range(40)))
    assert found == [3] * 40


def test_a_table_that_cannot_be_written_leaves_no_graph(sample_graph, tmp_path, monkeypatch):
    def refuse(table, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("cascade_srn.apps.graph.store.write_table", refuse)
    tables = {name: parquet.read_table(sample_graph / f"{name}.parquet") for name in TABLES}
    with pytest.raises(OSError, match="No space"):
        write_graph(tmp_path / "new", tables, {}, database=lambda path: True)
    assert list(tmp_path.iterdir()) == []


def test_only_graphs_are_replaced(sample_graph, tmp_path):
    tables = {name: parquet.read_table(sample_graph / f"{name}.parquet") for name in TABLES}
    folder = tmp_path / "graph"
    write_graph(folder, tables, {"settings": {"a": 1}})
    with pytest.raises(DataError) as caught:
        write_graph(folder, tables, {})
    assert caught.value.option == "overwrite"
    write_graph(folder, tables, {"settings": {"a": 2}}, overwrite=True)
    assert read_record(folder)["settings"] == {"a": 2}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    for target in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(DataError):
            check_target(target, overwrite=True)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"graph_version": 99}', "{"])
def test_a_folder_that_is_no_graph_is_refused(tmp_path, content):
    with pytest.raises(DataError):
        open_graph(tmp_path)
    (tmp_path / "graph.json").write_text(content)
    with pytest.raises(DataError):
        open_graph(tmp_path)


def test_a_damaged_database_is_reported(sample_graph, tmp_path):
    (tmp_path / "graph.json").write_text(json.dumps(read_record(sample_graph)))
    (tmp_path / "graph.duckdb").write_bytes(b"damaged" * 1000)
    with pytest.raises(DataError):
        open_graph(tmp_path)
