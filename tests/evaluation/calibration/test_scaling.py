"""Maps of scores to probabilities: what they are fitted to, and what they keep."""

from __future__ import annotations

import numpy as np
import pytest

from cascade_srn.evaluation.calibration.scaling import (
    MAX_TEMPERATURE,
    MIN_EXAMPLES,
    SHRINKAGE,
    Scaling,
    fit_scaling,
    fit_temperature,
    has_enough_examples,
    sigmoid,
)
from cascade_srn.evaluation.reliability import measure_reliability

NAMES = ["Method", "Task", "Metric"]


def drawn(n: int, temperature: float, offsets: dict[str, float], seed: int = 0):
    """Return scores, correctness and labels of candidates whose calibrated scores are known."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(list(offsets), n)
    logits = rng.normal(0.5, 3, n)
    shift = np.array([offsets[label] for label in labels])
    return sigmoid(logits), rng.random(n) < sigmoid(logits / temperature + shift), labels.tolist()


def error(scores, correct) -> float:
    found = measure_reliability(zip(scores.tolist(), correct.tolist(), strict=True)).expected_calibration_error
    assert found is not None
    return found


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_map_is_found(temperature: float) -> None:
    offsets = {"Method": -1.0, "Task": 0.5, "Metric": 0.0}
    found = fit_scaling(*drawn(60000, temperature, offsets), NAMES)
    assert found.temperature == pytest.approx(temperature, rel=0.05)
    assert found.offsets == pytest.approx(offsets, abs=0.1)


def test_the_calibration_error_falls_on_other_candidates() -> None:
    truth = 2.5, {"Method": -0.8, "Task": 0.3, "Metric": -0.4}
    found = fit_scaling(*drawn(1500, *truth), NAMES)
    scores, correct, labels = drawn(4000, *truth, seed=1)
    assert error(scores, correct) > 0.1
    assert error(found.apply(scores, labels), correct) < 0.03
    by_temperature = Scaling(fit_temperature(scores, correct)).apply(scores, labels)
    assert error(by_temperature, correct) > 0.04


def test_the_order_of_scores_remains_even_if_they_are_misleading() -> None:
    scores, correct, labels = drawn(500, 1.0, dict.fromkeys(NAMES, 0.0))
    for flags in (correct, ~correct):
        found = fit_scaling(scores, flags, labels, NAMES)
        mapped = found.apply(np.linspace(0, 1, 1001), ["Task"] * 1001)
        assert (np.diff(mapped[1:-1]) > 0).all()
        assert ((mapped >= 0) & (mapped <= 1)).all()
    assert found.temperature == MAX_TEMPERATURE


def test_a_rare_label_gets_nearly_the_common_offset() -> None:
    scores, correct, labels = drawn(8000, 1.0, {"Method": -1.0, "Metric": -1.0})
    few = 5
    found = fit_scaling(
        np.append(scores, np.full(few, 0.5)),
        np.append(correct, np.ones(few, dtype=bool)),
        [*labels, *["Task"] * few],
        NAMES,
    )
    assert found.offsets["Metric"] == pytest.approx(found.offsets["Method"], abs=0.15)
    # Its candidates are all correct, so that without shrinkage its offset would be infinite.
    assert -1 < found.offsets["Task"] < -1 + 2 * few / SHRINKAGE


def test_too_few_candidates_change_nothing() -> None:
    correct = np.array([True] * MIN_EXAMPLES + [False] * (MIN_EXAMPLES - 1))
    scores = np.linspace(0.1, 0.9, len(correct))
    assert not has_enough_examples(correct)
    assert has_enough_examples(np.append(correct, False))
    assert fit_scaling(scores, correct, ["Task"] * len(correct), NAMES) == Scaling()
    assert fit_temperature(scores, correct) == 1.0
    np.testing.assert_allclose(Scaling().apply(scores, ["Task"] * len(correct)), scores)


@pytest.mark.parametrize("scores", [[0.0] * 30 + [1.0] * 30, [1.0] * 60, [0.5] * 60])
def test_extreme_scores_give_a_finite_map(scores: list[float]) -> None:
    correct = np.arange(60) % 3 > 0
    found = fit_scaling(np.array(scores), correct, ["Task"] * 60, NAMES)
    mapped = found.apply(np.array([0.0, 0.5, 1.0]), ["Task"] * 3)
    assert np.isfinite(mapped).all()
    assert np.isfinite(list(found.offsets.values())).all()


@pytest.mark.parametrize("true", [0.5, 1.0, 2.0])
def test_a_known_temperature_is_found(true: float) -> None:
    scores, correct, _ = drawn(20000, true, {"Task": 0.0})
    assert fit_temperature(scores, correct) == pytest.approx(true, rel=0.05)
