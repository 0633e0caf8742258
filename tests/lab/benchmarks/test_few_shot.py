"""The few-shot benchmark: corpora, samples, going on, table and plot. Most trainings are replaced by their summary."""

import json
from pathlib import Path

import pytest
from tests.evaluation.saved_models import DOCUMENTS
from tests.small_models import small_encoder

from cascade_srn import read_documents, write_documents
from cascade_srn.errors import ConfigError, DataError, TrainingError
from cascade_srn.lab.benchmarks import few_shot, trainings
from cascade_srn.lab.benchmarks.few_shot import FewShot, plot_few_shot
from cascade_srn.lab.benchmarks.options import ALL, FewShotOptions
from cascade_srn.lab.benchmarks.trainings import find_corpora, sample
from cascade_srn.runs.children import Ended
from cascade_srn.training.recipe import load_recipe

F1 = {"ner": 0.5, "re_boundaries": 0.25, "re_strict": 0.125}
SCORES = {task: {"micro": {"f1": f1}} for task, f1 in F1.items()}


def n_sentences(documents):
    return sum(len(document.sentences) for document in documents)


def trainings_that_end_with(code):
    """Return a replacement of ``run_parallel`` that writes the summary of each training, or fails."""

    def run(commands, n_jobs, folder):
        for name, command in commands.items():
            recipe = load_recipe(command[1])
            run.sizes.append(n_sentences(read_documents(recipe.data.train)))
            Path(recipe.output).mkdir()
            summary = {"dev": SCORES, "test": SCORES, "seconds": 1.0}
            (Path(recipe.output) / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
            log = Path(recipe.output).with_suffix(".log")
            log.write_text("out of memory\n", encoding="utf-8")
            yield Ended(name, code, 1.0, log)

    run.sizes = []
    return run


@pytest.fixture
def corpus(tmp_path):
    for split in ("train", "dev", "test"):
        write_documents(DOCUMENTS, tmp_path / f"field-{split}.jsonl")
    return tmp_path


def options(corpus, **changes):
    values = {"data": (str(corpus / "field"),), "starts": (), "encoders": (small_encoder(),), "seeds": 1}
    return FewShotOptions(**{**values, "sizes": (ALL,), "device": "cpu", **changes})


def test_corpora_of_a_folder_and_of_a_name(corpus):
    write_documents(DOCUMENTS, corpus / "train.jsonl")
    with pytest.raises(DataError, match="dev.jsonl"):
        find_corpora(str(corpus))
    write_documents(DOCUMENTS, corpus / "dev.jsonl")
    assert list(find_corpora(str(corpus))) == ["field", corpus.name]
    found = find_corpora(str(corpus / "field"))
    assert list(found) == ["field"]
    assert found["field"].splits == {s: str(corpus / f"field-{s}.jsonl") for s in ("train", "dev", "test")}
    for missing in ("other", "no/folder"):
        with pytest.raises(DataError, match="no file to train on"):
            find_corpora(str(corpus / missing))


def test_samples_are_nested_and_closest_to_their_size():
    documents = DOCUMENTS * 5
    small, large = sample(documents, "4", 1), sample(documents, "11", 1)
    assert large[: len(small)] == small
    longest = max(len(document.sentences) for document in DOCUMENTS)
    assert abs(n_sentences(small) - 4) <= longest / 2
    assert sorted(map(id, sample(documents, ALL, 1))) == sorted(map(id, documents))
    assert sample(documents, ALL, 1) != sample(documents, ALL, 2)


def test_finished_trainings_are_skipped(corpus, monkeypatch):
    run = trainings_that_end_with(0)
    monkeypatch.setattr(trainings, "run_parallel", run)
    path = corpus / "results.json"
    FewShot.run_all(options(corpus), path=path)
    assert json.loads(path.read_text(encoding="utf-8"))["partial"] is False
    result = FewShot.run_all(options(corpus, seeds=2, sizes=(ALL, "3")), path=path)
    assert run.sizes == [n_sentences(DOCUMENTS), *run.sizes[1:]]
    assert len(run.sizes) == 4
    small, large = result.rows
    assert (large["size"], small["size"]) == (ALL, "3")
    assert [training["seed"] for training in large["trainings"]] == [0, 1]
    assert large["trainings"][0]["test"] == F1
    # Another precision is another training.
    result = FewShot.run_all(options(corpus, precision="bf16"), path=path)
    assert len(run.sizes) == 5
    assert [training["training"]["precision"] for training in result.rows[1]["trainings"]] == ["bf16", "float32"]
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="results.json"):
        FewShot.run_all(options(corpus), path=path)


def test_random_embeddings_learn(corpus, monkeypatch):
    monkeypatch.setattr(trainings, "run_parallel", trainings_that_end_with(0))
    given = options(corpus, starts=("scierc-small",), encoders=("fresh",))
    rows = FewShot.run_all(given, path=corpus / "results.json").rows
    frozen = {row["start"]: row["trainings"][0]["training"]["frozen"] for row in rows}
    assert frozen["scierc-small"] > frozen["fresh"] == 0


def test_a_failed_training_is_reported_and_not_recorded(corpus, monkeypatch):
    monkeypatch.setattr(trainings, "run_parallel", trainings_that_end_with(1))
    with pytest.raises(TrainingError, match="out of memory"):
        FewShot.run_all(options(corpus), path=corpus / "results.json")
    assert not (corpus / "results.json").exists()


@pytest.mark.parametrize("changes", [{"data": ()}, {"sizes": ("few",)}, {"sizes": ("0",)}, {"encoders": ()}])
def test_options_that_are_refused(corpus, changes):
    with pytest.raises(ConfigError):
        options(corpus, **changes)


def test_table_and_plot(tmp_path):
    rows = [
        {"corpus": "news", "size": size, "start": "my model", "trainings": [
            {"seed": seed, "sentences": int(size), "dev": dict.fromkeys(F1, f1)} for seed, f1 in enumerate(scores)
        ]}
        for size, scores in (("50", (0.1, 0.2)), ("100", (0.5,)))
    ]  # fmt: skip
    shown = [[column.show(row) for column in few_shot.COLUMNS[:7]] for row in rows]
    assert shown == [
        ["news", "50", "50", "my model", "2", "dev", "15.0 ± 7.1"],
        ["news", "100", "100", "my model", "1", "dev", "50.0"],
    ]
    pytest.importorskip("matplotlib")
    plot_few_shot({"rows": rows}, tmp_path / "curve.svg")
    assert "my model" in (tmp_path / "curve.svg").read_text(encoding="utf-8")
