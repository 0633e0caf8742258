import csv
import io
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


def test_a_vocabulary(tmp_path, capsys):
    lines = write_lines(DOCUMENTS, tmp_path / "in.jsonl")
    (tmp_path / "v.csv").write_text("id,name,type\nN7,NER,Task\nM1,CRF,Method\nM2,CRF,\n")
    options = ("--vocabulary", tmp_path / "v.csv", "--output", tmp_path / "graph")
    assert run("graph", "build", lines, *options) == 0
    assert "linked: exact 1, ambiguous 1, unlinked 8" in capsys.readouterr().out
    assert run("graph", "explain", tmp_path / "graph", "N7") == 0
    assert "Vocabulary\nN7: NER (exact, 1)\n" in capsys.readouterr().out
    assert run("graph", "neighbours", tmp_path / "graph", "N7", "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["tail_identifier"] for row in rows} == {"N7"}
    assert run("graph", "remove", tmp_path / "graph", "--ids", "d") == 0
    assert "linked: exact 2, ambiguous 1, unlinked" in capsys.readouterr().out
    for name in ("missing.csv", "in.jsonl", "x.doc"):
        found = failure(capsys, "graph", "build", lines, "--output", tmp_path / "g", "--vocabulary", tmp_path / name)
        assert name in found


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


def test_triples(graph, capsys):
    ask = ("graph", "triples", graph, "--head-type", "Method", "--relation", "USED-FOR")
    assert run(*ask, "--evidence", 1) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["head", "relation", "tail", "documents", "score"]
    assert printed[1].split()[-2:] == ["2", "0.90"]
    assert printed[2].startswith("    2019.a: We train a CRF")
    assert run(*ask, "--tail", "NER", "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["tail_name"], row["n_documents"]) == ("named entity recognition", 2)
    assert run(*ask, "--by", "year", "--format", "csv", "--evidence", 1) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["year"], row["head_name"], row["document_id"]) for row in rows] == [
        ("2019", "CRF", "2019.a"),
        ("2020", "CRF", "2020.b"),
    ]


def test_neighbours(graph, capsys):
    assert run("graph", "neighbours", graph, "CRF", "--top", 1) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert "1 more" in printed.err
    assert run("graph", "neighbours", graph, "CRF", "--type", "Task", "--format", "csv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_path(graph, capsys):
    assert run("graph", "path", graph, "LSTM", "ner") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1. LSTM – CRF – named entity recognition"
    assert printed[1].strip() == "CRF –COMPARE– LSTM (2)"
    assert run("graph", "path", graph, "LSTM", "ner", "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["path"], row["step"], row["relation"]) for row in rows] == [
        ("1", "1", "COMPARE"),
        ("1", "2", "USED-FOR"),
    ]
    assert run("graph", "path", graph, "LSTM", "kernel") == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no path" in printed.err


def test_trends(graph, tmp_path, capsys):
    assert run("graph", "trends", graph, "CRF", "LSTM", "--plot", tmp_path / "trends.svg") == 0
    printed = [line.rsplit(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == ["documents", "2019", "2020", "2021"]
    assert printed[1] == ["CRF", "1", "1", "1"]
    assert printed[2:] == [["LSTM", "0", "1", "1"], ["all documents", "1", "1", "1"]]
    assert (tmp_path / "trends.svg").read_text().lstrip().startswith("<?xml")
    assert run("graph", "trends", graph, "--type", "Method", "--top", 1, "--format", "csv") == 0
    assert {row["name"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))} == {"CRF"}


def test_mistakes_in_questions_are_reported(graph, tmp_path, capsys):
    assert "Did you mean" in failure(capsys, "graph", "triples", graph, "--head", "encodr")
    assert "entity type" in failure(capsys, "graph", "neighbours", graph, "Method")
    assert "Method" in failure(capsys, "graph", "triples", graph, "--head-type", "Methods")
    assert "USED-FOR" in failure(capsys, "graph", "neighbours", graph, "CRF", "--relation", "USED")
    failure(capsys, "graph", "path", graph, "CRF", "crf-method")
    assert "csv" in failure(capsys, "graph", "path", graph, "CRF", "LSTM", "--format", "xml")
    assert "year" in failure(capsys, "graph", "triples", graph, "--by", "month")
    assert "--plot" in failure(capsys, "graph", "trends", graph, "CRF", "--plot", tmp_path / "x.gif")


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
