"""Map scores to probabilities: a temperature for all labels, and an offset for each label.

A model that has seen its training sentences many times is overconfident, and by label to different degrees. The map of
a score is ``sigmoid(logit / temperature + offset)``. Temperature and offset have the highest likelihood on candidates
(Platt scaling). The offsets of labels are shrunk towards a common one, because rare labels have few candidates. The map
increases, so it does not change the order of the candidates of a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# A turn with fewer correct or fewer wrong candidates keeps its scores.
MIN_EXAMPLES = 10
# Temperatures stay in this range, which keeps the map increasing.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.25, 16.0
# Weight of the common offset, in units of information: a label at 50 % precision has 0.25 per candidate.
SHRINKAGE = 20.0
# Weight of the score before the map (temperature 1, offset 0). It decides only if there are very few candidates.
PRIOR = 1.0
# Newton's method converges in about ten steps.
_MAX_STEPS = 100

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Scaling:
    """A temperature and the offsets of labels."""

    temperature: float = 1.0
    offsets: dict[str, float] = field(default_factory=dict)

    def apply(self, scores: Floats, labels: Sequence[str]) -> Floats:
        """Map scores to probabilities. Shapes: scores, labels (n,); returns (n,)."""
        shift = np.array([self.offsets.get(label, 0.0) for label in labels], dtype=float)
        return sigmoid(logit(scores) / self.temperature + shift)


def has_enough_examples(correct: Flags) -> bool:
    """Return whether there are at least ``MIN_EXAMPLES`` correct and wrong candidates."""
    return min(int(correct.sum()), int((~correct).sum())) >= MIN_EXAMPLES


def logit(scores: Floats) -> Floats:
    """Return the logits of scores, which are kept away from 0 and 1. Shapes: (n,) to (n,)."""
    kept = np.clip(scores, 1e-7, 1 - 1e-7)
    result: Floats = np.log(kept) - np.log1p(-kept)
    return result


def sigmoid(logits: Floats) -> Floats:
    """Return the probabilities of logits. Shapes: (n,) to (n,)."""
    result: Floats = np.exp(-np.logaddexp(0, -logits))
    return result


def fit_scaling(scores: Floats, correct: Flags, labels: Sequence[str], names: Sequence[str]) -> Scaling:
    """Fit the map of a turn.

    Args:
        scores: Scores of candidates, (n,).
        correct: Which of them are correct, (n,).
        labels: Their labels, (n,).
        names: All labels. Those without candidates get the common offset.

    Returns:
        The map, or one that changes nothing if there are too few candidates.
    """
    if not has_enough_examples(correct):
        return Scaling()
    logits = logit(scores)
    slope = min(max(_fit_slope(logits, correct), 1 / MAX_TEMPERATURE), 1 / MIN_TEMPERATURE)
    temperature = round(1 / slope, 4)
    scaled, here = logits / temperature, np.array(labels)
    common = _fit_offset(scaled, correct, 0.0, PRIOR)
    offsets = {}
    for name in names:
        of_label = here == name
        offsets[name] = round(_fit_offset(scaled[of_label], correct[of_label], common, SHRINKAGE), 4)
    return Scaling(temperature, offsets)


def fit_temperature(scores: Floats, correct: Flags) -> float:
    """Return the temperature of maximum likelihood without an offset, or 1 with too few examples. Shapes: (n,) both."""
    if not has_enough_examples(correct):
        return 1.0
    candidates = np.geomspace(MIN_TEMPERATURE, MAX_TEMPERATURE, 241)
    losses = [_loss(logit(scores) / temperature, correct) for temperature in candidates]
    return round(float(candidates[int(np.argmin(losses))]), 4)


def _loss(logits: Floats, correct: Flags) -> float:
    """Return the negative log-likelihood."""
    return float((np.logaddexp(0, logits) - correct * logits).sum())


def _fit_slope(logits: Floats, correct: Flags) -> float:
    """Return the slope of maximum likelihood with an intercept, by Newton's method with halved steps."""
    inputs, prior = np.stack((logits, np.ones_like(logits)), axis=1), np.array([1.0, 0.0])

    def loss(values: Floats) -> float:
        return _loss(inputs @ values, correct) + PRIOR / 2 * float(((values - prior) ** 2).sum())

    values = np.zeros(2)
    for _ in range(_MAX_STEPS):
        probability = sigmoid(inputs @ values)
        gradient = inputs.T @ (probability - correct) + PRIOR * (values - prior)
        curvature = (inputs * (probability * (1 - probability))[:, None]).T @ inputs + PRIOR * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        while loss(values - step) > loss(values) and np.abs(step).max() > 1e-9:
            step = step / 2
        values = values - step
        if np.abs(step).max() < 1e-9:
            break
    return float(values[0])


def _fit_offset(logits: Floats, correct: Flags, expected: float, weight: float) -> float:
    """Return the offset of maximum likelihood, shrunk towards ``expected``.

    The derivative of the loss increases, so the offset is found by bisection.
    """
    low, high = expected - 20.0, expected + 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if (sigmoid(logits + middle) - correct).sum() + weight * (middle - expected) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2
