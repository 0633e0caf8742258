import json
from pathlib import Path

import pytest
from tests.cli.conftest import failure, run

from cascade_srn.lab.reproduction.options import VARIANTS
from cascade_srn.lab.reproduction.run import TimedModel
from cascade_srn.lab.reproduction.tables import TABLES
from cascade_srn.training.run_folder import SUMMARY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The folder with all tables from one epoch and one seed of each variant, and the arguments that made it."""
    folder = tmp_path_factory.mktemp("quick")
    # One epoch teaches little. Low thresholds make sure that there is something to measure.
    low = {"entity": 0.12, "subject": 0.1, "object": 0.05}
    changes = ["training.epochs=1", "training.calibrate=false", *(f"model.thresholds.{t}={low[t]}" for t in low)]
    shorter = [part for change in changes for part in ("--set", change)]
    arguments = ("all", "--quick", "--seeds", 1, *shorter, "--repeats", 1, "--device", "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert run("reproduce", *arguments, "--output", folder) == 0
    return folder, arguments


def _record(folder, name):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_quick_look_fills_every_table(quick, name):
    folder, _ = quick
    table, record = TABLES[name], _record(folder, name)
    for row, wanted in zip(record["rows"], table.rows, strict=True):
        measured = set(table.our_columns) - set(wanted.without) if wanted.variant else set()
        assert set(row["ours"]) == measured
        assert row["paper"] == dict(wanted.paper)
    assert [claim["claim"] for claim in record["claims"]] == [claim.statement for claim in table.claims]
    for claim in record["claims"]:
        assert claim["outcome"] in ("held", "not shown", "contradicted")
        assert (claim["p_value"] is None) == (claim["figure"] == "speed")
        assert claim["interval"]["low"] <= claim["interval"]["high"]
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert text in (folder / "results.md").read_text(encoding="utf-8")
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_each_variant_is_trained_once(quick):
    folder, _ = quick
    assert {path.parents[1].name for path in folder.rglob(SUMMARY)} == set(VARIANTS)
    assert len(list(folder.rglob(SUMMARY))) == len(VARIANTS)
    # One and the same figure in every table that has it.
    figures = {
        (row["variant"], column): found["values"]
        for name in TABLES
        for row in _record(folder, name)["rows"]
        for column, found in row["ours"].items()
    }
    for name in TABLES:
        for row in _record(folder, name)["rows"]:
            for column, found in row["ours"].items():
                assert found["values"] == figures[row["variant"], column]
    assert sum(value > 0 for (_, column), values in figures.items() if column == "ner" for value in values) > 5
    summary = json.loads((folder / "runs" / "late" / "seed-0" / SUMMARY).read_text(encoding="utf-8"))
    assert figures["late", "ner"] == pytest.approx([summary["test"]["ner"]["micro"]["f1"]])


@pytest.mark.slow
def test_speed_is_measured_alike(quick):
    folder, _ = quick
    speed = _record(folder, "speed")
    assert set(speed["rows"]) == {"early", "late", "swift", "hybrid", "pfn", "pipeline"}
    assert speed["settings"]["batch_words"] == 4096
    assert speed["environment"]["precision"] == "float32"
    assert {row["n_sentences"] for row in speed["rows"].values()} == {54}
    for row in speed["rows"].values():
        assert row["sentences_per_second"] == pytest.approx(54 / row["median_s"])


@pytest.mark.slow
def test_again_is_only_reading(quick, capsys, monkeypatch):
    folder, arguments = quick
    monkeypatch.chdir(ROOT)
    before = {name: _record(folder, name) for name in (*TABLES, "speed")}
    assert run("reproduce", *arguments, "--output", folder) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("13 runs ")
    assert "## Relation errors by kind" in printed
    for name, record in before.items():
        again = _record(folder, name)
        assert again == record, name


@pytest.mark.slow
def test_speed_is_measured_again_where_it_would_be_another(quick, capsys, monkeypatch):
    folder, arguments = quick
    monkeypatch.chdir(ROOT)
    taken, predict = [], TimedModel.predict
    monkeypatch.setattr(TimedModel, "predict", lambda loaded: taken.append(loaded) or predict(loaded))
    assert run("reproduce", "fusion", *arguments[1:], "--batch-words", 64, "--output", folder) == 0
    assert "early, late, swift, hybrid, pfn, pipeline" in capsys.readouterr().out
    record = _record(folder, "speed")
    assert record["settings"]["batch_words"] == 64
    # In turns: one that warms up, those that count, and what was found.
    assert len(set(taken)) == 6
    assert taken == taken[:6] * (1 + record["settings"]["repeats"] + 1)


@pytest.mark.slow
def test_dry_run(quick, tmp_path, capsys, monkeypatch):
    folder, arguments = quick
    monkeypatch.chdir(ROOT)
    assert run("reproduce", *arguments, "--seeds", 2, "--output", folder, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("13 of 26 runs")
    assert next(line for line in lines if line.startswith("bilstm")).split()[:4] == ["bilstm", "0", "–", "1"]
    assert run("reproduce", "main", "--quick", "--output", tmp_path / "x", "--dry-run") == 0
    assert not (tmp_path / "x").exists()


def test_list(capsys):
    assert run("reproduce", "list") == 0
    printed = capsys.readouterr().out
    assert all(f"{name}: " in printed for name in (*TABLES, "all"))
    assert "pipeline, pfn, late, early" in printed


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["mains"], "'main'"),
        (["list", "main"], "'list'"),
        (["main", "--quick", "--data", "x"], "data"),
        (["main", "--recipe", "nowhere.yaml"], "'nowhere.yaml'"),
        (["main", "--data", "nowhere"], "'nowhere'"),
        (["main", "--quick", "--set", "training.epoch=1"], "training.epochs"),
        (["main", "--quick", "--set", "model.fusion=late"], "model.fusion=late"),
        (["main", "--quick", "--seeds", "0"], "seeds is 0"),
        (["main", "--quick", "--device", "tpu9", "--output", "/nonexistent/x"], "'tpu9'"),
    ],
)
def test_errors_are_one_line(capsys, monkeypatch, arguments, data):
    monkeypatch.chdir(ROOT)
    assert data in failure(capsys, "reproduce", *arguments)
