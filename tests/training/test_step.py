"""Learning rates, averaged weights, and gradients that do not depend on how a batch is divided."""

import math
import re

import pytest
import torch
from tests.small_models import examples, small_model
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_encoder
from torch import nn

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.windows import FewShapes, LeastWork
from cascade_srn.model.model import Model
from cascade_srn.schema import Schema
from cascade_srn.training.loop import Loop
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import LOSS_PARTS, AveragedWeights, Step, frozen_layers, make_optimiser

RATES = {"learning_rate": 1.0, "encoder_learning_rate": 0.1, "weight_decay": 0.5, "warmup": 0.2}


def _rates(optimiser, cascade):
    """Return the full rate of each parameter by name. Each parameter is in exactly one group."""
    named = {id(p): name for name, p in cascade.named_parameters()}
    found = [(named[id(p)], group["initial_lr"]) for group in optimiser.param_groups for p in group["params"]]
    assert len(found) == len(named) == len(dict(found))
    return dict(found)


def test_two_rates_and_no_decay_of_biases_and_norms():
    cascade = small_model().cascade
    optimiser, _ = make_optimiser(cascade, TrainingSettings(**RATES), 10)
    for name, rate in _rates(optimiser, cascade).items():
        assert rate == (0.1 if name.startswith("encoder.") else 1.0)
    for group in optimiser.param_groups:
        assert all(group["weight_decay"] == (0.5 if p.ndim > 1 else 0.0) for p in group["params"])
    assert len(optimiser.param_groups) == 4


def test_weights_of_labels_have_a_rate_of_their_own():
    cascade = small_model().cascade
    rates = {**RATES, "label_learning_rate": 3.0}
    labels = ("entity_head.start.", "relations.object_head.matcher.output.")
    optimiser, _ = make_optimiser(cascade, TrainingSettings(**rates), 10, label_weights=labels)
    found = _rates(optimiser, cascade)
    assert {name for name, rate in found.items() if rate == 3.0} == {
        f"{layer}{kind}" for layer in labels for kind in ("weight", "bias")
    }
    assert {rate for name, rate in found.items() if not name.startswith(("encoder.", *labels))} == {1.0}
    assert all(group["weight_decay"] == 0 for group in optimiser.param_groups if group["params"][0].ndim == 1)


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_layers_learn_slower_the_lower_they_are(family, tmp_path):
    encoder = tiny_encoder(family, tmp_path / family)
    model = Model.create(ModelSettings.from_dict({"encoder": {"name": encoder}, "hidden_width": 4}), Schema(("A",)))
    optimiser, _ = make_optimiser(model.cascade, TrainingSettings(layer_decay=0.5, **RATES), 10)
    rates = _rates(optimiser, model.cascade)
    of_encoder = {name: rate for name, rate in rates.items() if name.startswith("encoder.")}
    layered = family != "albert"  # whose layers share their weights: one above the embeddings
    embeddings = [rate for name, rate in of_encoder.items() if "word_embeddings" in name or "tok_embeddings" in name]
    assert embeddings == pytest.approx([0.1 * (0.25 if layered else 0.5)])
    if layered:
        for number, expected in ((0, 0.05), (1, 0.1)):
            own = [rate for name, rate in of_encoder.items() if f".{number}." in name.replace("LayerNorm.", "")]
            assert own
            assert own == pytest.approx([expected] * len(own))
    # Parameters outside of layers and embeddings, such as a last norm, have the rate of the top layer.
    above = [rate for name, rate in of_encoder.items() if not re.search(r"embed|layers?\.\d", name)]
    assert above == pytest.approx([0.1] * len(above))
    assert bool(above) == (family in ("deberta-v2", "mpnet", "modernbert"))
    assert {rate for name, rate in rates.items() if not name.startswith("encoder.")} == {1.0}


@pytest.mark.parametrize("family", FAMILY_PARAMETERS)
def test_lower_layers_and_embeddings_can_be_frozen(family, tmp_path):
    encoder = tiny_encoder(family, tmp_path / family)
    model = Model.create(ModelSettings.from_dict({"encoder": {"name": encoder}, "hidden_width": 4}), Schema(("A",)))
    network = model.cascade
    with frozen_layers(network, 0.5):
        frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
        network.train()
        quiet = {name for name, part in network.encoder.named_modules() if not part.training}
    layered = family != "albert"  # whose layers share their weights: one above the embeddings
    assert any("embeddings" in name for name in frozen)
    assert any(".0." in name.replace("LayerNorm.", "") for name in frozen) == layered
    assert not any(re.search(r"layers?\.1\.", name) for name in frozen)
    assert all(name.startswith("encoder.") for name in frozen)
    # Their dropout is off, and that of the other parts is on.
    assert any(("embeddings" in name and "dropout" in name.lower()) or "drop" in name for name in quiet)
    assert network.encoder.training
    assert network.dropout.training
    assert all(p.requires_grad for p in network.parameters())
    with frozen_layers(network, 0.01):
        names = [name.removeprefix("encoder.model.") for name, p in network.named_parameters() if not p.requires_grad]
    assert names
    assert all("embed" in name for name in names)
    with frozen_layers(network, 0.0):
        assert all(p.requires_grad for p in network.parameters())


