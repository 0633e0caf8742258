"""``cascade-srn project`` and ``annotate``: creation, status, exchange and agreement."""

import json

import pytest
from tests.apps.annotation.projects import MARKED
from tests.cli.conftest import failure, run

from cascade_srn.apps.annotation.annotations import Annotation
from cascade_srn.apps.annotation.project import Project


@pytest.fixture
def made(tmp_path, capsys):
    """A project made by the command from a text and a table."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("We train a CRF for tagging. It works.")
    (tmp_path / "texts" / "empty.txt").write_text(" \n")
    (tmp_path / "rows.csv").write_text("doi,abstract\n10/x,Parsing is slow.\n")
    (tmp_path / "labels.yaml").write_text("entities: [Method, Task]\nrelations: [USED-FOR]")
    (tmp_path / "rules.md").write_text("# Rules")
    options = ["--labels", tmp_path / "labels.yaml", "--guidelines", tmp_path / "rules.md", "--name", "Mine"]
    options += ["--field", "abstract", "--id-field", "doi"]
    assert run("project", "create", tmp_path / "p", tmp_path / "texts", tmp_path / "rows.csv", *options) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("2 documents, 3 sentences, 0 annotated")
    assert "no words" in printed.err
    return tmp_path / "p"


def annotate(folder, *names):
    with Project.open(folder) as project:
        for name in names:
            project.save("a", name, MARKED)


def test_status(made, capsys):
    annotate(made, "anna")
    assert run("project", "status", made) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Mine: 2 documents, 3 sentences, 1 done\n")
    assert "anna: 1 documents done" in printed
    assert run("project", "status", made, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["documents"], found["annotators"], found["model"]) == (2, {"anna": 1}, None)


def test_texts_are_added_once(made, tmp_path, capsys):
    (tmp_path / "texts" / "b.txt").write_text("Another text.")
    for n_added in (1, 0):
        assert run("project", "add", made, tmp_path / "texts") == 0
        assert capsys.readouterr().out.startswith(f"{n_added} documents added, 3 in all")
    (tmp_path / "texts" / "a.txt").write_text("Changed.")
    assert run("project", "add", made, tmp_path / "texts" / "a.txt") == 2


def test_export_create_and_import(made, tmp_path, capsys):
    annotate(made, "anna")
    assert run("project", "export", made, tmp_path / "out.jsonl") == 0
    assert run("project", "import", made, tmp_path / "out.jsonl", "--annotator", "ben") == 0
    assert run("project", "agreement", made) == 0
    assert "entities: F1 100.0" in capsys.readouterr().out
    assert run("project", "create", tmp_path / "q", "--data", tmp_path / "out.jsonl") == 0
    with Project.open(tmp_path / "q") as copy:
        assert copy.labels.schema.relation_types == ("USED-FOR",)
        assert copy.count_done("imported") == 1


def test_agreement(made, capsys):
    annotate(made, "anna")
    with Project.open(made) as project:
        project.save("a", "ben", Annotation(0, "done", entities=MARKED.entities[:1]))
    assert run("project", "agreement", made, "anna", "ben", "--json") == 0
    assert json.loads(capsys.readouterr().out)["entities"]["n_both"] == 1
    assert run("project", "agreement", made, "anna", "ben", "--limit", "1") == 0
    printed = capsys.readouterr()
    assert "a, sentence 1: 'tagging' Task / nothing" in printed.out
    assert "1 more" in printed.err


def test_errors(made, tmp_path, capsys):
    texts = tmp_path / "texts"
    assert "--labels" in failure(capsys, "project", "create", tmp_path / "q", texts)
    assert str(made) in failure(capsys, "project", "create", made, texts, "--labels", tmp_path / "labels.yaml")
    assert "--held-out" in failure(
        capsys, "project", "create", tmp_path / "q", texts, "--labels", tmp_path / "labels.yaml", "--held-out", "1"
    )
    failure(capsys, "project", "create", tmp_path / "q", "--labels", tmp_path / "labels.yaml")
    failure(capsys, "project", "status", tmp_path)
    failure(capsys, "project", "export", made, tmp_path / "out.jsonl")
    failure(capsys, "project", "agreement", made)
    failure(capsys, "project", "train", made)
    failure(capsys, "annotate", tmp_path / "none")
    failure(capsys, "annotate", made, "--labels", tmp_path / "labels.yaml")
    failure(capsys, "annotate", made, "--port", "70000")
    assert not (tmp_path / "q").exists()
