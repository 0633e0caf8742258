import json

import pytest
from tests.formats.other_processes import can_hold, held_elsewhere
from tests.training.runs import small_recipe

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.summary import Spread
from cascade_srn.runs.process import make_accelerator
from cascade_srn.training.run import Run
from cascade_srn.training.run_folder import RunFolder
from cascade_srn.training.series import Seeds

pytestmark = pytest.mark.slow

SHORT = {"epochs": 6}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    recipe = small_recipe(tmp_path_factory.mktemp("seeds"), training=SHORT)
    series = Seeds(recipe, 2, processes=make_accelerator("cpu"))
    for each in series.to_run():
        list(Run(each, device="cpu", command="x"))
    return recipe, series.finish(command="cascade-srn train recipe.yaml --seeds 2")


def test_each_seed_has_a_run_of_its_own(finished, tmp_path):
    recipe, summaries = finished
    assert [summary["seed"] for summary in summaries] == [0, 1]
    weights = [f"{recipe.output}/seed-{seed}/best/model.safetensors" for seed in (0, 1)]
    first, second = (open(path, "rb").read() for path in weights)  # noqa: SIM115
    assert first != second


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


def test_all_are_run_again_when_overwriting(finished):
    recipe, _ = finished
    series = Seeds(recipe, 2, processes=make_accelerator("cpu"), overwrite=True)
    assert [each.training.seed for each in series.to_run()] == [0, 1]


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
    with (
        held_elsewhere(f"{recipe.output}/seed-1"),
        pytest.raises(ConfigError, match="seed-1'"),
    ):
        Seeds(recipe, 2, processes=processes, resume=True)
    series = Seeds(recipe, 2, processes=processes)
    assert not can_hold(recipe.output)
    # The runs may be processes of their own.
    assert can_hold(f"{recipe.output}/seed-0")
    series.release()
    assert can_hold(recipe.output)
    assert not RunFolder(recipe.output).path.exists()
