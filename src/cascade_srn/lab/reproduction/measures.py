"""Predict the test documents, count what the tables need, and test the claims with a paired bootstrap."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cascade_srn.errors import ConfigError, DataError, ModelError
from cascade_srn.evaluation.breakdown import group_in_triples
from cascade_srn.evaluation.comparison import (
    MIN_UNITS,
    Array,
    Bootstrap,
    bootstrap_differences,
    compute_p_value,
    divide,
    f1,
)
from cascade_srn.evaluation.errors import RELATION_KINDS, count_relation_errors
from cascade_srn.evaluation.items import SentencePair, align_documents
from cascade_srn.evaluation.scores import Counts, task_items
from cascade_srn.extractor import Extractor
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.lab.reproduction.plan import PlannedRun
from cascade_srn.lab.reproduction.tables import FEWER, NO_WORSE, Claim
from cascade_srn.schema import Schema
from cascade_srn.training.corpus import Corpus
from cascade_srn.types import Document

# Policy for symmetric relations, as in the paper.
POLICY = "directed"
# Columns of the tables and their tasks in the evaluation.
TASK_OF = {"ner": "ner", "re": "re_strict", "boundaries": "re_boundaries"}

Statistic = Callable[[Array], Array]


def precision(counts: Array) -> Array:
    """Compute precision from gold, predicted and correct counts. Shapes: (…, 3) to (…)."""
    return divide(counts[..., 2], counts[..., 1])


def recall(counts: Array) -> Array:
    """Compute recall from gold, predicted and correct counts. Shapes: (…, 3) to (…)."""
    return divide(counts[..., 2], counts[..., 0])


def number(counts: Array) -> Array:
    """Return a plain count. Shapes: (…, 1) to (…)."""
    return counts[..., 0]


def share(counts: Array) -> Array:
    """Compute the share of one kind from its count and the count of all kinds. Shapes: (…, 2) to (…)."""
    return divide(counts[..., 0], counts[..., 1])


# The counts and the statistic of each column.
MEASURES: Mapping[str, tuple[str, Statistic]] = {
    **{column: (column, f1) for column in TASK_OF},
    "ner_precision": ("ner", precision),
    "ner_recall": ("ner", recall),
    **{
        f"{group}_{name}": (group, statistic)
        for group in ("in", "out")
        for name, statistic in (("precision", precision), ("recall", recall), ("f1", f1))
    },
    **{kind.kind: (kind.kind, number) for kind in RELATION_KINDS},
    **{f"{kind.kind}_share": (f"{kind.kind}_share", share) for kind in RELATION_KINDS},
}


@dataclass(frozen=True)
class SentenceCounts:
    """Named counts of one model's predictions, with a row for each sentence, and the document of each sentence."""

    parts: Mapping[str, Array]
    documents: tuple[int, ...]
    n_documents: int

    def value(self, column: str) -> float:
        """Return the figure of a column over all sentences."""
        part, statistic = MEASURES[column]
        return float(statistic(self.parts[part].sum(axis=0)))

    def by_unit(self, column: str, unit: str) -> Array:
        """Return the counts of a column by "document" or "sentence". Shape: (n_units, n_counts)."""
        counts = self.parts[MEASURES[column][0]]
        if unit == "sentence":
            return counts
        summed = np.zeros((self.n_documents, counts.shape[1]))
        np.add.at(summed, list(self.documents), counts)
        return summed


def count_predictions(gold: Sequence[Document], predicted: Sequence[Document], schema: Schema) -> SentenceCounts:
    """Count everything that the tables need."""
    documents = tuple(position for position, document in enumerate(gold) for _ in document.sentences)
    rows = [_count_sentence(pair, schema) for pair in align_documents(gold, predicted)]
    parts = {part: np.array([row[part] for row in rows], dtype=np.float64) for part in rows[0]}
    return SentenceCounts(parts, documents, len(gold))


def _count_sentence(pair: SentencePair, schema: Schema) -> dict[str, tuple[int, ...]]:
    known, found = (task_items(sentence, schema, POLICY) for sentence in (pair.gold, pair.predicted))
    groups = group_in_triples([pair])
    found_errors = count_relation_errors([pair], schema=schema, symmetric=POLICY)
    errors = {kind.kind: found_errors.n(kind.kind) for kind in RELATION_KINDS}
    return {
        **{
            column: (len(known[task]), len(found[task]), len(known[task] & found[task]))
            for column, task in TASK_OF.items()
        },
        "in": _as_tuple(groups.in_triple),
        "out": _as_tuple(groups.out_of_triple),
        **{kind: (n,) for kind, n in errors.items()},
        **{f"{kind}_share": (n, sum(errors.values())) for kind, n in errors.items()},
    }


