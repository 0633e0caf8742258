"""The bootstrap of :mod:`cascade_srn.evaluation.comparison` for figures other than F1: recall, numbers of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.comparison import Array, Bootstrap, Difference, compare, drawn_differences, p_value_of
from cascade_srn.reproduction.claims import FEWER, NO_WORSE, Claim
from cascade_srn.reproduction.measures import MEASURES, POLICY, TASK_OF, Counted, Statistic
from cascade_srn.schema import Schema
from cascade_srn.types import Document


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


HELD, NOT_SHOWN, CONTRADICTED = "held", "not shown", "contradicted"
SURE, MARGIN = 0.05, 0.01


@dataclass(frozen=True)
class Verdict:
    """What became of a claim. Scores are fractions; of speeds, ``difference`` is the ratio, and so is its interval.

    ``paper`` is the paper's own difference (or ratio), in the paper's unit, where it has both figures.
    """

    claim: Claim
    first: float
    second: float
    difference: float
    outcome: str
    low: float
    high: float
    p_value: float | None = None
    paper: float | None = None

    @property
    def paper_within(self) -> bool | None:
        """Whether the paper's own difference lies in our interval; None where it has none."""
        if self.paper is None:
            return None
        scale = 1 if self.p_value is None else 100
        return scale * self.low <= self.paper <= scale * self.high

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        claim = self.claim
        return {
            "claim": claim.statement,
            "whose": "the paper's" if claim.paper else "ours",
            "figure": claim.column,
            "first": {"variant": claim.first, "mean": self.first},
            "second": {"variant": claim.second, "mean": self.second},
            "kind": claim.kind,
            "ratio" if claim.column == "speed" else "difference": self.difference,
            "interval": {"low": self.low, "high": self.high},
            "p_value": self.p_value,
            "paper": self.paper,
            "paper_within": self.paper_within,
            "outcome": self.outcome,
        }


def outcome(kind: str, difference: float, low: float, p_value: float) -> str:
    """What became of a claim of a kind; all figures are first minus second."""
    wanted = -difference if kind == FEWER else difference
    if p_value < SURE and wanted < 0:
        return CONTRADICTED
    held = low > -MARGIN if kind == NO_WORSE else p_value < SURE and wanted > 0
    return HELD if held else NOT_SHOWN


class Judge:
    """Judges claims by the predictions of some seeds of each variant, on the same test documents."""

    def __init__(
        self,
        gold: Sequence[Document],
        predicted: Mapping[str, Sequence[Sequence[Document]]],
        counted: Mapping[str, Sequence[Counted]],
        *,
        schema: Schema,
        bootstrap: Bootstrap,
    ) -> None:
        self.gold, self.predicted, self.counted = gold, predicted, counted
        self.schema, self.bootstrap = schema, bootstrap
        self._compared: dict[tuple[str, str], dict[str, Difference]] = {}
        n_units = len(gold) if bootstrap.unit == "document" else sum(len(document.sentences) for document in gold)
        if n_units < 2:
            raise ConfigError(f"a bootstrap over {n_units} {bootstrap.unit}s says nothing; give data with at least two")

    def judge(self, claim: Claim, *, paper: float | None = None) -> Verdict:
        """A claim about anything but speed."""
        first, second = (self._mean(variant, claim.column) for variant in (claim.first, claim.second))
        found = self._difference(claim)
        difference = first - second
        became = outcome(claim.kind, difference, found.low, found.p_value)
        return Verdict(claim, first, second, difference, became, found.low, found.high, found.p_value, paper)

    def _mean(self, variant: str, column: str) -> float:
        return float(np.mean([counted.value(column) for counted in self.counted[variant]]))

    def _difference(self, claim: Claim) -> Difference | Resampled:
        if claim.column in TASK_OF:
            return self._compare(claim.first, claim.second)[TASK_OF[claim.column]]
        first, second = (
            np.stack([counted.by_unit(claim.column, self.bootstrap.unit) for counted in self.counted[variant]])
            for variant in (claim.first, claim.second)
        )
        return resample(first, second, MEASURES[claim.column][1], self.bootstrap)

    def _compare(self, first: str, second: str) -> dict[str, Difference]:
        pair = first, second
        if pair not in self._compared:
            sides = (self.predicted[first], self.predicted[second])
            self._compared[pair] = compare(
                self.gold, *sides, schema=self.schema, symmetric=POLICY, bootstrap=self.bootstrap
            )
        return self._compared[pair]


def judge_speed(claim: Claim, rows: Mapping[str, Mapping[str, Any]], *, paper: float | None = None) -> Verdict:
    """A claim that one variant is faster than another; ``rows`` are those of ``speed.json``, measured in turns."""
    first, second = (rows[variant] for variant in (claim.first, claim.second))
    # Ratios of speeds are those of times the other way round.
    ratio = second["median_s"] / first["median_s"]
    by_turn = [theirs / ours for ours, theirs in zip(first["times_s"], second["times_s"], strict=True)]
    low, high = min(by_turn), max(by_turn)
    became = HELD if low > 1 else CONTRADICTED if high < 1 else NOT_SHOWN
    speeds = first["sentences_per_second"], second["sentences_per_second"]
    return Verdict(claim, *speeds, ratio, became, low, high, paper=paper)
