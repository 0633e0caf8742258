"""Test claims with a paired bootstrap, for F1 and for figures such as recall or numbers of errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.comparison import (
    Array,
    Bootstrap,
    Difference,
    bootstrap_differences,
    compare,
    compute_p_value,
)
from cascade_srn.lab.reproduction.claims import FEWER, NO_WORSE, Claim
from cascade_srn.lab.reproduction.measures import MEASURES, POLICY, TASK_OF, SentenceCounts, Statistic
from cascade_srn.schema import Schema
from cascade_srn.types import Document


class ResampledDifference(NamedTuple):
    """The 95 % interval of a difference, first minus second, and its two-sided p-value."""

    low: float
    high: float
    p_value: float


def resample(first: Array, second: Array, statistic: Statistic, bootstrap: Bootstrap) -> ResampledDifference:
    """Bootstrap the difference of two sides, over the units and over the models of each side.

    Shapes: first and second (n_models, n_units, n_counts)
    """
    differences = bootstrap_differences(first, second, statistic, bootstrap)
    low, high = np.percentile(differences, (2.5, 97.5))
    return ResampledDifference(float(low), float(high), compute_p_value(differences))


HELD, NOT_SHOWN, CONTRADICTED = "held", "not shown", "contradicted"
SIGNIFICANCE = 0.05
# Largest loss that still counts as no worse.
MARGIN = 0.01


@dataclass(frozen=True)
class Verdict:
    """The result of testing a claim: means of both variants, and their difference with its 95 % interval.

    Scores are fractions. For speeds, ``difference`` is a ratio, and there is no p-value. ``paper`` is the difference or
    ratio of the published figures, in the unit of the paper.
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
        """Whether the published difference is in our interval; None if there is none."""
        if self.paper is None:
            return None
        scale = 1 if self.p_value is None else 100
        return scale * self.low <= self.paper <= scale * self.high

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
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


def decide_outcome(kind: str, difference: float, low: float, p_value: float) -> str:
    """Return the outcome of a claim of a kind. ``low`` is the lower end of the interval of the difference."""
    gain = -difference if kind == FEWER else difference
    if p_value < SIGNIFICANCE and gain < 0:
        return CONTRADICTED
    held = low > -MARGIN if kind == NO_WORSE else p_value < SIGNIFICANCE and gain > 0
    return HELD if held else NOT_SHOWN


class Judge:
    """Tests claims on the test documents, with the predictions of each variant and seed and their counts."""

    def __init__(
        self,
        gold: Sequence[Document],
        predicted: Mapping[str, Sequence[Sequence[Document]]],
        counts: Mapping[str, Sequence[SentenceCounts]],
        *,
        schema: Schema,
        bootstrap: Bootstrap,
    ) -> None:
        self.gold, self.predicted, self.counts = gold, predicted, counts
        self.schema, self.bootstrap = schema, bootstrap
        self._compared: dict[tuple[str, str], dict[str, Difference]] = {}
        n_units = len(gold) if bootstrap.unit == "document" else sum(len(document.sentences) for document in gold)
        if n_units < 2:
            raise ConfigError(f"the test set has {n_units} {bootstrap.unit}s", "Give at least two for the bootstrap")

    def judge(self, claim: Claim, *, paper: float | None = None) -> Verdict:
        """Test a claim about anything but speed. ``paper`` is the published difference."""
        first, second = (
            float(np.mean([counts.value(claim.column) for counts in self.counts[variant]]))
            for variant in (claim.first, claim.second)
        )
        found = self._resample(claim)
        outcome = decide_outcome(claim.kind, first - second, found.low, found.p_value)
        return Verdict(claim, first, second, first - second, outcome, found.low, found.high, found.p_value, paper)

    def _resample(self, claim: Claim) -> Difference | ResampledDifference:
        if claim.column in TASK_OF:
            return self._compare(claim.first, claim.second)[TASK_OF[claim.column]]
        first, second = (
            np.stack([counts.by_unit(claim.column, self.bootstrap.unit) for counts in self.counts[variant]])
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
    """Test a claim that one variant is faster than another. ``rows`` are those of ``speed.json``."""
    first, second = (rows[variant] for variant in (claim.first, claim.second))
    # The ratio of speeds is the inverse ratio of times.
    ratio = second["median_s"] / first["median_s"]
    ratios = [b / a for a, b in zip(first["times_s"], second["times_s"], strict=True)]
    low, high = min(ratios), max(ratios)
    outcome = HELD if low > 1 else CONTRADICTED if high < 1 else NOT_SHOWN
    speeds = first["sentences_per_second"], second["sentences_per_second"]
    return Verdict(claim, *speeds, ratio, outcome, low, high, paper=paper)
