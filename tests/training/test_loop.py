import json
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from tests.twelve_sentences import DOCUMENTS, SCHEMA, WORDS

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import CascadeError, ConfigError, DataError, SchemaError
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.schema import Schema
from cascade_srn.training.loop import Loop, evaluate
from cascade_srn.training.progress import selection_score
from cascade_srn.training.run import train
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.types import Document


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    encoder = create_encoder(WORDS, folder, width=32, n_layers=1, n_heads=2, vocabulary=200)
    values = {"encoder": {"name": encoder}, "hidden_width": 16, "matcher_width": 16}
    return Model.create(ModelSettings.from_dict(values), SCHEMA)


@pytest.fixture
def model(untrained):
    return replace(untrained, network=deepcopy(untrained.network))


@pytest.fixture(scope="module")
def learned(untrained):
    """Weights after 40 epochs."""
    model = replace(untrained, network=deepcopy(untrained.network))
    list(train(model, DOCUMENTS, settings=TrainingSettings(epochs=40, **FAST)))
    return _weights(model)


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


@pytest.mark.parametrize("ema", [None, 0.7])
@pytest.mark.slow
def test_a_caller_who_stops_early_gets_the_best_weights(model, ema):
    settings = TrainingSettings(epochs=40, learning_rate=0.05, encoder_learning_rate=0.02, batch_size=4, ema=ema)
    best, stale = -1.0, 0
    for progress in train(model, DOCUMENTS, DOCUMENTS, settings):
        best = max(best, progress.dev.ner.counts.f1 + progress.dev.re_strict.counts.f1)
        stale = 0 if progress.best else stale + 1
        if best > 0 and stale == 2:
            break
    else:
        pytest.fail("nothing was ever worse than before")
    assert selection_score(evaluate(model, examples_of(DOCUMENTS, 0), overlaps="all")) == pytest.approx(best)


class _FakeCudaGraphs:
    """Stands for CUDA graphs, which need a GPU, and counts calls."""

    def __init__(self, encoder):
        self.encoder, self.n_read = encoder, 0

    def read(self, passes):
        self.n_read += 1
        return [self.encoder._read(ids, mask) for ids, mask in passes]


def test_weights_of_labels_learn_at_their_rate(model):
    settings = TrainingSettings(epochs=1, **FAST | {"label_learning_rate": 0.5})
    loop = Loop(model, examples_of(DOCUMENTS), [], settings)
    names = {id(parameter): name for name, parameter in model.network.named_parameters()}
    groups = [group for group in loop.optimiser.param_groups if group["initial_lr"] == 0.5]
    found = {names[id(parameter)] for group in groups for parameter in group["params"]}
    assert {"entity_head.start.weight", "relations.object_head.end.bias"} < found
    assert all("_head." in name or "entity_tags" in name for name in found)


@pytest.mark.parametrize("ends", ["by itself", "early"])
def test_cuda_graphs_are_released_after_training(model, ends):
    encoder = model.cascade.encoder
    loop = iter(Loop(model, examples_of(DOCUMENTS, 0), (), TrainingSettings(epochs=2, **FAST)))
    next(loop)
    encoder.cuda_graphs = cuda_graphs = _FakeCudaGraphs(encoder)
    if ends == "early":
        loop.close()
    else:
        list(loop)
        assert cuda_graphs.n_read
    assert encoder.cuda_graphs is None


def test_cuda_graphs_of_an_earlier_training_are_not_replayed(model):
    model.cascade.encoder.cuda_graphs = left = _FakeCudaGraphs(model.cascade.encoder)
    list(train(model, DOCUMENTS, settings=TrainingSettings(epochs=1, cuda_graphs=False, **FAST)))
    assert model.cascade.encoder.cuda_graphs is None
    assert not left.n_read


@pytest.mark.slow
def test_the_model_is_left_with_the_weights_that_did_best_on_dev(model):
    best, kept = None, None
    settings = TrainingSettings(epochs=40, **FAST)
    for progress in train(model, DOCUMENTS, DOCUMENTS, settings):
        reached = progress.dev.ner.counts.f1 + progress.dev.re_strict.counts.f1
        assert progress.best == (best is None or reached > best or reached == best == 0)
        if progress.best:
            best, kept = reached, _weights(model)
    assert best > 0
    assert all(torch.equal(kept[name], value) for name, value in model.cascade.state_dict().items())
    scores = evaluate(model, examples_of(DOCUMENTS), overlaps="all")
    assert scores.ner.counts.f1 + scores.re_strict.counts.f1 == best


def test_dev_is_scored_only_as_often_as_asked_and_at_the_end(model):
    settings = TrainingSettings(epochs=5, evaluate_every=2, **FAST)
    progress = list(train(model, DOCUMENTS, DOCUMENTS, settings))
    assert [p.dev is not None for p in progress] == [False, True, False, True, True]