def _as_tuple(counts: Counts) -> tuple[int, int, int]:
    return counts.n_gold, counts.n_predicted, counts.n_correct


def predictions_path(run: PlannedRun, corpus: Corpus, *, precision: str, batch_words: int) -> Path:
    """Return the file of a run's predictions on the test documents.

    Its name depends on the documents, the precision, the batch size and the settings of the model. If the model was
    deleted and there is exactly one file for these documents, it is that file.
    """
    documents, folder = corpus.splits["test"].sha256[:12], run.folder.path
    settings = run.folder.best / "config.json"
    if not settings.is_file():
        existing = sorted(folder.glob(f"test-{documents}*.jsonl"))
        if len(existing) == 1:
            return existing[0]
    model = settings.read_bytes() if settings.is_file() else b""
    digest = hashlib.sha256(model + f"{precision} {batch_words}".encode()).hexdigest()[:12]
    return folder / f"test-{documents}-{digest}.jsonl"


def check_data(run: PlannedRun, corpus: Corpus) -> None:
    """Raise a DataError if a finished run was trained on other data."""
    before = run.folder.read_summary()["data"]
    for name, (path, sha256) in corpus.checksums.items():
        if before[name]["sha256"] != sha256:
            raise DataError(
                f"data.{name} ({path!r}) differs from the data of the run in {str(run.folder.path)!r}",
                "Use the same data, or another output folder",
                option="output",
            )


def predict_test(
    run: PlannedRun, corpus: Corpus, *, device: torch.device, precision: str, batch_words: int
) -> list[Document]:
    """Return the predictions of a run's best model on the test documents, from its file if there is one."""
    path = predictions_path(run, corpus, precision=precision, batch_words=batch_words)
    if not path.is_file():
        require_model(run)
        extractor = Extractor.from_pretrained(run.folder.best, device=device, precision=precision)
        write_documents(extractor.predict(corpus.test, batch_words=batch_words), path, "jsonl")
    return list(read_documents(path, "jsonl"))


def require_model(run: PlannedRun) -> None:
    """Raise a ModelError if the model of a finished run was deleted."""
    if not run.folder.best.is_dir():
        raise ModelError(
            f"the run in {str(run.folder.path)!r} is finished, but its model is missing",
            "Restore best/, or delete the folder of the run to train it again",
        )


def resample(first: Array, second: Array, statistic: Statistic, bootstrap: Bootstrap) -> tuple[float, float, float]:
    """Bootstrap the difference of two sides, first minus second, over the units and over the models of each side.

    Shapes: first and second (n_models, n_units, n_counts)

    Returns:
        The bounds of the 95 % interval, and the two-sided p-value.
    """
    differences = bootstrap_differences(first, second, statistic, bootstrap)
    low, high = np.percentile(differences, (2.5, 97.5))
    return float(low), float(high), compute_p_value(differences)


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


def judge(
    claim: Claim, counts: Mapping[str, Sequence[SentenceCounts]], bootstrap: Bootstrap, *, paper: float | None = None
) -> Verdict:
    """Test a claim about anything but speed, on the counts of each variant and seed.

    ``paper`` is the published difference.
    """
    sides = [counts[variant] for variant in (claim.first, claim.second)]
    by_unit = [np.stack([seed.by_unit(claim.column, bootstrap.unit) for seed in side]) for side in sides]
    if (n_units := by_unit[0].shape[1]) < MIN_UNITS:
        raise ConfigError(f"the test set has {n_units} {bootstrap.unit}s", "Give at least two for the bootstrap")
    first, second = (float(np.mean([seed.value(claim.column) for seed in side])) for side in sides)
    low, high, p_value = resample(by_unit[0], by_unit[1], MEASURES[claim.column][1], bootstrap)
    outcome = decide_outcome(claim.kind, first - second, low, p_value)
    return Verdict(claim, first, second, first - second, outcome, low, high, p_value, paper)


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
