import json
from pathlib import Path

import pytest
from tests.cli.conftest import failure, run
from tests.small_models import SENTENCES, small_encoder

from cascade_srn import write_documents
from cascade_srn.types import Document

ROOT = Path(__file__).parents[2]
SHORT = {
    "srn": ["--shapes", "2x4", "--input-width", "8", "--hidden-width", "4", "--repeats", "1"],
    "extract": ["--presets", "swift", "--repeats", "1", "--latency-sentences", "1"],
    "train": ["--presets", "swift", "--batch-sizes", "4", "--epochs", "1"],
    "growth": ["--lengths", "4,8", "--subjects", "1,2", "--subject-words", "4", "--factors", "1,2", "--repeats", "1"],
}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents([Document.from_sentences([sentence]) for sentence in SENTENCES], "data.jsonl")
    return tmp_path


def _arguments(name):
    over = [] if name == "srn" else ["--encoder", small_encoder(), "--data", "data.jsonl"]
    return [*SHORT[name], *over, "--device", "cpu"]


@pytest.mark.parametrize(
    "name", ["srn", *(pytest.param(name, marks=pytest.mark.slow) for name in SHORT if name != "srn")]
)
def test_each_writes_its_result_and_shows_a_table(name, workplace, capsys):
    assert run("benchmark", name, *_arguments(name)) == 0
    found = json.loads((workplace / "benchmarks" / "results" / f"{name}-cpu.json").read_text(encoding="utf-8"))
    assert found["name"] == name
    assert found["rows"]
    shown = capsys.readouterr().out
    assert f"{name} on" in shown
    assert f"written to benchmarks/results/{name}-cpu.json" in shown
    assert (workplace / "benchmarks" / "results" / "growth-cpu.png").is_file() == (name == "growth")


@pytest.mark.slow
def test_few_shot(workplace, capsys):
    for split in ("train", "dev"):
        write_documents([Document.from_sentences([s]) for s in SENTENCES], f"field-{split}.jsonl")
    command = (
        "benchmark",
        "few-shot",
        "--data",
        "field",
        "--starts",
        "",
        "--encoders",
        small_encoder(),
        "--device",
        "cpu",
    )
    assert run(*command, "--sizes", "3", "--seeds", 1, "--no-plot") == 0
    path = workplace / "benchmarks" / "results" / "few-shot-cpu.json"
    (row,) = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert row["trainings"][0]["dev"]["ner"] >= 0
    assert f"written to {path.relative_to(workplace)}" in capsys.readouterr().out
    assert run(*command, "--sizes", "3", "--seeds", 2, "--processes", 2, "--no-plot") == 0
    (more,) = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert more["trainings"][0] == row["trainings"][0]
    assert len(more["trainings"]) == 2


@pytest.mark.slow
def test_teach(workplace, capsys):
    for split in ("train", "dev"):
        write_documents([Document.from_sentences([s]) for s in SENTENCES], f"field-{split}.jsonl")
    options = ("--data", "field", "--starts", "", "--encoders", small_encoder(), "--device", "cpu", "--epochs", 1)
    command = ("benchmark", "teach", *options, "--sizes", "4", "--teachers", "80/75+50/40", "--checked", 0.5)
    assert run(*command) == 0
    path = workplace / "benchmarks" / "results" / "teach-cpu.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["labels"] for row in rows] == ["gold", "80/75+50/40", "80/75+50/40 checked"]
    assert all(row["trainings"][0]["dev"]["ner"] >= 0 for row in rows)
    assert path.with_suffix(".svg").is_file()
    assert "plot in benchmarks/results/teach-cpu.svg" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*SHORT, "corpus", "few-shot", "serve", "teach"])
def test_each_is_documented_by_its_command(name):
    for path in ("docs/benchmarks.md", "benchmarks/README.md"):
        assert f"cascade-srn benchmark {name} " in (ROOT / path).read_text(encoding="utf-8").replace("`", " ")


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["srn", "--device", "gpu"], "'gpu'"),
        (["extract", "--presets", "swfit"], "'swift'"),
        (["extract", "--data", "no.jsonl"], "no.jsonl"),
        (["train", "--batch-sizes", "8;16"], "--batch-sizes"),
        (["growth", "--precision", "half"], "'half'"),
        (["corpus", "--splits", "2x1"], "--splits"),
        (["teach", "--data", "x", "--checked", "2"], "--checked"),
    ],
)
def test_unknown_values_are_one_line(arguments, data, workplace, capsys):
    assert data in failure(capsys, "benchmark", *arguments)
