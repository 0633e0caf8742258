import json

import pytest
from tests.training.runs import write_recipe

from cascade_srn import Extractor
from cascade_srn.cli import main

BASELINES = ("pfn", "table-srn", "pipeline")


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code or 0


@pytest.fixture(scope="module", params=BASELINES)
def trained(request, tmp_path_factory):
    """Train a run to a useful score, without calibration."""
    folder = tmp_path_factory.mktemp(request.param)
    training = {
        "epochs": 40,
        "batch_size": 6,
        "learning_rate": 0.01,
        "encoder_learning_rate": 0.005,
        "calibrate": False,
    }
    recipe = write_recipe(folder, model={"dropout": 0.0, "thresholds": {}}, training={**training, "evaluate_steps": 20})
    assert run("train", recipe, f"model.method={request.param}", "--device", "cpu") == 0
    return request.param, folder


@pytest.mark.slow
def test_the_run_folder(trained):
    method, folder = trained
    summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["recipe"]["model"]["method"] == method
    assert summary["dev"]["ner"]["micro"]["f1"] > 0.5
    log = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {"loss_entity", "loss_object"} <= set(log[0])
    assert all(line["loss_subject"] == 0 for line in log)
    assert log[-1]["loss_entity"] < 0.5 * log[0]["loss_entity"]


@pytest.mark.slow
def test_the_best_model_evaluates_and_extracts(trained, capsys):
    _, folder = trained
    assert run("evaluate", folder / "run" / "best", folder / "dev.jsonl", "--json", folder / "scores.json") == 0
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
    found = scores["models"][0]["scores"]["directed"]
    assert found["ner"]["micro"]["f1"] == pytest.approx(summary["dev"]["ner"]["micro"]["f1"])
    assert run("evaluate", folder / "run" / "best", folder / "dev.jsonl", "--gold-entities") == 0
    extractor = Extractor.from_pretrained(folder / "run" / "best")
    assert extractor.extract("Ada Berg leads Norlux in Oslo .").entities
    capsys.readouterr()


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("model.method=pnf", ("'pnf'", "cascade, pfn, table-srn, pipeline")),
        ("training.negatives=0.5", ("negatives", "0.5", "'pfn'")),
        ("training.candidates=subjects", ("candidates", "'subjects'", "'pfn'")),
    ],
)
def test_errors(override, parts, tmp_path, capsys):
    recipe = write_recipe(tmp_path)
    assert run("train", recipe, "model.method=pfn", override, "--device", "cpu") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert error.startswith("Error: ")
    assert all(part in error for part in parts)