def test_frozen_weights_stay_and_others_learn():
    model = small_model()
    before = {name: value.clone() for name, value in model.cascade.named_parameters()}
    settings = TrainingSettings(epochs=2, batch_size=2, frozen=0.5, weight_decay=0.5, learning_rate=0.01)
    for _ in Loop(model, examples(), [], settings):
        pass
    stayed = {name for name, value in model.cascade.named_parameters() if torch.equal(value, before[name])}
    embeddings = {name for name in before if "embeddings" in name}
    assert embeddings
    assert embeddings <= stayed
    assert not any("encoder.layer." in name and name.endswith("query.weight") for name in stayed)
    assert all(value.requires_grad for value in model.cascade.parameters())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]),
        ("constant", [0.5] + [1.0] * 9),
        ("cosine", [0.5, 1.0] + [(1 + math.cos(math.pi * i / 8)) / 2 for i in range(8)]),
    ],
)
def test_schedules(name, expected):
    optimiser, schedule = make_optimiser(small_model().cascade, TrainingSettings(schedule=name, **RATES), 10)
    rates = []
    for step in range(10):
        rates.append(optimiser.param_groups[-1]["lr"])
        assert optimiser.param_groups[0]["lr"] == pytest.approx(0.1 * expected[step])
        optimiser.step()
        schedule.step()
        assert schedule.last_rates == pytest.approx({"encoder": 0.1 * expected[step], "rest": expected[step]})
    assert rates == pytest.approx(expected)


def test_a_schedule_goes_anywhere():
    optimiser, schedule = make_optimiser(small_model().cascade, TrainingSettings(**RATES), 10)
    schedule.go_to(6)
    assert optimiser.param_groups[-1]["lr"] == pytest.approx(0.5)
    schedule.step()
    assert optimiser.param_groups[-1]["lr"] == pytest.approx(0.375)


@pytest.mark.parametrize(("name", "kind"), [("adamw", "AdamW"), ("adam", "Adam")])
def test_optimisers(name, kind):
    optimiser, _ = make_optimiser(small_model().cascade, TrainingSettings(optimiser=name, **RATES), 10)
    assert type(optimiser).__name__ == kind


def _module():
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2, bias=False))


def test_the_average_matches_its_definition():
    module = _module()
    averaged = AveragedWeights(module, 0.5)
    expected = {name: value.detach().clone() for name, value in module.named_parameters()}
    for step in range(1, 13):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter))
        averaged.update()
        decay = min(0.5, (1 + step) / (10 + step))
        expected = {
            name: decay * expected[name] + (1 - decay) * value.detach() for name, value in module.named_parameters()
        }
    for name, value in averaged.state().items():
        torch.testing.assert_close(value, expected[name])


def _changed(module):
    averaged = AveragedWeights(module, 0.9)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1.0)
    averaged.update()
    return averaged


def test_in_place_gives_the_averages_for_a_block():
    module = _module()
    averaged = _changed(module)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    with averaged.in_place():
        for name, value in module.named_parameters():
            assert torch.equal(value, averaged.state()[name])
            assert not torch.equal(value, before[name])
    assert all(torch.equal(value, before[name]) for name, value in module.named_parameters())


def test_weights_come_back_after_an_error_too():
    module = _module()
    averaged = _changed(module)
    before = module[0].weight.detach().clone()

    def fail():
        with averaged.in_place():
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(module[0].weight, before)


def test_restored_averages_continue_identically():
    module = _module()
    first = _changed(module)
    second = AveragedWeights(module, 0.9)
    second.restore({name: value.clone() for name, value in first.state().items()}, first.n_steps)
    for averaged in (first, second):
        averaged.update()
    assert all(torch.equal(value, second.state()[name]) for name, value in first.state().items())


BATCH = [example for example in examples() if len(example.sentence)]


def _step(model, **options):
    settings = TrainingSettings(**options.pop("settings", {}))
    optimiser, schedule = make_optimiser(
        model.cascade, TrainingSettings(learning_rate=0.0, encoder_learning_rate=0.0, weight_decay=0.0, warmup=0.0), 5
    )
    model.cascade.train()
    return Step(model, optimiser, schedule, settings, **options)


