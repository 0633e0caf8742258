import json
from collections import Counter
from dataclasses import replace

import pytest
import yaml
from tests.cli.conftest import failure, run
from tests.formats.other_processes import can_hold, held_elsewhere
from tests.training.runs import small_recipe, write_recipe
from tests.training.test_corpus import _document, _random_documents, _totals
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.scores import Spread
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.corpus import divide, read_corpus
from cascade_srn.training.recipe import DataSettings
from cascade_srn.training.run import Run
from cascade_srn.training.run_folder import RunFolder
from cascade_srn.training.series import Folds, Seeds

pytestmark = pytest.mark.slow

SHORT = {"epochs": 6}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    recipe = small_recipe(tmp_path_factory.mktemp("seeds"), training=SHORT)
    series = Seeds(recipe, 2, processes=make_accelerator("cpu"))
    for each in series.to_run():
        list(Run(each, device="cpu", command="x"))
    return recipe, series.finish(command="cascade-srn train recipe.yaml --seeds 2")


def test_mean_and_deviation(finished):
    recipe, summaries = finished
    with open(f"{recipe.output}/seeds.json", encoding="utf-8") as handle:
        written = json.load(handle)
    assert written["command"] == "cascade-srn train recipe.yaml --seeds 2"
    assert written["seeds"] == [0, 1]
    for task in ("ner", "re_boundaries", "re_strict"):
        for figure in ("precision", "recall", "f1"):
            values = [summary["dev"][task]["micro"][figure] for summary in summaries]
            assert written["dev"][task][figure] == Spread.of(values).to_dict()
    assert [run["dev"]["ner"] for run in written["runs"]] == [s["dev"]["ner"]["micro"]["f1"] for s in summaries]
    assert "test" not in written
    assert recipe.output not in json.dumps(written)


def test_finished_seeds_are_left_out_when_resuming(finished):
    recipe, _ = finished
    series = Seeds(recipe, 3, processes=make_accelerator("cpu"), resume=True)
    assert [each.training.seed for each in series.to_run()] == [2]


def test_all_folders_are_checked_before_the_first_run(tmp_path):
    recipe = small_recipe(tmp_path)
    (later,) = Seeds(recipe, 3, processes=make_accelerator("cpu")).recipes[2:]
    Run(later, device="cpu", command="x")
    with pytest.raises(ConfigError, match="seed-2"):
        Seeds(recipe, 3, processes=make_accelerator("cpu"))


def test_a_folder_with_a_run_of_one_seed(tmp_path):
    recipe = small_recipe(tmp_path)
    Run(recipe, device="cpu", command="x")
    with pytest.raises(ConfigError) as caught:
        Seeds(recipe, 3, processes=make_accelerator("cpu"), resume=True)
    assert caught.value.option == "output"


def test_no_seeds(tmp_path):
    with pytest.raises(ConfigError, match="seeds is 0"):
        Seeds(small_recipe(tmp_path), 0, processes=make_accelerator("cpu"))


def test_overwriting_leaves_no_further_seeds_behind(tmp_path):
    recipe = small_recipe(tmp_path, training={**SHORT, "epochs": 1})
    further = RunFolder(f"{recipe.output}/seed-2")
    further.begin(recipe)
    processes = make_accelerator("cpu")
    with pytest.raises(ConfigError, match="seed-2"):
        Seeds(recipe, 2, processes=processes, overwrite=True)
    Seeds(recipe, 3, processes=processes, overwrite=True)
    Seeds(recipe, 2, processes=processes)


def test_a_seed_in_the_recipe_contradicts_a_series(tmp_path):
    recipe = small_recipe(tmp_path, training={"seed": 5})
    with pytest.raises(ConfigError, match=r"training\.seed is 5"):
        Seeds(recipe, 2, processes=make_accelerator("cpu"))


def test_a_series_is_locked(tmp_path):
    recipe = small_recipe(tmp_path)
    processes = make_accelerator("cpu")
    with held_elsewhere(recipe.output), pytest.raises(ConfigError, match="run'"):
        Seeds(recipe, 2, processes=processes, overwrite=True)
    # A run of it, before the first one is begun.
    with held_elsewhere(f"{recipe.output}/seed-1"), pytest.raises(ConfigError, match="seed-1'"):
        Seeds(recipe, 2, processes=processes, resume=True)
    series = Seeds(recipe, 2, processes=processes)
    assert not can_hold(recipe.output)
    # The runs may be processes of their own.
    assert can_hold(f"{recipe.output}/seed-0")
    series.release()
    assert can_hold(recipe.output)
    assert not RunFolder(recipe.output).path.exists()


