"""Whether one model is better than another: a paired bootstrap of the difference in micro F1.

A test set is one sample of the texts there are. The bootstrap draws many others from it, with replacement and of the
same size, scores both sides on each of them, and looks at how the difference varies. The 95 % interval is the middle
95 % of the differences (percentile interval). The two-sided p-value is twice the share of the resamples in which the
difference is zero or on the other side; one is added to both counts, so that it is never 0, and it is 1 at most.
Paired means that both sides are scored on the same draws, so that texts which are hard for both cancel out.

What is drawn is documents, since the sentences of a document are no independent sample: they share their subject,
their terms and their annotator, and intervals from sentences are narrower than they should be. ``unit="sentence"`` is
there for data whose documents are few or have no meaning.

A side can be several models, the seeds of one recipe: its figure is the mean of their F1. The models are then drawn
too, so that the interval holds for the recipe rather than for these seeds of it; a side of one model has nothing to
draw, and its interval is one for that model alone. Few seeds understate how much seeds vary.

Nothing is scored anew for a resample: F1 is made of counts that add up, so that a resample is one product of how often
each document was drawn with the counts of each document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.config import require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import align_documents, require_policy
from cascade_srn.evaluation.scores import TASKS, task_items
from cascade_srn.evaluation.summary import Spread
from cascade_srn.schema import Schema
from cascade_srn.types import Document

UNITS = ("document", "sentence")
# With fewer, every draw is the same.
LEAST_UNITS = 2
# How many draws are made at a time, over all units of some resamples, which bounds the memory.
_DRAWS_AT_ONCE = 1 << 21

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bootstrap:
    """How resamples are made: how many, of what, from which seed, and whether several models are drawn too."""

    n_resamples: int = 10_000
    unit: str = "document"
    seed: int = 0
    draw_models: bool = True

    def __post_init__(self) -> None:
        require_range("n_resamples", self.n_resamples, 100)
        require_choice("unit", self.unit, UNITS)
        require_range("seed", self.seed, 0)


@dataclass(frozen=True)
class Difference:
    """The difference of two sides in micro F1, first minus second, as fractions."""

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
        """The mean F1 of the first side minus that of the second."""
        return self.first.mean - self.second.mean

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with all that is needed to make them again."""
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
            "drawn_models": self.bootstrap.draw_models and max(self.first.n, self.second.n) > 1,
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
    """The numbers of gold, predicted and correct items of each unit and task.

    Shapes: returns (n_units, n_tasks, 3), tasks in the order of ``TASKS``
    """
    require_policy(symmetric)
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
    """The differences between two sides by task; a side is the predictions of one or more models."""
    counts = [
        np.stack([count_units(gold, model, schema=schema, symmetric=symmetric, unit=bootstrap.unit) for model in side])
        for side in (_given(first, "first"), _given(second, "second"))
    ]
    n_units = counts[0].shape[1]
    if n_units < LEAST_UNITS:
        raise ConfigError(f"a bootstrap over {n_units} {bootstrap.unit}s says nothing; give data with at least two")
    whole = [_f1(side.sum(axis=1)) for side in counts]
    drawn = drawn_differences(counts[0], counts[1], _f1, bootstrap)
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
            p_value=p_value_of(drawn[:, at]),
            n_units=n_units,
            bootstrap=bootstrap,
        )
    return found


def drawn_differences(first: Array, second: Array, statistic: Callable[[Array], Array], bootstrap: Bootstrap) -> Array:
    """The differences of two sides in a figure on resamples of the units, and of each side's models.

    Shapes: first, second (n_models, n_units, …, n_counts), the last of which the statistic makes a figure of; returns
        (n_resamples, …)
    """
    generator = np.random.default_rng(bootstrap.seed)
    n_units = first.shape[1]
    at_once = max(1, _DRAWS_AT_ONCE // n_units)
    found = []
    for begin in range(0, bootstrap.n_resamples, at_once):
        n = min(at_once, bootstrap.n_resamples - begin)
        # How often each unit is drawn: the same for both sides and for all models.
        times = _draws(generator, n_units, n)
        sides = []
        for counts in (first, second):
            n_models = counts.shape[0]
            values = statistic(np.einsum("ru,mu...->rm...", times, counts, optimize=True))
            drawn = bootstrap.draw_models and n_models > 1
            weights = _draws(generator, n_models, n) if drawn else np.ones((n, n_models))
            sides.append((weights.reshape(n, n_models, *[1] * (values.ndim - 2)) * values).sum(axis=1) / n_models)
        found.append(sides[0] - sides[1])
    return np.concatenate(found)


def _draws(generator: np.random.Generator, n_things: int, n_resamples: int) -> Array:
    """How often each of the things is drawn in each resample. Shapes: returns (n_resamples, n_things)."""
    return generator.multinomial(n_things, np.full(n_things, 1 / n_things), size=n_resamples).astype(np.float64)


def _f1(counts: Array) -> Array:
    """F1 as :class:`~cascade_srn.evaluation.scores.Counts` has it. Shapes: (…, 3) to (…)."""
    total = counts[..., 0] + counts[..., 1]
    return np.divide(2 * counts[..., 2], total, out=np.zeros_like(total), where=total > 0)


def p_value_of(differences: Array) -> float:
    """The two-sided p-value of there being no difference. Shapes: differences (n_resamples,)."""
    # Rounding makes equal figures differ in their last digit, which must not count as a difference.
    below, above = (differences <= 1e-12).sum(), (differences >= -1e-12).sum()
    return float(min(1.0, 2 * (1 + min(below, above)) / (1 + len(differences))))


def _given(side: Sequence[Sequence[Document]], name: str) -> Sequence[Sequence[Document]]:
    if not side:
        raise ConfigError(f"the {name} side of a comparison has no model; give the predictions of at least one")
    return side
