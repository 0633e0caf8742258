import json
from dataclasses import replace

import pytest
import torch
from tests.small_models import SCHEMA, examples, small_model
from tests.training.runs import small_recipe, write_recipe
from tests.twelve_sentences import DOCUMENTS
from tests.twelve_sentences import SCHEMA as NEWS

from cascade_srn.config import ModelSettings, Temperatures, Thresholds
from cascade_srn.errors import ConfigError, DataError, ModelError
from cascade_srn.model.model import Model
from cascade_srn.model.start import Start, start_model
from cascade_srn.schema import RelationConstraints, Schema
from cascade_srn.training.recipe import Recipe, load_recipe
from cascade_srn.training.run import Run, train
from cascade_srn.training.settings import TrainingSettings

# Other order, one new and one dropped label of each kind.
OTHER = Schema(("Thing", "Corpus", "Metric"), ("used-for", "trained-on", "compare"), frozenset({"compare"}))
FAMILIES = {
    "cascade": {},
    "linear": {"matcher": "linear"},
    "early": {"fusion": "early"},
    "late": {"fusion": "late"},
    "pfn": {"method": "pfn"},
    "table-srn": {"method": "table-srn"},
    "pipeline": {"method": "pipeline"},
}


@pytest.fixture
def saved(tmp_path):
    """Return a function that saves a small model and returns it, as it is loaded, with its folder."""

    def save(**settings):
        folder = tmp_path / "trained"
        model = small_model(**settings)
        model.save(folder)
        return model, folder

    return save


def _weights(model):
    return model.network.state_dict()


def _loss(model):
    batch = model.collator.training_batch(examples()[:1])
    model.network.eval()
    with torch.no_grad():
        return model.network(batch, model.settings.loss_weights).total


class TestWeights:
    @pytest.mark.parametrize("name", FAMILIES)
    def test_the_same_labels_give_the_same_model(self, saved, name):
        model, folder = saved(**FAMILIES[name])
        started = start_model(folder, SCHEMA)
        assert _weights(started).keys() == _weights(model).keys()
        for key, value in _weights(model).items():
            assert torch.equal(_weights(started)[key], value), key
        assert torch.equal(_loss(started), _loss(model))

    @pytest.mark.parametrize("name", FAMILIES)
    def test_another_order_of_labels_gives_the_same_loss(self, saved, name):
        model, folder = saved(**FAMILIES[name])
        turned = Schema(SCHEMA.entity_types[::-1], SCHEMA.relation_types[::-1], SCHEMA.symmetric)
        assert torch.allclose(_loss(start_model(folder, turned)), _loss(model), atol=1e-5)

    @pytest.mark.parametrize("name", FAMILIES)
    def test_a_model_with_other_labels_can_be_trained_and_saved(self, saved, tmp_path, name):
        _, folder = saved(**FAMILIES[name])
        started = start_model(folder, NEWS)
        list(train(started, DOCUMENTS[:2], settings=TrainingSettings(epochs=1, batch_size=2)))
        started.save(tmp_path / "new")
        assert Model.load(tmp_path / "new").schema == NEWS

    def test_rows_of_shared_labels_are_kept_and_new_ones_are_means_of_them(self, saved):
        model, folder = saved()
        with torch.no_grad():
            for value in model.network.parameters():
                value.add_(0.25)
        model.save(folder)
        old, new = _weights(model), _weights(start_model(folder, OTHER, seed=3))
        for head, ours, theirs in (
            ("entity_head", OTHER.entity_types, SCHEMA.entity_types),
            ("relations.object_head", OTHER.relation_types, SCHEMA.relation_types),
        ):
            for layer in ("start", "end", "matcher.output"):
                for part in ("weight", "bias"):
                    key = f"{head}.{layer}.{part}"
                    for row, label in enumerate(ours):
                        if label in theirs:
                            assert torch.equal(new[key][row], old[key][theirs.index(label)]), (key, label)
                        else:
                            low, high = old[key].amin(0) - 1e-6, old[key].amax(0) + 1e-6
                            assert bool(((low <= new[key][row]) & (new[key][row] <= high)).all()), (key, label)
                            copied = any(torch.equal(new[key][row], known) for known in old[key])
                            assert part == "bias" or not copied
        tags, old_tags = new["relations.entity_tags.table"], old["relations.entity_tags.table"]
        assert torch.equal(tags[-1], old_tags[-1])
        assert torch.equal(tags[OTHER.entity_types.index("Metric")], old_tags[SCHEMA.entity_types.index("Metric")])
        assert len(tags) == 4
        for key in old:
            if key.startswith(("encoder.", "sequence.", "relations.subject_head.", "relations.subject_fusion.")):
                assert torch.equal(new[key], old[key]), key

    def test_markers_of_new_labels_are_added_to_those_of_the_start(self, saved):
        model, folder = saved(fusion="early")
        started = start_model(folder, OTHER)
        table = started.network.encoder.model.get_input_embeddings().weight
        before = model.network.encoder.model.get_input_embeddings().weight
        assert torch.equal(table[: len(before)], before)
        assert len(table) == len(before) + 2
        assert started.tokenizer.convert_tokens_to_ids("[Thing_S]") == model.tokenizer.convert_tokens_to_ids(
            "[Thing_S]"
        )
        assert started.tokenizer.convert_tokens_to_ids("[Corpus_E]") == len(before) + 1

    def test_the_seed_determines_what_the_start_lacks(self, saved):
        _, folder = saved(schema=Schema(SCHEMA.entity_types))
        state = torch.get_rng_state()
        one, same, other = (_weights(start_model(folder, OTHER, seed=seed)) for seed in (1, 1, 2))
        assert torch.equal(torch.get_rng_state(), state)
        assert all(torch.equal(one[key], same[key]) for key in one)
        changed = {key for key in one if not torch.equal(one[key], other[key])}
        assert changed
        assert all(key.startswith("relations.") for key in changed)

    def test_relations_can_be_added_to_a_model_without_them(self, saved):
        model, folder = saved(schema=Schema(SCHEMA.entity_types))
        assert model.network.relations is None
        started = start_model(folder, SCHEMA)
        assert started.network.relations is not None
        assert torch.equal(_weights(started)["entity_head.start.weight"], _weights(model)["entity_head.start.weight"])

    def test_relations_can_be_left_out(self, saved):
        _, folder = saved()
        settings = Start(folder).complete({"joint": False})
        assert start_model(folder, SCHEMA, settings=settings).network.relations is None