@pytest.mark.slow
def test_bf16(model):
    settings = TrainingSettings(epochs=12, precision="bf16", **FAST)
    progress = list(train(model, DOCUMENTS, settings=settings))
    assert progress[-1].loss < 0.6 * progress[0].loss


class TestRefusals:
    def test_no_sentences(self, model):
        with pytest.raises(DataError, match="training documents"):
            train(model, [Document("")])

    def test_a_label_that_the_schema_lacks(self, model):
        narrow = Model(model.settings, Schema(("Person",)), model.tokenizer, model.cascade)
        with pytest.raises(SchemaError, match="sentence 0 of the training documents .*'Organization'"):
            train(narrow, DOCUMENTS)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"epoch": 3}, "'epochs'"),
            ({"epochs": 0}, "epochs is 0"),
            ({"warmup": 2}, "warmup is 2.0"),
            ({"candidates": "subject"}, "'subjects'"),
            ({"precision": "fp16"}, "precision is 'fp16'"),
            ({"max_gradient_norm": 0}, "max_gradient_norm is 0.0"),
            ({"accumulation": 0}, "accumulation is 0"),
            ({"evaluate_steps": 0}, "evaluate_steps is 0"),
            ({"patience": 0}, "patience is 0"),
            ({"save_steps": -1}, "save_steps is -1"),
            ({"layer_decay": 0}, "layer_decay is 0.0"),
            ({"layer_decay": 1.1}, "layer_decay is 1.1"),
            ({"ema": 1}, "ema is 1.0"),
            ({"schedule": "step"}, "schedule is 'step'"),
            ({"optimiser": "adamax"}, "optimiser is 'adamax'"),
            ({"trackers": 3}, "trackers is 3"),
            ({"trackers": ["a", 3]}, "trackers is ['a', 3]"),
        ],
    )
    def test_settings(self, values, message):
        with pytest.raises(ConfigError) as caught:
            TrainingSettings.from_dict(values)
        assert message in str(caught.value)


class TestEvaluation:
    def test_evaluate_steps(self, model):
        settings = TrainingSettings(epochs=2, evaluate_every=None, evaluate_steps=2, log_steps=1, **FAST)
        progress = list(train(model, DOCUMENTS, DOCUMENTS, settings))
        # Three steps an epoch: evaluations at 2, 4 and 6, and an epoch's end at 3.
        assert [(p.step, p.dev is not None, p.epoch_done) for p in progress] == [
            (2, True, False),
            (3, False, True),
            (4, True, False),
            (6, True, True),
        ]
        assert [p.finished for p in progress] == [False, False, False, True]
        assert all(p.steps == 6 for p in progress)

    def test_patience_ends_training_early(self, model):
        # A model that does not learn is never better than at its first evaluation.
        settings = TrainingSettings(epochs=9, patience=3, learning_rate=0.0, encoder_learning_rate=0.0)
        progress = list(train(model, DOCUMENTS, DOCUMENTS, settings))
        assert [selection_score(p.dev) for p in progress] == [0.0] * 4
        assert [p.finished for p in progress] == [False, False, False, True]

    def test_as_long_as_nothing_is_right_the_latest_weights_are_kept(self, model):
        slow = TrainingSettings(epochs=3, batch_size=4, learning_rate=1e-4, encoder_learning_rate=1e-4)
        first = None
        for progress in train(model, DOCUMENTS, DOCUMENTS, slow):
            assert selection_score(progress.dev) == 0
            assert progress.best
            first = _weights(model) if first is None else first
            last = _weights(model)
        kept = model.cascade.state_dict()
        assert all(torch.equal(last[name], value) for name, value in kept.items())
        assert any(not torch.equal(first[name], value) for name, value in kept.items())

    @pytest.mark.slow
    def test_of_equal_weights_that_find_something_the_first_are_kept(self, model, learned):
        model.cascade.load_state_dict(learned)
        still = TrainingSettings(epochs=3, learning_rate=0.0, encoder_learning_rate=0.0)
        progress = list(train(model, DOCUMENTS, DOCUMENTS, still))
        assert len({selection_score(p.dev) for p in progress}) == 1
        assert selection_score(progress[0].dev) > 0
        assert [p.best for p in progress] == [True, False, False]

    @pytest.mark.slow
    def test_patience_counts_from_the_last_best(self, model, learned):
        model.cascade.load_state_dict(learned)
        again = TrainingSettings(epochs=40, patience=3, **FAST)
        progress = list(train(model, DOCUMENTS, DOCUMENTS, again))
        assert selection_score(progress[-1].dev) > 0
        last_best = max(i for i, p in enumerate(progress) if p.best)
        assert last_best > 0
        assert len(progress) in (40, last_best + 4)


