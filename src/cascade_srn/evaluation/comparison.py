"""Compare models by a paired bootstrap of the difference in micro F1 (docs/comparison.md).

Documents are drawn by default, because sentences of a document are not independent. A side can have several models,
such as the seeds of one recipe, which are drawn, too. F1 is a function of counts that add up. A resample is therefore
one product of the draw counts with the counts of each document, and nothing is scored again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.config import require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES, align_documents
from cascade_srn.evaluation.scores import TASKS, Spread, task_items
from cascade_srn.schema import Schema
from cascade_srn.types import Document

UNITS = ("document", "sentence")
# With fewer units, all draws are equal.
MIN_UNITS = 2
# Maximum number of resamples times units at a time, to bound memory.
_DRAWS_AT_ONCE = 1 << 21

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bootstrap:
    """Settings of the bootstrap."""

    n_resamples: int = 10_000
    unit: str = "document"
    seed: int = 0

    def __post_init__(self) -> None:
        require_range("n_resamples", self.n_resamples, 100)
        require_choice("unit", self.unit, UNITS)
        require_range("seed", self.seed, 0)


@dataclass(frozen=True)
class Difference:
    """Difference in micro F1 between two sides, first minus second, in fractions."""

    protocol: str
    first: Spread
    second: Spread
    low: float
    high: float
    p_value: float
    n_units: int
    bootstrap: Bootstrap

    @property
    def difference(self) -> float:
        """Mean F1 of the first side minus mean F1 of the second."""
        return self.first.mean - self.second.mean

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON, with the settings needed to reproduce them."""
        return {
            "protocol": self.protocol,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "difference": self.difference,
            "interval": {"level": 0.95, "low": self.low, "high": self.high},
            "p_value": self.p_value,
            "n_resamples": self.bootstrap.n_resamples,
            "unit": self.bootstrap.unit,
            "n_units": self.n_units,
            "drawn_models": max(self.first.n, self.second.n) > 1,
            "seed": self.bootstrap.seed,
        }

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return (
            f"{self.protocol}: {self.first} - {self.second} = {100 * self.difference:+.1f} "
            f"(95 % interval {low:+.1f} to {high:+.1f}, p = {self.p_value:.2g})"
        )


def count_units(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    *,
    schema: Schema,
    symmetric: str = "directed",
    unit: str = "document",
) -> Array:
    """Count the gold, predicted and correct items. Shape: (n_units, n_tasks, 3), tasks as in ``TASKS``."""
    require_choice("symmetric", symmetric, SYMMETRIC_POLICIES)
    require_choice("unit", unit, UNITS)
    owners = [number for number, document in enumerate(gold) for _ in document.sentences]
    n_units = len(gold) if unit == "document" else len(owners)
    counts = np.zeros((n_units, len(TASKS), 3))
    for at, (number, pair) in enumerate(zip(owners, align_documents(gold, predicted), strict=True)):
        schema.check(pair.gold, f"gold {pair.where}")
        schema.check(pair.predicted, f"predicted {pair.where}")
        known, found = (task_items(s, schema, symmetric) for s in (pair.gold, pair.predicted))
        counts[number if unit == "document" else at] += [
            [len(known[task]), len(found[task]), len(known[task] & found[task])] for task in TASKS
        ]
    return counts


def compare(
    gold: Sequence[Document],
    first: Sequence[Sequence[Document]],
    second: Sequence[Sequence[Document]],
    *,
    schema: Schema,
    symmetric: str = "directed",
    bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 (frozen)
) -> dict[str, Difference]:
    """Compare two sides, each with the predictions of one or more models: the difference in micro F1 by task."""
    counts = [
        np.stack([count_units(gold, model, schema=schema, symmetric=symmetric, unit=bootstrap.unit) for model in side])
        for side in (first, second)
    ]
    n_units = counts[0].shape[1]
    if n_units < MIN_UNITS:
        raise ConfigError(
            f"a bootstrap needs at least {MIN_UNITS} {bootstrap.unit}s, but the data has {n_units}", "Use more data"
        )
    whole = [f1(side.sum(axis=1)) for side in counts]
    drawn = bootstrap_differences(counts[0], counts[1], f1, bootstrap)
    found = {}
    for at, task in enumerate(TASKS):
        low, high = np.percentile(drawn[:, at], (2.5, 97.5))
        name = task if task == "ner" else f"{task}, {symmetric}"
        found[task] = Difference(
            protocol=f"{name}, micro F1",
            first=Spread.of(whole[0][:, at].tolist()),
            second=Spread.of(whole[1][:, at].tolist()),
            low=float(low),
            high=float(high),
            p_value=compute_p_value(drawn[:, at]),
            n_units=n_units,
            bootstrap=bootstrap,
        )
    return found


def bootstrap_differences(
    first: Array, second: Array, statistic: Callable[[Array], Array], bootstrap: Bootstrap
) -> Array:
    """Compute the difference in a statistic on resamples of the units, and of the models of each side.

    Shapes: first, second (n_models, n_units, …, n_counts); the statistic maps (…, n_counts) to (…); returns
        (n_resamples, …).
    """
    generator = np.random.default_rng(bootstrap.seed)
    n_units = first.shape[1]
    at_once = max(1, _DRAWS_AT_ONCE // n_units)
    found = []
    for begin in range(0, bootstrap.n_resamples, at_once):
        n = min(at_once, bootstrap.n_resamples - begin)
        # Number of draws of each unit, the same for both sides and all models.
        times = _draw_counts(generator, n_units, n)
        sides = []
        for counts in (first, second):
            n_models = counts.shape[0]
            values = statistic(np.einsum("ru,mu...->rm...", times, counts, optimize=True))
            weights = _draw_counts(generator, n_models, n) if n_models > 1 else np.ones((n, n_models))
            sides.append((weights.reshape(n, n_models, *[1] * (values.ndim - 2)) * values).sum(axis=1) / n_models)
        found.append(sides[0] - sides[1])
    return np.concatenate(found)


def f1_intervals(counts: Array, bootstrap: Bootstrap) -> Array:
    """Return the bounds of the 95 % interval of the micro F1 of one model.

    The data are resampled, so that the interval is about other texts of the same kind, and not about other models.

    Shapes: (n_units, n_tasks, 3) to (n_tasks, 2).
    """
    drawn = bootstrap_differences(counts[None], np.zeros_like(counts)[None], f1, bootstrap)
    bounds: Array = np.percentile(drawn, (2.5, 97.5), axis=0).T
    return bounds


def _draw_counts(generator: np.random.Generator, n_things: int, n_resamples: int) -> Array:
    """Return the number of draws of each thing in each resample. Shape: (n_resamples, n_things)."""
    return generator.multinomial(n_things, np.full(n_things, 1 / n_things), size=n_resamples).astype(np.float64)


def divide(numerator: Array, denominator: Array) -> Array:
    """Divide elementwise, with 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)


def f1(counts: Array) -> Array:
    """Compute F1 from gold, predicted and correct counts. Shapes: (…, 3) to (…)."""
    return divide(2 * counts[..., 2], counts[..., 0] + counts[..., 1])


def compute_p_value(differences: Array) -> float:
    """Return the two-sided p-value of the hypothesis of no difference. Shape of the differences: (n_resamples,)."""
    # Equal figures can differ by a rounding error, which is not a difference.
    below, above = (differences <= 1e-12).sum(), (differences >= -1e-12).sum()
    return float(min(1.0, 2 * (1 + min(below, above)) / (1 + len(differences))))
