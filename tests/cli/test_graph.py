import json

import pytest
from tests.apps.graph.documents import DOCUMENTS, document, write_lines
from tests.cli.conftest import failure, run

pytest.importorskip("duckdb")


@pytest.fixture
def graph(tmp_path, capsys):
    """Folder of a graph that the command has built."""
    lines = write_lines(DOCUMENTS, tmp_path / "in.jsonl")
    assert run("graph", "build", lines, "--output", tmp_path / "graph", "--date-field", "id", "--no-fuzzy") == 0
    capsys.readouterr()
    return tmp_path / "graph"


def test_build_prints_counts(tmp_path, capsys):
    lines = write_lines(DOCUMENTS, tmp_path / "in.jsonl")
    (tmp_path / "aliases.csv").write_text("canonical,alias\nx,unheard of\n")
    options = ("--aliases", tmp_path / "aliases.csv", "--symmetric", "COMPARE, X", "--min-score", "0.2")
    assert run("graph", "build", lines, "--output", tmp_path / "graph", *options) == 0
    printed = capsys.readouterr()
    assert "10 nodes and 8 edges" in printed.out
    assert "contradiction 2, cycle 3" in printed.out
    assert printed.err.count("Note: ") == 2
    record = json.loads((tmp_path / "graph" / "graph.json").read_text())
    assert record["settings"]["aliases"] == "aliases.csv"
    assert record["symmetric"] == ["COMPARE"]


def test_explain(graph, capsys):
    assert run("graph", "explain", graph, "ner") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("named-entity-recognition-task: named entity recognition (Task)\n")
    assert "acronym  NER (Task) into named entity recognition (Task): defined in 2 documents" in printed
    assert run("graph", "explain", graph, "crf-method", "--json") == 0
    assert json.loads(capsys.readouterr().out)["node"]["n_mentions"] == 4


def test_mistakes_are_reported(graph, tmp_path, capsys):
    lines = tmp_path / "in.jsonl"
    assert "--overwrite" in failure(capsys, "graph", "build", lines, "--output", graph)
    assert "--date-field" in failure(capsys, "graph", "build", lines, "--output", tmp_path / "g", "--date-field", "day")
    assert "--min-count" in failure(capsys, "graph", "build", lines, "--output", tmp_path / "g", "--min-count", 0)
    failure(capsys, "graph", "build", tmp_path / "missing", "--output", tmp_path / "g")
    failure(capsys, "graph", "build", lines, "--output", tmp_path / "g", "--schema", tmp_path)
    failure(capsys, "graph", "explain", tmp_path, "x")
    assert "Did you mean" in failure(capsys, "graph", "explain", graph, "crf-metod")
    assert not (tmp_path / "g").exists()


def test_documents_come_and_go(graph, tmp_path, capsys):
    new = write_lines([document("e", ("A [GAN/M] .", []))], tmp_path / "new.jsonl")
    assert run("graph", "update", graph, new) == 0
    assert "1 added, 0 replaced, 0 removed\n" in capsys.readouterr().out
    (tmp_path / "ids.txt").write_text("2019.a\n\nd\n")
    assert run("graph", "remove", graph, "--ids", "2020.b", "--ids", f"@{tmp_path / 'ids.txt'}") == 0
    assert "0 added, 0 replaced, 3 removed\n" in capsys.readouterr().out
    assert "no document 'x'" in failure(capsys, "graph", "remove", graph, "--ids", "x")
    assert "--ids" in failure(capsys, "graph", "remove", graph)
    assert "does not exist" in failure(capsys, "graph", "update", graph, tmp_path / "missing")
    assert "`graph update`" in failure(capsys, "graph", "sync", graph, tmp_path)
    assert "form NAME=VALUE" in failure(capsys, "graph", "sync", tmp_path / "new", tmp_path, "--set", "x")
    assert "no setting 'date'" in failure(capsys, "graph", "sync", tmp_path / "new", tmp_path, "--set", "date=x")
