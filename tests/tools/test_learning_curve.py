"""The tool for learning curves: samples, order, results, table and plot. Trainings are replaced by their summary."""

import json
from pathlib import Path

import pytest
from tests.evaluation.saved_models import DOCUMENTS
from tools.learning_curve import ALL, Curve, Training, add_result, plan, plot, read_results, sample, summarise, table

from cascade_srn import read_documents, write_documents
from cascade_srn.errors import ConfigError, TrainingError
from cascade_srn.runs.children import Ended
from tools import learning_curve

F1 = {"ner": 0.5, "re_boundaries": 0.25, "re_strict": 0.125}
SCORES = {task: {"micro": {"precision": f1, "recall": f1, "f1": f1}} for task, f1 in F1.items()}
SUMMARY = {"dev": {"symmetric": "directed", **SCORES}, "seconds": 1.0}


def n_sentences(documents):
    return sum(len(document.sentences) for document in documents)


def result(start, size, seed, f1):
    dev = {"ner": f1, "re_boundaries": f1, "re_strict": f1}
    return {"start": start, "size": size, "seed": seed, "sentences": 60, "dev": dev}


def trainings_that_end_with(code):
    """Return a replacement of ``run_parallel`` that writes the summary of each training, or fails."""

    def run(commands, n_jobs, folder):
        for name, command in commands.items():
            settings = dict(word.split("=", 1) for word in command if "=" in word)
            output = Path(settings["output"])
            output.mkdir(parents=True)
            run.sizes.append(n_sentences(read_documents(settings["data.train"])))
            (output / "summary.json").write_text(json.dumps(SUMMARY))
            log = output / "log"
            log.write_text("out of memory\n")
            yield Ended(name, code, 1.0, log)

    run.sizes = []
    return run


@pytest.fixture
def curve(tmp_path):
    write_documents(DOCUMENTS, tmp_path / "train.jsonl")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"model: {{encoder: {{name: fresh}}}}\ndata: {{train: {tmp_path}/train.jsonl, dev: {tmp_path}/train.jsonl}}\n"
        f"output: {tmp_path}/run\n"
    )
    return Curve(tmp_path / "curve", recipe, [], {"fresh": ["model.encoder.name=fresh"]})


def test_small_sizes_come_first_and_seed_by_seed():
    trainings = plan(["a", "b"], ["50", "200", "500", ALL], small=200, seeds=2, large_seeds=1)
    assert [(t.size, t.seed) for t in trainings if t.start == "a"] == [
        ("50", 0), ("200", 0), ("50", 1), ("200", 1), ("500", 0), (ALL, 0)
    ]  # fmt: skip
    assert len({t.name for t in trainings}) == 12


def test_samples_are_nested_and_closest_to_their_size():
    documents = DOCUMENTS * 5
    small, large = sample(documents, "4", 1), sample(documents, "11", 1)
    assert large[: len(small)] == small
    longest = max(len(document.sentences) for document in DOCUMENTS)
    assert abs(n_sentences(small) - 4) <= longest / 2
    assert sorted(map(id, sample(documents, ALL, 1))) == sorted(map(id, documents))
    assert sample(documents, ALL, 1) != sample(documents, ALL, 2)


def test_finished_trainings_are_skipped(curve, monkeypatch):
    trainings = [Training("fresh", ALL, seed) for seed in (0, 1)]
    run = trainings_that_end_with(0)
    monkeypatch.setattr(learning_curve, "run_parallel", run)
    curve.run(trainings[:1], 1, "cpu")
    curve.run(trainings, 1, "cpu")
    assert [each["seed"] for each in read_results(curve.folder)] == [0, 1]
    assert run.sizes == [n_sentences(DOCUMENTS)] * 2
    assert read_results(curve.folder)[0]["dev"] == F1
    assert not list((curve.folder / "runs").iterdir())


def test_a_failed_training_is_reported_and_not_recorded(curve, monkeypatch):
    monkeypatch.setattr(learning_curve, "run_parallel", trainings_that_end_with(1))
    with pytest.raises(TrainingError, match="out of memory"):
        curve.run([Training("fresh", ALL, 0)], 1, "cpu")
    assert read_results(curve.folder) == []


def test_table_and_plot(tmp_path):
    for size, seed, f1 in (("100", 0, 0.5), ("50", 0, 0.1), ("50", 1, 0.2), (ALL, 0, 0.6)):
        add_result(tmp_path, result("news model", size, seed, f1))
    points = summarise(read_results(tmp_path), "dev")
    rows = [[cell.strip() for cell in line.split("|")[1:5]] for line in table(points).splitlines()[2:]]
    assert rows == [
        ["50", "news model", "2", "15.0 ± 7.1"],
        ["100", "news model", "1", "50.0"],
        ["60 (all)", "news model", "1", "60.0"],
    ]
    with pytest.raises(ConfigError):
        summarise(read_results(tmp_path), "test")
    pytest.importorskip("matplotlib")
    plot(points, tmp_path / "curve.svg", "dev")
    assert "news model" in (tmp_path / "curve.svg").read_text(encoding="utf-8")
