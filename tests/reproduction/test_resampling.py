import numpy as np
import pytest
from tests.evaluation.saved_models import DOCUMENTS, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Extractor
from cascade_srn.evaluation.comparison import Bootstrap, compare
from cascade_srn.reproduction.judging import resample
from cascade_srn.reproduction.measures import count, f1, number


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_for_f1_it_is_the_comparison_of_the_evaluation(unit):
    sides = [
        [Extractor.from_pretrained(saved_model(s)).predict(DOCUMENTS) for s in seeds] for seeds in ((0, 1, 3), (2,))
    ]
    bootstrap = Bootstrap(400, unit, seed=3)
    wanted = compare(DOCUMENTS, *sides, schema=SCHEMA, bootstrap=bootstrap)["ner"]
    first, second = (
        np.stack([count(DOCUMENTS, model, SCHEMA).by_unit("ner", unit) for model in side]) for side in sides
    )
    found = resample(first, second, f1, bootstrap)
    assert (found.low, found.high) == (wanted.low, wanted.high)
    assert found.p_value == wanted.p_value
    assert found.low < found.high


def test_numbers_of_errors_equal_a_loop_over_resamples():
    generator = np.random.default_rng(5)
    first, second = (generator.integers(0, 4, size=(n_models, 9, 1)).astype(float) for n_models in (3, 1))
    bootstrap = Bootstrap(200, "sentence", seed=2)
    found = resample(first, second, number, bootstrap)
    draws = np.random.default_rng(2)
    units = draws.multinomial(9, np.full(9, 1 / 9), size=200)
    models = draws.multinomial(3, np.full(3, 1 / 3), size=200)
    differences = []
    for times, weights in zip(units, models, strict=True):
        one = sum(w * sum(t * first[m, u, 0] for u, t in enumerate(times)) for m, w in enumerate(weights)) / 3
        differences.append(one - sum(t * second[0, u, 0] for u, t in enumerate(times)))
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(differences, (2.5, 97.5))))
    smaller = min(sum(d <= 1e-12 for d in differences), sum(d >= -1e-12 for d in differences))
    assert found.p_value == pytest.approx(min(1, 2 * (1 + smaller) / 201))


def test_the_same_on_both_sides_is_no_difference():
    counts = np.ones((1, 5, 1))
    found = resample(counts, counts, number, Bootstrap(100, "sentence"))
    assert (found.low, found.high, found.p_value) == (0, 0, 1)


def test_many_units_are_drawn_in_parts(monkeypatch):
    counts = np.random.default_rng(0).integers(0, 3, size=(1, 40, 1)).astype(float)
    whole = resample(counts, np.zeros_like(counts), number, Bootstrap(300, "sentence"))
    monkeypatch.setattr("cascade_srn.evaluation.comparison._DRAWS_AT_ONCE", 400)
    # Draws of one model need no others in between, so that parts draw the same.
    assert resample(counts, np.zeros_like(counts), number, Bootstrap(300, "sentence")) == whole
