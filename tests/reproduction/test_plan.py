import pytest
from tests.training.runs import write_recipe

from cascade_srn.errors import ConfigError
from cascade_srn.reproduction.options import ReproduceOptions
from cascade_srn.reproduction.plan import BEGUN, FINISHED, MISSING, Plan
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run_folder import RECIPE, SUMMARY


def _options(folder, **given):
    recipe = write_recipe(folder, data={"test": str(folder / "dev.jsonl")})
    chosen = {"tables": ("encoder",), "recipe": str(recipe), "output": str(folder / "out"), "n_seeds": 2, **given}
    return ReproduceOptions.create(**chosen)


def _begin(run):
    run.folder.path.mkdir(parents=True)
    (run.folder.path / RECIPE).write_text(run.recipe.to_yaml(), encoding="utf-8")


def test_each_seed_of_each_variant_is_an_ordinary_run(tmp_path):
    plan = Plan.of(_options(tmp_path, changes=("training.epochs=3", "model.hidden_width=8")))
    assert [run.name for run in plan] == ["pfn-seed-0", "pfn-seed-1", "table-srn-seed-0", "table-srn-seed-1"]
    last = list(plan)[-1]
    assert last.recipe.output == str(tmp_path / "out" / "runs" / "table-srn" / "seed-1")
    assert (last.recipe.training.seed, last.recipe.training.epochs) == (1, 3)
    # What is set counts for variants that have a setting of their own as well.
    assert (last.recipe.model.method, last.recipe.model.hidden_width) == ("table-srn", 8)
    # The arguments make the same run.
    name, recipe, *overrides = last.arguments
    changes = overrides[: overrides.index("--resume")]
    assert name == "train"
    assert load_recipe(recipe, changes) == last.recipe
    assert last.command.startswith("cascade-srn train …/recipe.yaml model.method=table-srn")
    assert str(tmp_path) not in last.command


def test_what_is_there_and_what_is_missing(tmp_path):
    options = _options(tmp_path, jobs=3)
    first, second, *rest = Plan.of(options)
    _begin(first)
    (first.folder.path / SUMMARY).write_text("{}", encoding="utf-8")
    _begin(second)
    plan = Plan.of(options)
    assert [run.state for run in plan] == [FINISHED, BEGUN, MISSING, MISSING]
    assert [run.name for run in plan.missing] == [run.name for run in (second, *rest)]
    told = plan.text().splitlines()
    assert told[0] == f"tables: encoder; seeds of each variant: 2; folder: {tmp_path / 'out'}"
    assert told[2].split()[:4] == ["pfn", "0", "1", "–"]
    assert told[3].split()[:5] == ["table-srn", "–", "–", "0", "1"]
    assert told[-1] == "3 of 4 runs are to be trained, 3 at a time"
    # A plan is only a plan.
    assert not (tmp_path / "out" / "runs" / "table-srn").exists()


def test_a_run_of_other_settings_is_refused(tmp_path):
    _begin(next(iter(Plan.of(_options(tmp_path)))))
    with pytest.raises(
        ConfigError, match=r"has training.epochs=10, and is wanted with training.epochs=3; give the opt"
    ):
        Plan.of(_options(tmp_path, changes=("training.epochs=3",)))


@pytest.mark.parametrize("split", ["dev", "test"])
def test_without_dev_or_test_there_are_no_figures(tmp_path, split):
    with pytest.raises(ConfigError, match=f"names no {split} data, without which there are no figures; give a folder"):
        Plan.of(_options(tmp_path, changes=(f"data.{split}=null",)))
