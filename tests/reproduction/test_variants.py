from pathlib import Path

import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.reproduction.options import VARIANTS, check_changes
from cascade_srn.runs.folder import differences
from cascade_srn.training.recipe import load_recipe

RECIPES = Path(__file__).parents[2] / "recipes"


def _recipe(variant, *changes):
    return load_recipe(RECIPES / "scierc.yaml", [*VARIANTS[variant].overrides(), *changes])


def _changed(variant, base="early"):
    return {key: new for key, _, new in differences(_recipe(base).to_dict(), _recipe(variant).to_dict())}


@pytest.mark.parametrize(
    ("variant", "recipe"),
    [
        ("early", "scierc-early.yaml"),
        ("swift", "scierc.yaml"),
        ("pfn", "baselines/scierc-pfn.yaml"),
        ("table-srn", "baselines/scierc-table-srn.yaml"),
        ("pipeline", "baselines/scierc-pipeline.yaml"),
    ],
)
def test_a_variant_is_what_its_recipe_says(variant, recipe):
    wanted = load_recipe(RECIPES / recipe)
    # Variants are computed in one precision, whatever suits a recipe best.
    assert _recipe(variant, f"output={wanted.output}", f"training.precision={wanted.training.precision}") == wanted


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("late", {"model.fusion.entities": "tags", "model.fusion.subject": "tag"}),
        ("hybrid", {"model.fusion.subject": "span"}),
        ("bisrn", {"model.sequence_encoder": "bisrn"}),
        ("bilstm", {"model.sequence_encoder": "bilstm"}),
        ("subject-marker", {"model.fusion.entities": "none"}),
        ("no-markers", {"model.fusion.entities": "none", "model.fusion.subject": "span"}),
        ("gold-subjects", {"training.candidates": "subjects"}),
        ("independent", {"model.joint": False}),
    ],
)
def test_an_ablation_changes_one_thing(variant, changes):
    assert _changed(variant) == changes


def test_the_recipe_decides_nothing_that_tells_variants_apart():
    # The recipe of the example corpus has another sequence encoder and fusion.
    recipe = load_recipe(RECIPES / "news.yaml", ["model.joint=false", *VARIANTS["early"].overrides()])
    assert recipe.model.sequence_encoder == "srn"
    assert recipe.model.fusion.preset == "early"
    assert recipe.model.joint


@pytest.mark.parametrize(
    "change",
    [
        "model.fusion=late",
        "model.fusion.entities=tags",
        "model.fusion.preset=late",
        "model={}",
        "training.seed=3",
        "training.candidates=subjects",
        "output=x",
        "model.joint=false",
    ],
)
def test_what_tells_variants_apart_cannot_be_set(change):
    with pytest.raises(ConfigError, match="would change what tells the models of the tables apart; change settings"):
        check_changes(["training.epochs=3", change])


@pytest.mark.parametrize("change", ["training.epochs=3", "model.fusion.tag_width=8", "model.hidden_width=12"])
def test_what_all_share_can_be_set(change):
    check_changes([change])
    assert all(_recipe(variant, change) for variant in VARIANTS)
