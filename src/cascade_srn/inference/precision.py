"""Precision on demand: scores from which predictions have a promised precision.

A model folder holds the scores of predictions on calibration documents, and whether they are correct. A level of
precision is promised from a score if a test says so with 95 % confidence. Thresholds are tested in a sequence that the
scores alone determine, from high to low, and the last one before the first failure is used (fixed-sequence testing, as
in Learn then Test, Angelopoulos et al., 2021). No correction for several tests is needed then.

Predictions of one document are alike, so that they are not independent trials. The test is the binomial test of Korn
and Graubard (1998) with an effective number of predictions: the number of independent ones with the same variance
between documents. Half of it is used, because the promise is for the precision in a new collection of as many
documents, which varies as much as that of the calibration documents. See docs/precision.md.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cascade_srn.config import ModelSettings
from cascade_srn.errors import ConfigError, ModelError, did_you_mean
from cascade_srn.inference.options import KINDS, NOTIONS, PrecisionChoice
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Span, Triple

CONFIDENCE = 0.95

_VERSION = 1
# Thresholds of a sequence: the scores above which a twentieth of the predictions lies, two twentieths, and so on.
_N_THRESHOLDS = 20
# With predictions in fewer documents, their variance between documents is unknown.
_MIN_DOCUMENTS = 10
# Scores are stored, and thresholds given, in thousandths.
_STEPS = 1000

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class MinScores(NamedTuple):
    """Minimum scores of predictions, by entity type and by relation type. Other predictions are all kept."""

    entities: Mapping[str, float] = {}
    relations: Mapping[str, float] = {}

    def select(self, entities: Sequence[Span], triples: Sequence[Triple]) -> tuple[list[Span], list[Triple]]:
        """Return the entities with enough score, and the triples with enough score between two of them."""
        spans = [span for span in entities if _passes(span, self.entities)]
        known = set(spans)
        return spans, [t for t in triples if _passes(t, self.relations) and t.head in known and t.tail in known]

    def filter(self, document: Document) -> Document:
        """Return a document with the predictions that have enough score."""
        sentences = (s.annotated(*self.select(s.entities, s.triples)) for s in document.sentences)
        return replace(document, sentences=tuple(sentences))


def _passes(item: Span | Triple, bounds: Mapping[str, float]) -> bool:
    return item.score is None or item.score >= bounds.get(item.label, 0.0)


@dataclass(frozen=True, eq=False)
class ScoredPredictions:
    """Entities or relations that a model predicted in calibration documents. Shapes: (n,)."""

    labels: tuple[str, ...]  # Names of the labels
    document: Integers  # Number of the document
    label: Integers  # Position of the label in ``labels``
    score: Floats
    correct: Integers  # 0: wrong; 1: boundaries; 2: entity types too; -1: not judged
    # Positions of head and tail among the predicted entities; 0 for entities.
    head: Integers
    tail: Integers

    @classmethod
    def of(cls, labels: Sequence[str], rows: Sequence[Sequence[float]]) -> ScoredPredictions:
        """Make the arrays from rows of document, label, score, correct, head and tail. Scores are rounded down."""
        columns = np.array(rows, dtype=float).reshape(-1, 6).T
        score = np.floor(_STEPS * columns[2]) / _STEPS
        document, label, _, correct, head, tail = columns.astype(np.int64)
        return cls(tuple(labels), document, label, score, correct, head, tail)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        # Differences take less space when they are compressed.
        columns = {
            "document": np.diff(self.document, prepend=0),
            "label": self.label,
            "score": np.round(_STEPS * self.score).astype(int),
            "correct": self.correct,
            "head": np.diff(self.head, prepend=0),
            "tail": self.tail - self.head,
        }
        return {"labels": list(self.labels)} | {name: values.tolist() for name, values in columns.items()}

    def passing(self, bounds: Mapping[str, float]) -> Flags:
        """Return whether predictions reach the minimum scores of their labels."""
        lowest = np.array([bounds.get(label, 0.0) for label in self.labels] or [0.0])
        flags: Flags = self.score >= lowest[self.label]
        return flags


@dataclass(frozen=True, eq=False)
class PrecisionRecord:
    """What a model predicted in calibration documents, without their text. It is stored as ``precision.json.xz``."""

    n_documents: int
    source: str  # "annotations", or "review" for predictions that people marked
    settings: str  # Checksum of the thresholds and other settings that the predictions depend on
    entities: ScoredPredictions
    relations: ScoredPredictions

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "version": _VERSION,
            "documents": self.n_documents,
            "source": self.source,
            "settings": self.settings,
            **{kind: getattr(self, kind).to_dict() for kind in KINDS},
        }

    @classmethod
    def from_dict(cls, values: Any) -> PrecisionRecord:
        """Read plain values of a file, which need not be trusted.

        Raises:
            ModelError: The values are not those of :meth:`to_dict`.
        """
        try:
            if values["version"] != _VERSION:
                raise ValueError(f"its version is {values['version']!r}, but this release reads {_VERSION}")
            kinds = {kind: _read_predictions(values[kind]) for kind in KINDS}
            record = cls(int(values["documents"]), str(values["source"]), str(values["settings"]), **kinds)
            n_entities = len(record.entities.score)
            for found in kinds.values():
                _require_below(found.document, record.n_documents)
                _require_below(found.label, len(found.labels))
            _require_below(record.relations.head, n_entities)
            _require_below(record.relations.tail, n_entities)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ModelError(
                f"the precision statistics of the model cannot be read ({reason})", "Calibrate the model again"
            ) from error
        return record

    def within(self, documents: Flags) -> PrecisionRecord:
        """Return the part of some documents. Their numbers stay. Shape: (n_documents,)."""
        kinds = {}
        for kind in KINDS:
            found: ScoredPredictions = getattr(self, kind)
            kept = documents[found.document]
            columns = {name: getattr(found, name)[kept] for name in ("document", "label", "score", "correct")}
            # Heads and tails are in the same documents.
            moved = np.cumsum(documents[self.entities.document]) - 1
            ends = {name: getattr(found, name)[kept] for name in _ENDS}
            if kind == "relations":
                ends = {name: moved[values] for name, values in ends.items()}
            kinds[kind] = ScoredPredictions(found.labels, **columns, **ends)
        return PrecisionRecord(self.n_documents, self.source, self.settings, **kinds)


_ENDS = ("head", "tail")


def _read_predictions(values: Mapping[str, Any]) -> ScoredPredictions:
    columns = {name: np.array(values[name], dtype=np.int64) for name in ("document", "label", "correct", *_ENDS)}
    columns |= {name: columns[name].cumsum() for name in ("document", "head")}
    columns["tail"] = columns["tail"] + columns["head"]
    score = np.array(values["score"], dtype=np.int64) / _STEPS
    if not all(column.shape == score.shape for column in columns.values()):
        raise ValueError("columns differ in length")
    return ScoredPredictions(tuple(map(str, values["labels"])), score=score, **columns)


def _require_below(values: Integers, limit: int) -> None:
    if len(values) and not (values.min() >= 0 and values.max() < limit):
        raise ValueError("a number is out of range")


def settings_checksum(settings: ModelSettings, overlaps: str, constraints: str) -> str:
    """Return a checksum of the settings that predictions depend on. A promise is for these only."""
    chosen = settings.thresholds.to_dict(), settings.temperatures.to_dict(), overlaps, constraints
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


def find_min_scores(record: PrecisionRecord, schema: Schema, choice: PrecisionChoice) -> MinScores:
    """Find the minimum scores that promise the levels of a choice.

    The level of a label is for its predictions. That of a kind is for the predictions of its other labels. Relations
    are tested among those whose entities are kept.

    Raises:
        ConfigError: A level cannot be promised, or a label is unknown. The message names the highest possible level.
    """
    bounds: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    for name in choice.levels:
        if name not in (*KINDS, *schema.entity_types, *schema.relation_types):
            hint = did_you_mean(name, (*KINDS, *schema.entity_types, *schema.relation_types))
            raise ConfigError(
                f"precision is given for {name!r}, which is no label of the model", hint, option="precision"
            )
    for kind in KINDS:
        for name, labels in label_groups(kind, schema, choice.levels):
            tested = RankedPredictions.of(record, kind, labels, MinScores(**bounds), choice.notion)
            found = tested.find_min_score(choice.levels[name])
            if found is None:
                raise _cannot_promise(name, choice, tested, record)
            bounds[kind] |= dict.fromkeys(labels, found) if found else {}
    return MinScores(**bounds)


def label_groups(kind: str, schema: Schema, levels: Mapping[str, float]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of levels for entities or relations, with the labels that each of them is for."""
    labels = schema.entity_types if kind == "entities" else schema.relation_types
    yield from ((label, (label,)) for label in labels if label in levels)
    if kind in levels and (others := tuple(label for label in labels if label not in levels)):
        yield kind, others