class TestLabels:
    def test_kept_new_and_dropped(self, saved):
        _, folder = saved()
        labels = Start(folder).labels(OTHER)
        assert labels.kept == ("Thing", "Metric", "used-for", "compare")
        assert labels.new == ("Corpus", "trained-on")
        assert labels.dropped == ("Task", "part-of")
        assert labels.direction == ()

    def test_a_relation_that_is_symmetric_in_one_of_the_two(self, saved):
        _, folder = saved()
        directed = Schema(SCHEMA.entity_types, SCHEMA.relation_types, frozenset({"part-of"}))
        assert Start(folder).labels(directed).direction == ("compare", "part-of")

    def test_constraints_are_those_of_the_new_schema(self, saved):
        constrained = replace(SCHEMA, constraints={"part-of": RelationConstraints(heads=("Task",))})
        _, folder = saved(schema=constrained)
        assert start_model(folder, SCHEMA).schema.constraints == {}
        own = replace(SCHEMA, constraints={"used-for": RelationConstraints(tails=("Task",))})
        assert start_model(folder, own).schema.constraints == own.constraints


class TestSettings:
    def test_choices_made_on_dev_are_not_taken_over(self, saved):
        _, folder = saved(
            thresholds=Thresholds(entity=0.2, entity_types={"Task": 0.1}),
            temperatures=Temperatures(entity=2.0),
            overlaps="nested",
            constraints="on",
            text_form="escaped",
            dropout=0.3,
        )
        settings = start_model(folder, OTHER).settings
        assert (settings.thresholds, settings.temperatures) == (Thresholds(), Temperatures())
        assert (settings.overlaps, settings.constraints) == (None, "off")
        assert (settings.text_form, settings.dropout, settings.hidden_width) == ("escaped", 0.3, 6)
        assert settings.start is None

    def test_given_settings(self, saved):
        _, folder = saved()
        given = {"dropout": 0.4, "fusion": "swift", "encoder": None, "limits": {"entity_words": 9}, "hidden_width": 6}
        settings = Start(folder).complete(given)
        assert (settings.dropout, settings.limits.entity_words) == (0.4, 9)
        assert settings.limits.pairs_per_word == Start(folder).settings.limits.pairs_per_word
        assert settings.fusion == Start(folder).settings.fusion

    @pytest.mark.parametrize(
        ("given", "option"),
        [
            ({"hidden_width": 7}, "model.hidden_width"),
            ({"fusion": "early"}, "model.fusion.entities"),
            ({"fusion": {"tag_width": 5}}, "model.fusion.tag_width"),
            ({"encoder": {"name": "bert-base-cased"}}, "model.encoder.name"),
            ({"method": "pfn"}, "model.method"),
            ({"text_form": "verbatim"}, "model.text_form"),
        ],
    )
    def test_a_contradiction_is_named(self, saved, given, option):
        _, folder = saved()
        with pytest.raises(ConfigError) as caught:
            Start(folder).complete(given)
        assert caught.value.option == option

    def test_settings_of_another_architecture_are_refused(self, saved):
        model, folder = saved()
        with pytest.raises(ConfigError) as caught:
            start_model(folder, SCHEMA, settings=replace(model.settings, method="pipeline"))
        assert caught.value.option == "model.method"

    def test_an_untrained_model_has_no_start(self):
        with pytest.raises(ModelError, match="start_model"):
            Model.create(ModelSettings.from_dict({"encoder": {"name": "x"}, "start": "y"}), SCHEMA)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model with a fresh encoder that was trained for one epoch."""
    folder = tmp_path_factory.mktemp("first")
    for _ in Run(small_recipe(folder, training={"epochs": 1, "calibrate": False}), device="cpu"):
        pass
    return folder / "run" / "best"


@pytest.mark.slow
class TestRecipe:
    def _recipe(self, folder, trained, **changes):
        path = write_recipe(folder, training={"epochs": 2, "evaluate_steps": None, "evaluate_every": 1})
        values = {"data": {"train": str(folder / "train.jsonl"), "dev": str(folder / "dev.jsonl")}, **changes}
        training = load_recipe(path).training.to_dict()
        return Recipe.from_dict(
            {"model": {"start": str(trained)}, "training": training, "output": str(folder / "run"), **values}
        )

    def test_it_trains_and_records_the_start(self, trained, tmp_path):
        recipe = self._recipe(tmp_path, trained)
        assert recipe.model.hidden_width == 16
        run = Run(recipe, device="cpu")
        assert f"start: {trained}" in str(run.preflight)
        # data.symmetric is not given here, but the start was trained with it.
        (finding,) = [finding for finding in run.preflight.findings if finding.split == "start"]
        assert finding.count == 1
        for _ in run:
            pass
        data = json.loads((tmp_path / "run" / "data.json").read_text(encoding="utf-8"))
        assert data["start"]["sha256"] == Start(trained).sha256
        assert data["start"]["new"] == []
        assert len(data["start"]["kept"]) == 6
        model = Model.load(tmp_path / "run" / "best")
        assert model.settings.start is None
        assert "start" not in json.loads((tmp_path / "run" / "best" / "config.json").read_text("utf-8"))["model"]
        # The recipe of the run names the start, and can be read without it.
        assert load_recipe(tmp_path / "run" / "recipe.yaml") == recipe

    def test_a_changed_start_is_refused(self, trained, tmp_path):
        copy = tmp_path / "copy"
        Model.load(trained).save(copy)
        recipe = self._recipe(tmp_path, copy)
        for progress in Run(recipe, device="cpu"):
            if progress.save:
                break
        changed = Model.load(copy)
        with torch.no_grad():
            next(changed.network.parameters()).add_(1)
        changed.save(copy)
        with pytest.raises(DataError, match="model.start"):
            Run(recipe, resume=True, device="cpu")

    def test_a_fresh_encoder_contradicts_a_start(self, trained, tmp_path):
        with pytest.raises(ConfigError) as caught:
            self._recipe(tmp_path, trained, fresh={"width": 8})
        assert caught.value.option == "model.start"

    @pytest.mark.parametrize("start", ["no/such/folder", ".", "scierc-smal"])
    def test_a_wrong_start(self, tmp_path, monkeypatch, start):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ModelError, match="model.start") as caught:
            self._recipe(tmp_path, start)
        assert caught.value.option == "model.start"

    def test_a_damaged_start(self, trained, tmp_path):
        copy = tmp_path / "copy"
        Model.load(trained).save(copy)
        (copy / "model.safetensors").write_bytes(b"x")
        with pytest.raises(ModelError, match="model.start"):
            Run(self._recipe(tmp_path, copy), device="cpu")
        assert not (tmp_path / "run").exists()


def test_the_bundled_model():
    settings = Start("scierc-small").complete({"start": "scierc-small"})
    assert settings.start == "scierc-small"
    assert settings.fusion.preset == "swift"
