import pytest
from tests.training.runs import write_recipe

from cascade_srn.errors import ConfigError
from cascade_srn.lab.reproduction.options import ReproduceOptions
from cascade_srn.lab.reproduction.plan import BEGUN, FINISHED, MISSING, Plan
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run_folder import RECIPE, SUMMARY


def _options(folder, **given):
    recipe = write_recipe(folder, data={"test": str(folder / "dev.jsonl")})
    chosen = {"tables": ("encoder",), "recipe": str(recipe), "output": str(folder / "out"), "n_seeds": 2, **given}
    return ReproduceOptions.create(**chosen)


def _begin(run):
    run.folder.path.mkdir(parents=True)
    (run.folder.path / RECIPE).write_text(run.recipe.to_yaml(), encoding="utf-8")


def test_runs_of_variants_and_seeds(tmp_path):
    plan = Plan.of(_options(tmp_path, changes=("training.epochs=3", "model.hidden_width=8")))
    assert [run.name for run in plan] == ["pfn-seed-0", "pfn-seed-1", "table-srn-seed-0", "table-srn-seed-1"]
    last = list(plan)[-1]
    assert last.recipe.output == str(tmp_path / "out" / "runs" / "table-srn" / "seed-1")
    assert (last.recipe.training.seed, last.recipe.training.epochs) == (1, 3)
    # Changes of the user override those of the variant.
    assert (last.recipe.model.method, last.recipe.model.hidden_width) == ("table-srn", 8)
    # The arguments describe the same run.
    name, recipe, *overrides = last.arguments
    changes = overrides[: overrides.index("--resume")]
    assert name == "train"
    assert load_recipe(recipe, changes) == last.recipe
    assert last.command.startswith("cascade-srn train …/recipe.yaml model.method=table-srn")
    assert str(tmp_path) not in last.command


def test_states_of_runs(tmp_path):
    options = _options(tmp_path, jobs=3)
    first, second, *rest = Plan.of(options)
    _begin(first)
    (first.folder.path / SUMMARY).write_text("{}", encoding="utf-8")
    _begin(second)
    plan = Plan.of(options)
    assert [run.state for run in plan] == [FINISHED, BEGUN, MISSING, MISSING]
    assert [run.name for run in plan.missing] == [run.name for run in (second, *rest)]
    lines = plan.text().splitlines()
    assert str(tmp_path / "out") in lines[0]
    assert lines[2].split()[:4] == ["pfn", "0", "1", "–"]
    assert lines[3].split()[:5] == ["table-srn", "–", "–", "0", "1"]
    assert lines[-1].startswith("3 of 4 runs")
    # A plan creates no folders.
    assert not (tmp_path / "out" / "runs" / "table-srn").exists()


def test_run_with_other_settings_is_refused(tmp_path):
    _begin(next(iter(Plan.of(_options(tmp_path)))))
    with pytest.raises(ConfigError, match=r"training.epochs=10.*training.epochs=3"):
        Plan.of(_options(tmp_path, changes=("training.epochs=3",)))


@pytest.mark.parametrize("split", ["dev", "test"])
def test_recipe_without_dev_or_test(tmp_path, split):
    with pytest.raises(ConfigError, match=f"no {split} data"):
        Plan.of(_options(tmp_path, changes=(f"data.{split}=null",)))