def _cannot_promise(
    name: str, choice: PrecisionChoice, tested: RankedPredictions, record: PrecisionRecord
) -> ConfigError:
    highest = tested.highest_level()
    level = f"a precision of {choice.levels[name]:g} ({choice.notion})"
    asked = f"{level} cannot be promised for {name} with {CONFIDENCE:.0%} confidence"
    more = "calibrate the model on more documents"
    if highest is None:
        counted = f"{len(tested.score):,} predictions in {record.n_documents:,} calibration documents"
        return ConfigError(f"{asked}, nor can any other, from {counted}", more.capitalize(), option="precision")
    return ConfigError(
        f"{asked}; the highest level is {highest:g}", f"Ask for {highest:g}, or {more}", option="precision"
    )


class RankedPredictions(NamedTuple):
    """Scores, correctness and documents of predictions that a level is tested on, the best first. Shapes: (n,)."""

    score: Floats
    correct: Flags
    document: Integers

    @classmethod
    def of(
        cls,
        record: PrecisionRecord,
        kind: str,
        labels: Iterable[str],
        kept: MinScores | None = None,
        notion: str = "strict",
    ) -> RankedPredictions:
        """Return the predictions of some labels. Relations are those between entities that are kept."""
        found: ScoredPredictions = getattr(record, kind)
        chosen = set(labels)
        flags = np.array([label in chosen for label in found.labels] or [False])[found.label] & (found.correct >= 0)
        if kind == "relations" and kept is not None:
            passing = record.entities.passing(kept.entities)
            flags &= passing[found.head] & passing[found.tail]
        order = np.flatnonzero(flags)[np.argsort(-found.score[flags], kind="stable")]
        correct = found.correct[order] > NOTIONS.index(notion)
        return cls(found.score[order], correct, found.document[order])

    def ranks(self, n: int) -> Integers:
        """Return the numbers of predictions above ``n`` thresholds, each of which adds about as many."""
        ranks = np.unique(np.ceil(len(self.score) * np.arange(1, n + 1) / n).astype(int))
        # Equal scores are above a threshold together.
        return np.unique(np.searchsorted(-self.score, -self.score[ranks - 1], side="right"))

    def count_from(self, min_score: float) -> tuple[int, int]:
        """Return the number of predictions from a score on, and how many of them are correct."""
        kept = self.correct[self.score >= min_score]
        return len(kept), int(kept.sum())

    def find_min_score(self, level: float) -> float | None:
        """Return the score from which a level is promised; 0 if all predictions have it, None if it cannot be."""
        n = len(self.score)
        if not n:
            return None
        ranks = self.ranks(_N_THRESHOLDS)
        # If scores are probabilities, this is where the test is most likely to succeed. It depends on scores only.
        expected = np.cumsum(self.score)[ranks - 1] / ranks
        ranks = ranks[np.argmax((expected - level) * np.sqrt(ranks)) :]
        found = None
        for rank in ranks:
            if not self._holds(rank, level):
                break
            found = 0.0 if rank == n else float(self.score[rank - 1])
        return found

    def highest_level(self) -> float | None:
        """Return the highest level that can be promised, in steps of 0.01."""
        return next((at / 100 for at in range(99, 0, -1) if self.find_min_score(at / 100) is not None), None)

    def _holds(self, rank: int, level: float) -> bool:
        """Test whether the first predictions have a precision of at least ``level``."""
        documents = self.document[:rank]
        predicted = np.bincount(documents)
        n_documents = np.count_nonzero(predicted)
        if n_documents < _MIN_DOCUMENTS:
            return False
        correct = np.bincount(documents, weights=self.correct[:rank])
        share = float(correct.sum() / rank)
        spread = float(((correct - share * predicted) ** 2).sum()) * n_documents / (n_documents - 1)
        effective = min(rank, rank**2 * share * (1 - share) / spread) if spread else rank
        trials = int(effective / 2)
        return binomial_tail(trials, share * trials, level) <= 1 - CONFIDENCE


def binomial_tail(n: int, at_least: float, share: float) -> float:
    """Return the probability of ``at_least`` or more successes in ``n`` trials, between whole numbers interpolated."""
    if not n or not 0 < share < 1:
        return float(n == 0 or share >= 1)
    counts = np.arange(1, n + 1)
    # The logarithm of each probability from that of the one before.
    steps = np.log(n - counts + 1) - np.log(counts) + math.log(share) - math.log1p(-share)
    probabilities = np.exp(n * math.log1p(-share) + np.append(0.0, np.cumsum(steps)))
    tails = np.cumsum(probabilities[::-1])[::-1]
    return float(np.interp(at_least, np.arange(n + 1), tails))
