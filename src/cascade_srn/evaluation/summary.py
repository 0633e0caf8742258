"""The figures of one model or of several under their full names, as rows and as a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import aligned
from cascade_srn.evaluation.scores import TASKS, Counts, Scores, TaskScores


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation of ``n`` values that are given as fractions, 0..1.

    ``sd`` is None for one value: one run says nothing about how much runs differ, and a 0 would read as "they do
    not". Everything in here is a fraction, as it is everywhere in the library; ``str()`` alone is in percent, with
    one decimal: "68.5 ± 0.4", or "68.5" for one value.
    """

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of fractions, 0..1 (a difference of two: -1..1); a percentage is refused."""
        given = [float(value) for value in values]
        if not given:
            raise ConfigError("a mean of no values was asked for; give at least one")
        for value in given:
            if not (math.isfinite(value) and -1 <= value <= 1):
                raise ConfigError(f"{value:g} is no fraction; give values within 0..1, not percentages")
        return cls(statistics.fmean(given), statistics.stdev(given) if len(given) > 1 else None, len(given))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: ``mean`` and ``sd`` as fractions, ``sd`` null for one value, and ``n``."""
        return {"mean": self.mean, "sd": self.sd, "n": self.n}

    def __str__(self) -> str:
        mean = f"{100 * self.mean:.1f}"
        return mean if self.sd is None else f"{mean} ± {100 * self.sd:.1f}"


@dataclass(frozen=True)
class Figure:
    """Precision, recall and F1 under one protocol; ``counts`` where they are of one model and not a macro average."""

    protocol: str
    precision: Spread
    recall: Spread
    f1: Spread
    counts: Counts | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "protocol": self.protocol,
            "precision": self.precision.to_dict(),
            "recall": self.recall.to_dict(),
            "f1": self.f1.to_dict(),
        }


def summarise(
    models: Sequence[Sequence[Scores]], *, per_label: bool = False, condition: str = "", without: Sequence[str] = ()
) -> list[Figure]:
    """The figures of models, each scored under the same policies for symmetric relations, as means and deviations.

    NER, which no policy changes, comes once. ``condition`` is added to every name; ``without`` are tasks to leave out.
    A label that one of the models has not predicted, and that is not in gold, counts 0 for that model.
    """
    if not models or not models[0]:
        raise ConfigError("there are no scores to summarise; give those of at least one model")
    policies = [[scores.symmetric for scores in model] for model in models]
    if any(names != policies[0] for names in policies):
        raise ConfigError(f"the models are scored under different policies, {policies}; score all of them alike")
    found: list[Figure] = []
    for task in (task for task in TASKS if task not in without):
        for at, policy in enumerate(policies[0][:1] if task == "ner" else policies[0]):
            name = ", ".join(part for part in (task, "" if task == "ner" else policy) if part)
            for average, rows, counts in _rows([getattr(model[at], task) for model in models], per_label):
                protocol = ", ".join(part for part in (name, average, condition) if part)
                precision, recall, f1 = (Spread.of(column) for column in zip(*rows, strict=True))
                found.append(Figure(protocol, precision, recall, f1, counts))
    return found


def _rows(
    tasks: Sequence[TaskScores], per_label: bool
) -> Iterator[tuple[str, list[tuple[float, float, float]], Counts | None]]:
    """The names of a task's averages, with precision, recall and F1 of each model."""

    def rows(all_counts: list[Counts]) -> tuple[list[tuple[float, float, float]], Counts | None]:
        return [(c.precision, c.recall, c.f1) for c in all_counts], all_counts[0] if len(all_counts) == 1 else None

    yield "micro", *rows([task.counts for task in tasks])
    yield "macro", [(task.macro_precision, task.macro_recall, task.macro_f1) for task in tasks], None
    if per_label:
        for label in dict.fromkeys(label for task in tasks for label in task.per_label):
            yield f"label {label}", *rows([task.per_label.get(label, Counts()) for task in tasks])


def figures_table(figures: Sequence[Figure]) -> str:
    """One line a figure, each opening with the name of its protocol; percentages with one decimal."""
    rows: list[tuple[str, ...]] = [("protocol", "precision", "recall", "F1", "gold", "predicted", "correct")]
    for figure in figures:
        counts = figure.counts
        numbers = ("", "", "") if counts is None else (counts.n_gold, counts.n_predicted, counts.n_correct)
        rows.append((figure.protocol, *map(str, (figure.precision, figure.recall, figure.f1)), *map(str, numbers)))
    if not any(figure.counts for figure in figures):
        rows = [row[:4] for row in rows]
    return aligned(rows)
