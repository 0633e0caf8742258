import pytest
import yaml

from cascade_srn.config import FusionSettings
from cascade_srn.errors import ConfigError
from cascade_srn.training.recipe import FreshEncoderSettings, Recipe, load_recipe
from cascade_srn.training.settings import TrainingSettings

RECIPE = """
model:
  encoder: {name: some/encoder}
  fusion: swift
data: {train: train.json, dev: dev.json, symmetric: [COMPARE]}
training: {epochs: 3, learning_rate: 1e-5}
output: runs/x
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE, encoding="utf-8")
    return file


def test_a_file_becomes_settings(path):
    recipe = load_recipe(path)
    assert recipe.model.encoder.name == "some/encoder"
    assert recipe.model.fusion == FusionSettings("tags", "span")
    assert recipe.data.splits == {"train": "train.json", "dev": "dev.json"}
    assert recipe.data.symmetric == ("COMPARE",)
    assert recipe.training == TrainingSettings(epochs=3, learning_rate=1e-5)
    assert recipe.output == "runs/x"


def test_round_trip(path, tmp_path):
    constraints = "data.constraints={COMPARE: {pairs: [[A, B]]}, PART: {inverse: WHOLE, acyclic: true}}"
    recipe = load_recipe(path, ["training.ema=0.99", "data.test=test.json", "training.trackers=[]", constraints])
    again = tmp_path / "again.yaml"
    again.write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(again) == recipe
    assert yaml.safe_load(recipe.to_yaml())["training"]["batch_size"] == 16


class TestOverrides:
    @pytest.mark.parametrize(
        ("override", "value"),
        [
            ("training.epochs=5", 5),
            ("training.learning_rate=1e-5", 1e-5),
            ("training.learning_rate=2E-4", 2e-4),
            ("training.learning_rate=1", 1.0),
            ("training.ema=null", None),
            ("training.ema=.999", 0.999),
            ("training.trackers=[wandb, tensorboard]", ("wandb", "tensorboard")),
            ("training.trackers=wandb", ("wandb",)),
            ("model.encoder.name=/some where/else", "/some where/else"),
            ("model.encoder.context_words=100", 100),
            ("model.joint=false", False),
            ("data.train=a=b.json", "a=b.json"),
            ("data.test=null", None),
            ("output=runs/1e5x", "runs/1e5x"),
        ],
    )
    def test_values_are_yaml(self, path, override, value):
        found = load_recipe(path, [override])
        for part in override.partition("=")[0].split("."):
            found = getattr(found, part)
        assert found == value
        assert type(found) is type(value)

    def test_a_preset_and_a_width_beside_it(self, path):
        recipe = load_recipe(path, ["model.fusion=early", "model.fusion.tag_width=7"])
        assert recipe.model.fusion == FusionSettings("markers", "markers", tag_width=7)

    def test_a_section_that_the_file_lacks(self, path):
        recipe = load_recipe(path, ["model.encoder.name=fresh", "fresh.width=64", "model.thresholds.entity=0.3"])
        assert recipe.fresh == FreshEncoderSettings(width=64)
        assert recipe.model.thresholds.entity == 0.3

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("training.epoch=5", "'training.epochs'"),
            ("epochs=5", "'training.epochs'"),
            ("trainig.epochs=5", "'training'"),
            ("model.encoder.nam=x", "'model.encoder.name'"),
            ("model.fusion.presets=x", "'model.fusion.preset'"),
            ("model={encodr: {name: x}}", "'model.encoder'"),
            ("training.epochs", "'training.epochs'"),
            ("=5", "key=value"),
            ("training..epochs=5", "key=value"),
            ("training.epochs=five", "training: epochs is 'five' (str)"),
            ("training.epochs=[1", "'training.epochs=[1' is not valid YAML at line 1"),
            ("data.train.path=x", "'data.train', which is 'train.json'"),
            ("data.align=exactly", "data.align is 'exactly'"),
            ("data.symmetric=[1]", "data: symmetric is [1]"),
            ("data.schema=s.json", "data.schema and data.symmetric"),
            ("data.constraints={A: {head: [B]}}", "'heads'"),
            ("data.constraints={A: {pairs: [B]}}", "pairs"),
            ("data.min_pair_count=-1", "data.min_pair_count is -1"),
            ("fresh.width=64", "model.encoder.name is 'some/encoder'"),
            ("model.encoder=x", "model: encoder is 'x'"),
        ],
    )
    def test_refusals(self, path, override, message):
        with pytest.raises(ConfigError) as caught:
            load_recipe(path, [override])
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("fresh.n_layers=0", "fresh.n_layers is 0"),
            ("fresh.n_heads=5", "fresh.width is 128"),
            ("fresh.dropout=1", "fresh.dropout is 1.0"),
            ("training.frozen=0.5", "the weights of a fresh encoder are random"),
        ],
    )
    def test_shapes_of_fresh_encoders(self, path, override, message):
        with pytest.raises(ConfigError) as caught:
            load_recipe(path, ["model.encoder.name=fresh", override])
        assert message in str(caught.value)


class TestFiles:
    def _refused(self, path, text):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_recipe(path)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("epochs: 3", "epoch: 3", "'training.epoch'"),
            ("output: runs/x", "", "'output'"),
            ("{epochs: 3", "{epochs: 3}}", "line 6"),
            ("epochs: 3", "epochs: 2.5", "training: epochs is 2.5 (float)"),
            ("fusion: swift", "fusion: swiftly", "'swiftly'"),
        ],
    )
    def test_errors_name_the_setting(self, path, old, new, message):
        refusal = self._refused(path, RECIPE.replace(old, new))
        assert message in refusal
        assert "recipe" in refusal or "preset" in refusal

    @pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text"])
    def test_no_settings(self, path, text):
        assert str(path) in self._refused(path, text)

    def test_what_is_no_text_file(self, path, tmp_path):
        path.write_bytes(b"output: \xff")
        for wrong, message in ((path, "UTF-8"), (tmp_path / "x.yaml", "x.yaml"), (tmp_path, "folder")):
            with pytest.raises(ConfigError, match=message):
                load_recipe(wrong)


class TestUnusualValues:
    @pytest.mark.parametrize(
        "text", ["output: 2026-13-45", "output: !!int x", "[" * 5000, "output: !!python/name:os.system"]
    )
    def test_yaml_that_cannot_be_read(self, path, text):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="not valid YAML") as failure:
            load_recipe(path)
        assert len(str(failure.value)) < 500

    @pytest.mark.parametrize("key", ["learning_rate", "ema"])
    def test_numbers_that_no_float_holds(self, path, key):
        settings = load_recipe(path).to_dict()
        settings["training"][key] = 10**400
        with pytest.raises(ConfigError, match=rf"training: {key} is 1000"):
            Recipe.from_dict(settings)

    @pytest.mark.parametrize("seed", [-1, 2**32, 10**30])
    def test_seeds_that_no_generator_takes(self, path, seed):
        with pytest.raises(ConfigError, match=rf"seed is {seed}"):
            load_recipe(path, [f"training.seed={seed}"])

    @pytest.mark.parametrize("text", ['"a\\0b"', '"\\ud800"'])
    def test_characters_that_no_text_has(self, path, text):
        with pytest.raises(ConfigError, match="output is "):
            load_recipe(path, [f"output={text}"])
