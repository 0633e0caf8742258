import math
import re

import pytest
from tests.small_models import small_model
from tests.tiny_encoders import FAMILY_PARAMETERS, tiny_encoder

from cascade_srn.config import ModelSettings
from cascade_srn.errors import ConfigError
from cascade_srn.model.model import Model
from cascade_srn.schema import Schema
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import make_optimiser, schedule_shape

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


def test_after_the_last_step_there_is_no_rate_left():
    assert schedule_shape("linear", warmup=0.0, n_steps=4)(4) == 0.0
    assert schedule_shape("cosine", warmup=0.0, n_steps=4)(4) == 0.0


@pytest.mark.parametrize(("name", "kind"), [("adamw", "AdamW"), ("adam", "Adam")])
def test_optimisers(name, kind):
    optimiser, _ = make_optimiser(small_model().cascade, TrainingSettings(optimiser=name, **RATES), 10)
    assert type(optimiser).__name__ == kind


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"optimiser": "sgd"}, "'sgd'"),
        ({"schedule": "cosin"}, "'cosine'"),
    ],
)
def test_unknown_names(option, message):
    with pytest.raises(ConfigError) as caught:
        TrainingSettings(**option)
    assert message in str(caught.value)