class TestAveraging:
    def test_the_averages_are_evaluated_and_kept(self, model):
        start = _weights(model)
        settings = TrainingSettings(epochs=3, ema=0.5, **FAST)
        loop = Loop(model, examples_of(DOCUMENTS), examples_of(DOCUMENTS), settings)
        for progress in loop:
            own = _weights(model)
            with loop.evaluated_weights():
                averaged = _weights(model)
                assert evaluate(model, examples_of(DOCUMENTS), overlaps="all") == progress.dev
            assert any(not torch.equal(own[name], averaged[name]) for name in own)
        model.cascade.load_state_dict(start)
        list(train(model, DOCUMENTS, settings=settings))
        assert all(torch.equal(averaged[name], value) for name, value in model.cascade.state_dict().items())

    def test_averaging_does_not_disturb_training(self, model):
        start, results = _weights(model), []
        for ema in (None, 0.9):
            model.cascade.load_state_dict(start)
            loop = Loop(model, examples_of(DOCUMENTS), [], TrainingSettings(epochs=2, ema=ema, **FAST))
            list(loop)
            results.append(_weights(model))
        assert all(torch.equal(results[0][name], results[1][name]) for name in start)


class TestProgress:
    def test_the_loss_of_an_epoch_is_the_mean_over_its_sentences(self, model):
        still = TrainingSettings(epochs=1, batch_size=5, log_steps=1, learning_rate=0.0, encoder_learning_rate=0.0)
        quiet = replace(model, settings=replace(model.settings, dropout=0.0))
        for module in model.cascade.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        reports = list(Loop(quiet, examples_of(DOCUMENTS), [], still))
        batch = model.collator.training_batch(examples_of(DOCUMENTS))
        whole = model.cascade(batch, model.settings.loss_weights)
        assert reports[-1].loss == pytest.approx(whole.total.item(), rel=1e-4)
        sizes = [5, 5, 2]
        for part in ("entity", "subject", "object", "total"):
            mean = sum(n * p.parts[part] for n, p in zip(sizes, reports, strict=True)) / 12
            assert mean == pytest.approx(getattr(whole, part).item(), rel=1e-4)

    def test_keys_of_a_log_line(self, model):
        settings = TrainingSettings(epochs=1, log_steps=2, **FAST)
        first, last = Loop(model, examples_of(DOCUMENTS), examples_of(DOCUMENTS), settings)
        always = {"step", "epoch", "loss", "seconds", "words_per_second", "learning_rate_encoder", "learning_rate_rest"}
        assert first.to_dict().keys() == always | {"loss_entity", "loss_subject", "loss_object"}
        assert last.to_dict().keys() - first.to_dict().keys() == {"epoch_loss", "best", "dev"}
        assert last.to_dict()["dev"].keys() == {"symmetric", "ner", "re_boundaries", "re_strict"}
        assert 0 < first.seconds < last.seconds
        assert first.seconds_left > 0
        assert last.seconds_left == 0
        json.dumps(last.to_dict())


class TestTrouble:
    def test_a_loss_that_is_not_finite(self, model):
        with torch.no_grad():
            model.cascade.entity_head.start.weight.fill_(float("nan"))
        with pytest.raises(CascadeError, match="step 3"):
            list(train(model, DOCUMENTS, settings=TrainingSettings(epochs=2, **FAST)))

    @pytest.mark.parametrize(
        "error",
        [torch.OutOfMemoryError("CUDA out of memory"), lambda: torch.empty(1 << 60), MemoryError()],
        ids=["gpu", "processor", "python"],
    )
    def test_out_of_memory(self, model, monkeypatch, error):
        def full(*arguments):
            if isinstance(error, Exception):
                raise error
            error()

        monkeypatch.setattr(type(model.cascade), "forward", full)
        with pytest.raises(CascadeError, match="4 sentences") as caught:
            list(train(model, DOCUMENTS, settings=TrainingSettings(epochs=2, **FAST)))
        assert caught.value.option == "training.accumulation"

    @pytest.mark.parametrize(
        ("documents", "message"),
        [
            ("train.jsonl", "training documents are a str"),
            (DOCUMENTS[0], "training documents are a Document"),
            (None, "training documents are a NoneType"),
            (["a text"], "item 0 of the training documents is a str"),
        ],
    )
    def test_values_that_are_not_documents(self, model, documents, message):
        with pytest.raises(DataError, match=message):
            train(model, documents)
        with pytest.raises(DataError, match=message.replace("training", "development")):
            train(model, DOCUMENTS, dev=documents)

    def test_values_that_are_not_settings(self, model):
        with pytest.raises(ConfigError, match="dict"):
            train(model, DOCUMENTS, settings={"epochs": 1})
