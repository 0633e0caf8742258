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
_MAX_STEPS, _TOLERANCE = 100, 1e-9

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
    # One column for the common offset, and one for what each label adds to it.
    of_label = np.array(labels)[:, None] == np.array(names)
    columns = np.column_stack((np.ones(len(logits)), of_label))
    weights = np.array([PRIOR, *[SHRINKAGE] * len(names)])
    slope = 1 + _fit(logits, np.column_stack((logits, columns)), correct, np.append(PRIOR, weights))[0]
    temperature = _temperature(slope)
    # Again with the temperature in its range, which changes nothing for a temperature that was in it.
    common, *added = _fit(logits / temperature, columns, correct, weights)
    return Scaling(temperature, {name: round(common + own, 4) for name, own in zip(names, added, strict=True)})


def fit_temperature(scores: Floats, correct: Flags) -> float:
    """Return the temperature of maximum likelihood without an offset, or 1 with too few examples. Shapes: (n,) both."""
    if not has_enough_examples(correct):
        return 1.0
    logits = logit(scores)
    return _temperature(1 + _fit(logits, logits[:, None], correct, np.array([PRIOR]))[0])


def _temperature(slope: float) -> float:
    return round(1 / min(max(slope, 1 / MAX_TEMPERATURE), 1 / MIN_TEMPERATURE), 4)


def _fit(logits: Floats, columns: Floats, correct: Flags, weights: Floats) -> list[float]:
    """Return the coefficients that maximise the likelihood of ``logits + columns @ coefficients``.

    Coefficients are shrunk towards 0 with the given weights. Newton's method with halved steps converges, since the
    loss is convex.

    Shapes: logits, correct (n,); columns (n, n_columns); weights (n_columns,)
    """

    def loss(values: Floats) -> float:
        shifted = logits + columns @ values
        return float((np.logaddexp(0, shifted) - correct * shifted).sum()) + float(weights @ values**2) / 2

    found = np.zeros(columns.shape[1])
    for _ in range(_MAX_STEPS):
        probability = sigmoid(logits + columns @ found)
        gradient = columns.T @ (probability - correct) + weights * found
        curvature = (columns * (probability * (1 - probability))[:, None]).T @ columns + np.diag(weights)
        step = np.linalg.solve(curvature, gradient)
        while loss(found - step) > loss(found) and np.abs(step).max() > _TOLERANCE:
            step = step / 2
        found = found - step
        if np.abs(step).max() <= _TOLERANCE:
            break
    return [float(value) for value in found]
