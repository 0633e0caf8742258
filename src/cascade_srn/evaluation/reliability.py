"""Reliability of scores: of the predictions with a score of about 0.8, are about 80 % correct?

Predictions are put into bins of equal width by their score. The reliability curve compares the mean score of each bin
with its precision. The expected calibration error is the mean distance between the two, weighted by bin size. Only
predictions have a score, so the curve starts near the thresholds.

Entities are correct as in ``ner``. Relations are correct as in ``re_strict`` under the given policy, and each predicted
relation counts once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.items import SentencePair, expand_triple, relation_items
from cascade_srn.schema import Schema

N_BINS = 10


@dataclass(frozen=True)
class ScoreBin:
    """Predictions with a score in [``low``, ``high``). The last bin includes 1."""

    low: float
    high: float
    n: int = 0
    n_correct: int = 0
    score_sum: float = 0.0

    @property
    def mean_score(self) -> float | None:
        """Mean of the scores, or None for an empty bin."""
        return self.score_sum / self.n if self.n else None

    @property
    def precision(self) -> float | None:
        """Share of correct predictions, or None for an empty bin."""
        return self.n_correct / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {name: getattr(self, name) for name in ("low", "high", "n", "n_correct", "mean_score", "precision")}


@dataclass(frozen=True)
class ReliabilityCurve:
    """Bins of scored predictions, and the number of predictions without a score."""

    bins: tuple[ScoreBin, ...]
    n_unscored: int = 0

    @property
    def n(self) -> int:
        """Number of predictions with a score."""
        return sum(part.n for part in self.bins)

    @property
    def expected_calibration_error(self) -> float | None:
        """Mean distance between precision and score, 0..1, or None if no prediction has a score."""
        # The size of a bin times the distance of its means is the distance of its sums.
        return sum(abs(part.n_correct - part.score_sum) for part in self.bins) / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON, with mean score and precision over all bins."""
        whole = ScoreBin(0, 1, self.n, sum(b.n_correct for b in self.bins), sum(b.score_sum for b in self.bins))
        return {
            "n": self.n,
            "n_unscored": self.n_unscored,
            "mean_score": whole.mean_score,
            "precision": whole.precision,
            "expected_calibration_error": self.expected_calibration_error,
            "bins": [part.to_dict() for part in self.bins],
        }


def measure_reliability(predictions: Iterable[tuple[float | None, bool]], *, n_bins: int = N_BINS) -> ReliabilityCurve:
    """Compute the curve of predictions, given as pairs of score (0..1 or None) and correctness."""
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
    bins = (ScoreBin(i / n_bins, (i + 1) / n_bins, n[i], correct[i], scores[i]) for i in range(n_bins))
    return ReliabilityCurve(tuple(bins), n_unscored)


def measure_entity_reliability(pairs: Iterable[SentencePair]) -> ReliabilityCurve:
    """Compute the curve of the predicted entities."""
    return measure_reliability(
        (entity.score, entity in pair.gold.entities) for pair in pairs for entity in pair.predicted.entities
    )


def measure_relation_reliability(
    pairs: Iterable[SentencePair], *, schema: Schema, symmetric: str = "directed"
) -> ReliabilityCurve:
    """Compute the curve of the predicted relations. A repeated relation counts once, with its first score."""
    found: list[tuple[float | None, bool]] = []
    for pair in pairs:
        gold = relation_items(pair.gold, schema, symmetric)
        for triple in dict.fromkeys(pair.predicted.triples):
            found.append((triple.score, gold.issuperset(expand_triple(triple, schema, symmetric))))
    return measure_reliability(found)
