"""The bootstrap of :mod:`cascade_srn.evaluation.comparison` for figures other than F1: recall, numbers of errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cascade_srn.evaluation.comparison import Array, Bootstrap, drawn_differences, p_value_of
from cascade_srn.reproduction.measures import Statistic


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
    differences = drawn_differences(first, second, statistic, bootstrap)
    low, high = np.percentile(differences, (2.5, 97.5))
    return Resampled(float(low), float(high), p_value_of(differences))
