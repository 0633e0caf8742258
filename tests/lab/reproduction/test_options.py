from pathlib import Path

import pytest

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.lab.reproduction.options import (
    DEFAULTS,
    QUICK,
    VARIANTS,
    ReproduceOptions,
    check_changes,
    data_overrides,
)
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run_folder import differences

RECIPES = Path(__file__).parents[3] / "recipes"


def _options(**given):
    return ReproduceOptions.create(**{"tables": ("main",), **given})


def test_defaults():
    options = _options(n_seeds=None, recipe="mine.yaml")
    assert (options.n_seeds, options.recipe, options.output) == (DEFAULTS["n_seeds"], "mine.yaml", DEFAULTS["output"])


def test_quick_defaults(monkeypatch, tmp_path):
    options = _options(quick=True, n_seeds=1, changes=("training.epochs=1",))
    assert (options.n_seeds, options.recipe, options.repeats) == (1, QUICK["recipe"], QUICK["repeats"])
    before, after = options.overrides()
    assert before == []
    # The last change counts.
    assert after[-1] == "training.epochs=1"
    assert "training.epochs=2" in after
    with pytest.raises(ConfigError, match="quick and encoder") as error:
        _options(quick=True, encoder="x")
    assert error.value.option == "encoder"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="recipes/news.yaml"):
        _options(quick=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tables": ()}, "tables"),
        ({"tables": ("mian",)}, "'mian'.*'main'"),
        ({"n_seeds": 0}, "n_seeds is 0.*1"),
        ({"jobs": 0}, "jobs is 0.*1"),
        ({"repeats": 0}, "repeats is 0.*1"),
        ({"batch_words": 0}, "batch_words is 0.*1"),
        ({"n_resamples": 10}, "n_resamples is 10.*100"),
        ({"precision": "half"}, "precision is 'half'.*auto, float32, bf16"),
        ({"resample": "words"}, "resample is 'words'.*documents, sentences"),
        ({"changes": ("model.joint=false",)}, "model.joint=false"),
    ],
)
def test_invalid_options(given, message):
    with pytest.raises(ConfigError, match=message):
        _options(**given)


def test_encoder_replaces_that_of_the_recipe():
    assert _options(encoder="bert-base-cased").overrides()[0] == ["model.encoder.name=bert-base-cased", "fresh=null"]
    assert _options(encoder="fresh").overrides()[0] == ["model.encoder.name=fresh"]


def test_data_folder(tmp_path):
    for name in ("train.json", "dev.json", "test.json"):
        (tmp_path / name).touch()
    assert _options(data=str(tmp_path)).overrides()[0] == [
        "data.format=null",
        f"data.train={tmp_path / 'train.json'}",
        f"data.dev={tmp_path / 'dev.json'}",
        f"data.test={tmp_path / 'test.json'}",
        "data.schema=null",
    ]
    (tmp_path / "schema.json").touch()
    assert data_overrides(tmp_path)[-2:] == [f"data.schema={tmp_path / 'schema.json'}", "data.symmetric=[]"]


def test_invalid_data_folder(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        data_overrides(tmp_path / "nowhere")
    (tmp_path / "train.json").touch()
    with pytest.raises(DataError, match=r"dev\.\*.* none"):
        data_overrides(tmp_path)
    (tmp_path / "train.jsonl").touch()
    with pytest.raises(DataError, match=r"train\.\*.* train.json and train.jsonl"):
        data_overrides(tmp_path)


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
def test_variant_equals_its_recipe(variant, recipe):
    expected = load_recipe(RECIPES / recipe)
    # All variants share one precision.
    assert (
        _recipe(variant, f"output={expected.output}", f"training.precision={expected.training.precision}") == expected
    )


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
def test_ablation_changes_one_setting(variant, changes):
    assert _changed(variant) == changes


@pytest.mark.parametrize(
    "change",
    [
        "model.fusion=late", "model.fusion.entities=tags", "model.fusion.preset=late", "model={}",
        "training.seed=3", "training.candidates=subjects", "output=x", "model.joint=false",
    ],
)  # fmt: skip
def test_settings_of_variants_cannot_be_changed(change):
    with pytest.raises(ConfigError, match=change) as error:
        check_changes(["training.epochs=3", change])
    assert error.value.option == "changes"


@pytest.mark.parametrize("change", ["training.epochs=3", "model.fusion.tag_width=8", "model.hidden_width=12"])
def test_shared_settings_can_be_changed(change):
    check_changes([change])
    assert all(_recipe(variant, change) for variant in VARIANTS)