def _gradients(model):
    return {name: p.grad.clone() for name, p in model.cascade.named_parameters() if p.grad is not None}


# Clipping would hide a factor.
UNCLIPPED = {"max_gradient_norm": 1e9}


@pytest.mark.parametrize("fusion", ["swift", "early"])
@pytest.mark.parametrize("accumulation", [2, 4, 100])
def test_accumulation_gives_the_gradients_of_the_whole_batch(fusion, accumulation):
    results, losses = [], []
    for n in (1, accumulation):
        model = small_model(fusion)
        step = _step(model, settings={"accumulation": n, **UNCLIPPED})
        step(BATCH)
        results.append(_gradients(model))
        losses.append(step.take_totals())
    assert results[0].keys() == results[1].keys()
    for name, gradient in results[0].items():
        torch.testing.assert_close(gradient, results[1][name], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("fusion", ["swift", "early"])
def test_passes_of_the_encoder_change_no_gradient(fusion):
    results, n_passes = [], []
    for division in (LeastWork(10**6), LeastWork(1), FewShapes(4)):
        model = small_model(fusion)
        step = _step(model, settings=UNCLIPPED)
        step.division = division
        n_passes.append(sum(len(tensors.rows.passes) for _, tensors in step._collate(BATCH, 0)))
        step(BATCH)
        results.append(_gradients(model))
    assert n_passes[0] == 1 < min(n_passes[1:])
    for name, gradient in results[0].items():
        for other in results[1:]:
            torch.testing.assert_close(gradient, other[name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n_processes", [2, 3, 9])
def test_the_mean_over_processes_is_the_gradient_of_the_whole_batch(n_processes):
    model = small_model()
    step = _step(model, settings=UNCLIPPED)
    step(BATCH)
    whole, total = _gradients(model), step.take_totals()
    shares, losses = [], []
    for process in range(n_processes):
        model = small_model()
        step = _step(model, settings=UNCLIPPED, n_processes=n_processes, process=process)
        step(BATCH)
        shares.append(_gradients(model))
        losses.append(step.take_totals())
    for name, gradient in whole.items():
        mean = sum(share[name] for share in shares if name in share) / n_processes
        torch.testing.assert_close(gradient, mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(total, sum(losses))


def test_losses_add_up_by_part_until_they_are_taken():
    model = small_model()
    step = _step(model)
    for part in (BATCH[:2], BATCH[2:]):
        step(part)
    weights = model.settings.loss_weights
    expected = torch.zeros(len(LOSS_PARTS))
    for part in (BATCH[:2], BATCH[2:]):
        loss = model.cascade(model.collator.training_batch(part), weights)
        expected += len(part) * torch.stack([getattr(loss, name) for name in LOSS_PARTS]).detach()
    torch.testing.assert_close(step.take_totals(), expected)
    assert step.take_totals().tolist() == [0.0] * len(LOSS_PARTS)


def test_gradients_are_clipped():
    model = small_model()
    step = _step(model, settings={"max_gradient_norm": 0.01})
    step(BATCH)
    norm = torch.stack([g.norm() for g in _gradients(model).values()]).norm()
    assert norm.item() == pytest.approx(0.01, rel=1e-3)


def test_done_is_called_after_each_part():
    parts = []
    step = _step(small_model(), settings={"accumulation": 2}, done=parts.append)
    step(BATCH)
    assert parts == ["collating", "forward", "backward"] * 2 + ["optimiser"]


def test_a_batch_collated_ahead_is_the_one_collated_at_its_time():
    """Random choices depend on the number of the step only."""
    drawn = {"corruption": 0.5, "negatives": 0.5, "masking": 0.5, **UNCLIPPED}
    results = []
    for following in (BATCH[2:], ()):
        model = small_model("swift")
        step = _step(model, settings=drawn)
        step(BATCH[:2], 7, following)
        step.settle()
        step(BATCH[2:], 8)
        results.append(_gradients(model))
    for name, gradient in results[0].items():
        assert torch.equal(gradient, results[1][name])
    model = small_model("swift")
    step = _step(model, settings=drawn)
    step(BATCH[2:], 9)
    assert any(not torch.equal(gradient, results[0][name]) for name, gradient in _gradients(model).items())


def test_processes_corrupt_different_entities():
    """Each sentence twice, so that both processes have the same ones."""
    twice = [example for example in BATCH for _ in range(2)]
    given = []
    for process in (0, 1):
        settings = {"corruption": 0.9, "batch_size": len(twice)}
        step = _step(small_model(), settings=settings, n_processes=2, process=process)
        ((_, tensors),) = step._collate(twice, 0)
        given.append(tensors.given)
    assert any(not torch.equal(getattr(given[0], name), getattr(given[1], name)) for name in ("start", "last", "label"))
