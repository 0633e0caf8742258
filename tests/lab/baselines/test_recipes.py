"""The recipes of the baselines: they load, state command and cost, and differ from the cascade's in the model only."""

import re
from pathlib import Path

import pytest

from cascade_srn.config import MODEL_FAMILIES
from cascade_srn.training.recipe import load_recipe

ROOT = Path(__file__).parents[3]
RECIPES = sorted((ROOT / "recipes" / "baselines").glob("*.yaml"))


def test_there_is_one_for_each_baseline():
    assert {load_recipe(path).model.method for path in RECIPES} == set(MODEL_FAMILIES) - {"cascade"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
class TestEach:
    def test_it_opens_with_its_command_its_cost_and_what_to_expect(self, path):
        opening = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
        assert f"\n#   cascade-srn train recipes/baselines/{path.name}\n" in opening
        assert "\n# Cost: " in opening
        assert re.search(r"\n# Expected on test[^:]*: ", opening)

    def test_it_differs_from_the_cascades_in_the_model_only(self, path):
        # Tables do not depend on given entities, so that corruption has no effect.
        changes = [] if "pipeline" in path.stem else ["training.corruption=0"]
        recipe, ours = load_recipe(path), load_recipe(ROOT / "recipes" / "scierc.yaml", changes)
        assert recipe.data == ours.data
        assert recipe.training == ours.training
        assert recipe.model.encoder == ours.model.encoder
        assert recipe.output == f"runs/{path.stem}"


def test_the_two_tables_differ_in_the_encoder_only():
    pfn, srn = (load_recipe(ROOT / "recipes" / "baselines" / f"scierc-{name}.yaml") for name in ("pfn", "table-srn"))
    assert {**pfn.model.to_dict(), "method": ""} == {**srn.model.to_dict(), "method": ""}
