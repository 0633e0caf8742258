"""Figures of one or several models, as mean and standard deviation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.breakdown import Breakdown
from cascade_srn.evaluation.items import format_table
from cascade_srn.evaluation.scores import TASKS, Counts, Scores, TaskScores


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation of ``n`` fractions. ``sd`` is None for a single value.

    Example:
        >>> print(Spread.of([0.680, 0.684, 0.688]))  # in percent
        68.4 ± 0.4
    """

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Compute the spread of fractions, or of differences of fractions.

        Raises:
            ConfigError: There is no value, or a value is outside -1..1, such as a percentage.
        """
        given = [float(value) for value in values]
        if not given:
            raise ConfigError("there is no value to average", "Pass at least one value")
        for value in given:
            if not (math.isfinite(value) and -1 <= value <= 1):
                raise ConfigError(f"{value:g} is not a fraction", "Pass values from 0 to 1 instead of percentages")
        return cls(statistics.fmean(given), statistics.stdev(given) if len(given) > 1 else None, len(given))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        mean = f"{100 * self.mean:.1f}"
        return mean if self.sd is None else f"{mean} ± {100 * self.sd:.1f}"


@dataclass(frozen=True)
class Figure:
    """Precision, recall and F1 under one protocol. ``counts`` is None for several models and for macro averages."""

    protocol: str
    precision: Spread
    recall: Spread
    f1: Spread
    counts: Counts | None = None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "protocol": self.protocol,
            "precision": self.precision.to_dict(),
            "recall": self.recall.to_dict(),
            "f1": self.f1.to_dict(),
        }


def summarise(
    models: Sequence[Sequence[Scores]], *, per_label: bool = False, condition: str = "", exclude: Sequence[str] = ()
) -> list[Figure]:
    """Compute mean and standard deviation over models. NER does not depend on a policy and is listed once.

    Each model has scores under the same policies. A label that a model lacks counts 0 for that model. ``condition``
    is a suffix of every protocol name, ``exclude`` has tasks to omit.
    """
    if not models or not models[0]:
        raise ConfigError("there are no scores to summarise", "Pass the scores of at least one model")
    policies = [[scores.symmetric for scores in model] for model in models]
    if any(names != policies[0] for names in policies):
        raise ConfigError(
            f"the models are scored under different policies: {policies}", "Score all models under the same policies"
        )
    found: list[Figure] = []
    for task in (task for task in TASKS if task not in exclude):
        for at, policy in enumerate(policies[0][:1] if task == "ner" else policies[0]):
            name = ", ".join(part for part in (task, "" if task == "ner" else policy) if part)
            for average, rows, counts in _rows([getattr(model[at], task) for model in models], per_label):
                protocol = ", ".join(part for part in (name, average, condition) if part)
                precision, recall, f1 = (Spread.of(column) for column in zip(*rows, strict=True))
                found.append(Figure(protocol, precision, recall, f1, counts))
    return found


def summarise_groups(
    models: Sequence[Breakdown], *, symmetric: str, condition: str = "", exclude: Sequence[str] = ()
) -> list[Figure]:
    """Compute mean and standard deviation over models for each group of one breakdown that has items."""
    found: list[Figure] = []
    for task in (task for task in models[0].tasks if task not in exclude):
        for group in models[0].tasks[task]:
            counts = [model.tasks[task][group] for model in models]
            if not any(one.n_gold or one.n_predicted for one in counts):
                continue
            parts = (task, "" if task == "ner" else symmetric, "micro", group, condition)
            columns = zip(*((one.precision, one.recall, one.f1) for one in counts), strict=True)
            precision, recall, f1 = (Spread.of(column) for column in columns)
            protocol = ", ".join(part for part in parts if part)
            found.append(Figure(protocol, precision, recall, f1, counts[0] if len(counts) == 1 else None))
    return found


def _rows(
    tasks: Sequence[TaskScores], per_label: bool
) -> Iterator[tuple[str, list[tuple[float, float, float]], Counts | None]]:
    """Yield the name of each average, precision, recall and F1 of each model, and the counts of a single model."""

    def rows(all_counts: list[Counts]) -> tuple[list[tuple[float, float, float]], Counts | None]:
        return [(c.precision, c.recall, c.f1) for c in all_counts], all_counts[0] if len(all_counts) == 1 else None

    yield "micro", *rows([task.counts for task in tasks])
    yield "macro", [(task.macro_precision, task.macro_recall, task.macro_f1) for task in tasks], None
    if per_label:
        for label in dict.fromkeys(label for task in tasks for label in task.per_label):
            yield f"label {label}", *rows([task.per_label.get(label, Counts()) for task in tasks])


def figures_table(figures: Sequence[Figure]) -> str:
    """Format a plain-text table, in percent, with one row per figure."""
    rows: list[tuple[str, ...]] = [("protocol", "precision", "recall", "F1", "gold", "predicted", "correct")]
    for figure in figures:
        counts = figure.counts
        numbers = ("", "", "") if counts is None else (counts.n_gold, counts.n_predicted, counts.n_correct)
        rows.append((figure.protocol, *map(str, (figure.precision, figure.recall, figure.f1)), *map(str, numbers)))
    if not any(figure.counts for figure in figures):
        rows = [row[:4] for row in rows]
    return format_table(rows)
