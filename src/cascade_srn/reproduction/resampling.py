"""The bootstrap of :mod:`cascade_srn.evaluation.comparison` for figures other than F1: recall, numbers of errors.

The same draws in the same order: for F1 both give the same interval and the same p-value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cascade_srn.evaluation.comparison import Array, Bootstrap
from cascade_srn.reproduction.measures import Statistic

# How many draws are made at a time, which bounds the memory.
_DRAWS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Resampled:
    """The middle 95 % of the differences, first minus second, and the two-sided p-value of there being none."""

    low: float
    high: float
    p_value: float


def resample(first: Array, second: Array, statistic: Statistic, bootstrap: Bootstrap) -> Resampled:
    """How the difference of two sides in a figure varies over resamples of the units, and of each side's models.

    Shapes: first, second (n_models, n_units, n_counts)
    """
    generator = np.random.default_rng(bootstrap.seed)
    n_units = first.shape[1]
    at_once = max(1, _DRAWS_AT_ONCE // n_units)
    found = []
    for begin in range(0, bootstrap.n_resamples, at_once):
        n = min(at_once, bootstrap.n_resamples - begin)
        times = _draws(generator, n_units, n)
        sides = []
        for counts in (first, second):
            n_models = counts.shape[0]
            values = statistic(np.einsum("ru,muc->rmc", times, counts, optimize=True))
            drawn = bootstrap.draw_models and n_models > 1
            weights = _draws(generator, n_models, n) if drawn else np.ones((n, n_models))
            sides.append((weights * values).sum(axis=1) / n_models)
        found.append(sides[0] - sides[1])
    differences = np.concatenate(found)
    low, high = np.percentile(differences, (2.5, 97.5))
    # Rounding makes equal figures differ in their last digit, which must not count as a difference.
    sides_of_zero = (differences <= 1e-12).sum(), (differences >= -1e-12).sum()
    p_value = min(1.0, 2 * (1 + min(sides_of_zero)) / (1 + len(differences)))
    return Resampled(float(low), float(high), float(p_value))


def _draws(generator: np.random.Generator, n_things: int, n_resamples: int) -> Array:
    """How often each of the things is drawn in each resample. Shapes: returns (n_resamples, n_things)."""
    return generator.multinomial(n_things, np.full(n_things, 1 / n_things), size=n_resamples).astype(np.float64)
