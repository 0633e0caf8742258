import pytest
import torch
from tests.twelve_sentences import DOCUMENTS, SCHEMA, WORDS

from cascade_srn.config import ModelSettings
from cascade_srn.data.examples import examples_of
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import ConfigError, DataError, SchemaError
from cascade_srn.model import Model
from cascade_srn.schema import Schema
from cascade_srn.training import TrainingSettings, train
from cascade_srn.training.loop import evaluate
from cascade_srn.training.optimiser import make_optimiser
from cascade_srn.types import Document


@pytest.fixture
def model(tmp_path):
    encoder = create_encoder(WORDS, tmp_path / "encoder", width=32, n_layers=1, n_heads=2, vocabulary=200)
    values = {"encoder": {"name": encoder}, "hidden_width": 16, "matcher_width": 16}
    return Model.create(ModelSettings.from_dict(values), SCHEMA)


def _weights(model):
    return {name: value.clone() for name, value in model.cascade.state_dict().items()}


FAST = {"batch_size": 4, "learning_rate": 8e-3, "encoder_learning_rate": 4e-3}


def test_the_loss_falls_and_every_epoch_is_yielded(model):
    progress = list(train(model, DOCUMENTS, settings=TrainingSettings(epochs=12, **FAST)))
    assert [p.epoch for p in progress] == list(range(1, 13))
    assert progress[-1].loss < 0.6 * progress[0].loss
    assert all(p.dev is None for p in progress)
    assert not model.cascade.training


def test_the_same_seed_gives_the_same_weights(model, tmp_path):
    start = _weights(model)
    results = []
    for seed in (1, 1, 2):
        model.cascade.load_state_dict(start)
        list(train(model, DOCUMENTS, settings=TrainingSettings(epochs=2, seed=seed, **FAST)))
        results.append(_weights(model))
    assert all(torch.equal(results[0][name], results[1][name]) for name in start)
    assert any(not torch.equal(results[0][name], results[2][name]) for name in start)


def test_the_model_is_left_with_the_weights_that_did_best_on_dev(model):
    best, kept = None, None
    settings = TrainingSettings(epochs=40, **FAST)
    for progress in train(model, DOCUMENTS, DOCUMENTS, settings):
        reached = progress.dev.ner.counts.f1 + progress.dev.re_strict.counts.f1
        assert progress.best == (best is None or reached > best)
        if progress.best:
            best, kept = reached, _weights(model)
    assert best > 0
    assert all(torch.equal(kept[name], value) for name, value in model.cascade.state_dict().items())
    scores = evaluate(model, examples_of(DOCUMENTS))
    assert scores.ner.counts.f1 + scores.re_strict.counts.f1 == best


def test_dev_is_scored_only_as_often_as_asked_and_at_the_end(model):
    settings = TrainingSettings(epochs=5, evaluate_every=2, **FAST)
    progress = list(train(model, DOCUMENTS, DOCUMENTS, settings))
    assert [p.dev is not None for p in progress] == [False, True, False, True, True]


def test_bf16(model):
    settings = TrainingSettings(epochs=12, precision="bf16", **FAST)
    progress = list(train(model, DOCUMENTS, settings=settings))
    assert progress[-1].loss < 0.6 * progress[0].loss


class TestRefusals:
    def test_no_sentences(self, model):
        with pytest.raises(DataError, match="hold no sentence with words"):
            train(model, [Document("")])

    def test_a_label_that_the_schema_lacks(self, model):
        narrow = Model(model.settings, Schema(("Person",)), model.tokenizer, model.cascade)
        with pytest.raises(SchemaError, match="sentence 0 of the training documents .*type 'Organization'"):
            train(narrow, DOCUMENTS)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"epoch": 3}, "no setting 'epoch'. Did you mean 'epochs'?"),
            ({"epochs": 0}, "epochs is 0; give a number at least 1"),
            ({"warmup": 2}, "warmup is 2.0; give a number from 0 to 1"),
            ({"candidates": "subject"}, "Did you mean 'subjects'?"),
            ({"precision": "fp16"}, "precision is 'fp16', not one of float32, tf32, bf16"),
            ({"max_gradient_norm": 0}, "max_gradient_norm is 0.0; give a number above 0"),
        ],
    )
    def test_settings(self, values, message):
        with pytest.raises(ConfigError) as caught:
            TrainingSettings.from_dict(values)
        assert message in str(caught.value)


def test_optimiser_groups_and_schedule(model):
    optimiser, schedule = make_optimiser(
        model.cascade, learning_rate=1.0, encoder_learning_rate=0.1, weight_decay=0.5, warmup=0.2, n_steps=10
    )
    assert sum(len(group["params"]) for group in optimiser.param_groups) == len(list(model.cascade.parameters()))
    pretrained = {id(p) for p in model.cascade.encoder.parameters()}
    rates = []
    for group in optimiser.param_groups:
        for p in group["params"]:
            assert group["initial_lr"] == (0.1 if id(p) in pretrained else 1.0)
            assert group["weight_decay"] == (0.5 if p.ndim > 1 else 0.0)
    for _ in range(10):
        rates.append(optimiser.param_groups[-1]["lr"])
        optimiser.step()
        schedule.step()
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])
