"""Whether scores are what they say they are: of the predictions scored about 0.8, are about 80 % correct?

The curve puts predictions into bins of equal width by their score, and holds against each other the mean score of a bin
and the share of it that is correct. The expected calibration error is the mean distance between the two, each bin
weighed by its predictions. Only what was predicted has a score, so the curve begins about where the thresholds are.

Entities are correct as ``ner`` counts them, relations as ``re_strict`` does under the policy in force, each relation
as the model wrote it and counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.items import Pair, items_of, relation_items
from cascade_srn.schema import Schema

N_BINS = 10


@dataclass(frozen=True)
class Bin:
    """The predictions with a score of ``low`` to ``high`` (below it; the last bin includes 1)."""

    low: float
    high: float
    n: int = 0
    n_correct: int = 0
    score_sum: float = 0.0

    @property
    def mean_score(self) -> float | None:
        """The mean of the scores; None where there are none."""
        return self.score_sum / self.n if self.n else None

    @property
    def precision(self) -> float | None:
        """The share that is correct; None where there are none."""
        return self.n_correct / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "n_correct": self.n_correct,
            "mean_score": self.mean_score,
            "precision": self.precision,
        }


@dataclass(frozen=True)
class Calibration:
    """A reliability curve; ``n_unscored`` predictions came without a score and are in no bin."""

    bins: tuple[Bin, ...]
    n_unscored: int = 0

    @property
    def n(self) -> int:
        """The predictions that have a score."""
        return sum(part.n for part in self.bins)

    @property
    def expected_calibration_error(self) -> float | None:
        """The mean distance of precision from score, 0..1; None where no prediction has a score."""
        # A bin's n times the distance of its two means is the distance of its two sums.
        return sum(abs(part.n_correct - part.score_sum) for part in self.bins) / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the mean score and the precision of all predictions that have a score."""
        whole = Bin(0, 1, self.n, sum(b.n_correct for b in self.bins), sum(b.score_sum for b in self.bins))
        return {
            "n": self.n,
            "n_unscored": self.n_unscored,
            "mean_score": whole.mean_score,
            "precision": whole.precision,
            "expected_calibration_error": self.expected_calibration_error,
            "bins": [part.to_dict() for part in self.bins],
        }


def calibrate(predictions: Iterable[tuple[float | None, bool]], *, n_bins: int = N_BINS) -> Calibration:
    """The curve of predictions, each a score (0..1, or None) and whether it is correct."""
    n, correct, scores = [0] * n_bins, [0] * n_bins, [0.0] * n_bins
    n_unscored = 0
    for score, is_correct in predictions:
        if score is None:
            n_unscored += 1
            continue
        at = min(int(score * n_bins), n_bins - 1)
        n[at] += 1
        correct[at] += is_correct
        scores[at] += score
    bins = (Bin(i / n_bins, (i + 1) / n_bins, n[i], correct[i], scores[i]) for i in range(n_bins))
    return Calibration(tuple(bins), n_unscored)


def calibrate_entities(pairs: Iterable[Pair]) -> Calibration:
    """The curve of the predicted entities."""
    return calibrate(
        (entity.score, entity in pair.gold.entities) for pair in pairs for entity in pair.predicted.entities
    )


def calibrate_relations(pairs: Iterable[Pair], *, schema: Schema, symmetric: str = "directed") -> Calibration:
    """The curve of the predicted relations."""
    found: list[tuple[float | None, bool]] = []
    for pair in pairs:
        gold = relation_items(pair.gold, schema, symmetric)
        # A repeated relation once, with the score that it has first.
        for triple in dict.fromkeys(pair.predicted.triples):
            found.append((triple.score, gold.issuperset(items_of(triple, schema, symmetric))))
    return calibrate(found)