@pytest.mark.parametrize("n_parts", [2, 5, 10])
def test_every_label_has_about_the_same_share_in_each_part(n_parts):
    documents = _random_documents(400)
    parts = divide(documents, n_parts)
    total = _totals(documents)
    for part in parts:
        found = _totals(part)
        for label, count in total.items():
            assert found[label] == pytest.approx(count / n_parts, rel=0.15, abs=4), label
        assert len(part) == pytest.approx(len(documents) / n_parts, rel=0.25)


@pytest.mark.parametrize("seed", range(5))
def test_each_part_has_an_entity(seed):
    documents = [_document(0, *"A" * 40), _document(1, "A"), _document(2, "B"), *(_document(i) for i in range(3, 20))]
    assert all(_totals(part) for part in divide(documents, 3, seed))


def test_too_few_documents():
    with pytest.raises(DataError) as caught:
        divide([_document(0, "A"), _document(1, "A"), _document(2)], 3)
    assert caught.value.option == "data.folds"


@pytest.mark.parametrize(
    "values",
    [{"folds": 1}, {"fold": 0}, {"folds": 3, "fold": 3}, {"folds": 3, "fold": -1}, {"folds": 3, "test": "t.jsonl"}],
)
def test_settings_that_contradict_each_other(values):
    with pytest.raises(ConfigError):
        DataSettings.from_dict({"train": "t", **values})


def test_a_fold_is_the_test_set_and_dev_is_held_out_of_the_rest(tmp_path):
    settings = replace(small_recipe(tmp_path, data={"dev": 0.25, "folds": 3}).data)
    with pytest.raises(ConfigError) as caught:
        read_corpus(settings)
    assert caught.value.option == "data.fold"
    corpora = [read_corpus(replace(settings, fold=fold)) for fold in range(3)]
    tested = Counter(document.id for corpus in corpora for document in corpus.test)
    assert tested == Counter(document.id for document in DOCUMENTS)
    for corpus in corpora:
        ids = [{document.id for document in part} for part in (corpus.train, corpus.dev, corpus.test)]
        assert sum(map(len, ids)) == len(set.union(*ids)) == len(DOCUMENTS)
        assert list(corpus.splits) == ["train", "dev", "test"]
        assert corpus.to_dict()["test"]["held_out"] == [document.id for document in corpus.test]
    assert len({corpus.schema for corpus in corpora}) == 1 or all(c.schema.entity_types for c in corpora)


def test_a_series_has_a_run_for_each_fold(tmp_path):
    recipe = small_recipe(tmp_path, data={"folds": 3})
    processes = make_accelerator("cpu")
    series = Folds(recipe, processes=processes)
    assert [(each.data.fold, each.output[-6:]) for each in series.to_run()] == [(i, f"fold-{i}") for i in range(3)]
    series.release()
    with pytest.raises(ConfigError) as caught:
        Seeds(recipe, 2, processes=processes)
    assert caught.value.option == "seeds"
    with pytest.raises(ConfigError):
        Folds(series.recipes[0], processes=processes)
    one = Seeds(series.recipes[0], 2, processes=processes)
    assert [each.training.seed for each in one.to_run()] == [0, 1]
    one.release()


@pytest.mark.slow
def test_the_command_trains_all_folds_and_can_be_resumed(tmp_path, capsys):
    path = write_recipe(tmp_path, data={"dev": 0.3}, training={"epochs": 1, "evaluate_steps": None, "save_steps": None})
    assert run("train", path, "--folds", 3, "--device", "cpu") == 0
    assert "over 3 folds" in capsys.readouterr().out
    output = tmp_path / "run"
    written = json.loads((output / "folds.json").read_text(encoding="utf-8"))
    summaries = [json.loads((output / f"fold-{i}" / "summary.json").read_text(encoding="utf-8")) for i in range(3)]
    assert written["folds"] == [each["fold"] for each in written["runs"]] == [0, 1, 2]
    values = [summary["test"]["ner"]["micro"]["f1"] for summary in summaries]
    assert written["test"]["ner"]["f1"] == Spread.of(values).to_dict()
    assert yaml.safe_load((output / "fold-1" / "recipe.yaml").read_text(encoding="utf-8"))["data"]["fold"] == 1
    (output / "fold-1" / "summary.json").unlink()
    unchanged = (output / "fold-0" / "summary.json").stat().st_mtime_ns
    assert run("train", path, "data.folds=3", "--resume", "--jobs", 2, "--device", "cpu") == 0
    assert "1 runs" in capsys.readouterr().out
    assert (output / "fold-1" / "summary.json").is_file()
    assert (output / "fold-0" / "summary.json").stat().st_mtime_ns == unchanged
    failure(capsys, "train", path, "--folds", 4, "--resume")
