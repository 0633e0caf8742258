import json

import pytest
from tests.apps.annotation.test_selection import TEXTS
from tests.apps.extract.models import model_folder
from tests.cli.conftest import failure, run

from cascade_srn import read_documents


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(TEXTS)))
    return path


def test_without_a_model(texts, tmp_path, capsys):
    assert run("select", texts, "--n", "2") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["selection"]["rank"] for record in records] == [1, 2]


def test_with_a_model(texts, tmp_path, capsys):
    output = tmp_path / "tasks.json"
    assert run("select", texts, "-n", 2, "--model", model_folder(), "--device", "cpu", "--output", output) == 0
    tasks = json.loads(output.read_text())
    assert [task["data"]["rank"] for task in tasks] == [1, 2]
    assert all(task["predictions"] for task in tasks)
    assert str(output) in capsys.readouterr().err


def test_documents_and_annotated_ones(texts, tmp_path, capsys):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    options = ("--unit", "document", "--strategy", "random", "--seed", "3")
    assert run("select", texts, *options, "--n", 1, "--output", first) == 0
    assert run("select", texts, *options, "--annotated", first, "--output", second) == 0
    ids = [[document.id for document in read_documents(path)] for path in (first, second)]
    assert sorted(ids[0] + ids[1]) == ["d0", "d1", "d2"]
    assert "not 200" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--strategy", "uncertainty"], "--model"), (["--strategy", "no"], "no"), (["--unit", "no"], "no"),
        (["--n", 0], "0"), (["--max-words", 2], "--max-words"), (["--min-words", 90], "--min-words"),
        (["--annotated", "missing.jsonl"], "missing.jsonl"),
        (["--output", "missing/no.jsonl"], "missing"),
        (["--format", "brat"], "brat"),
        (["--output", "a.jsonl.gz"], "a.jsonl.gz"),
    ],
)  # fmt: skip
def test_errors_are_one_line(texts, capsys, arguments, named):
    assert named in failure(capsys, "select", texts, *arguments)
