"""Precision, recall and F1 of entities and relations, over sets of exact matches, for one or several models.

A prediction is correct if gold has an item with the same

* ``ner``: boundaries and entity type;
* ``re_boundaries``: boundaries of both arguments and relation type;
* ``re_strict``: the same, and entity types of both arguments.

A policy says how relations of symmetric types count, in gold and in predictions:

* ``directed``: as written, so that (a, b) differs from (b, a);
* ``canonical``: with the arguments in text order, so that (a, b) and (b, a) are one relation;
* ``doubled``: as two relations, (a, b) and (b, a).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cascade_srn.config import require_choice
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import (
    SYMMETRIC_POLICIES,
    SentencePair,
    align,
    align_documents,
    format_table,
    relation_items,
)
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

TASKS = ("ner", "re_boundaries", "re_strict")


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of gold, predicted and correct items. Counts of disjoint sets can be added."""

    n_gold: int = 0
    n_predicted: int = 0
    n_correct: int = 0

    @property
    def precision(self) -> float:
        """Share of the predictions that are correct, or 0 without predictions."""
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold items that were predicted, or 0 without gold items."""
        return self.n_correct / self.n_gold if self.n_gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, or 0 if both are 0."""
        total = self.n_gold + self.n_predicted
        return 2 * self.n_correct / total if total else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.n_gold + other.n_gold, self.n_predicted + other.n_predicted, self.n_correct + other.n_correct
        )

    def to_dict(self) -> dict[str, float | int]:
        """Convert to plain values for JSON. Precision, recall and F1 are fractions."""
        names = ("precision", "recall", "f1", "n_gold", "n_predicted", "n_correct")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Scores of one task."""

    name: str  # Name of the task
    counts: Counts  # Counts over all labels, for micro averages
    # Counts of each label that occurs in gold or in the predictions, in the order of the schema. Macro averages are
    # means over these labels. Other labels have no F1, and counting them as 0 would make macro averages depend on the
    # labels that a test set lacks.
    per_label: dict[str, Counts]

    @property
    def macro_precision(self) -> float:
        """Mean precision of the labels."""
        return _mean([counts.precision for counts in self.per_label.values()])

    @property
    def macro_recall(self) -> float:
        """Mean recall of the labels."""
        return _mean([counts.recall for counts in self.per_label.values()])

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels, which differs from the F1 of mean precision and mean recall."""
        return _mean([counts.f1 for counts in self.per_label.values()])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "micro": self.counts.to_dict(),
            "macro": {
                "precision": self.macro_precision,
                "recall": self.macro_recall,
                "f1": self.macro_f1,
                "n_labels": len(self.per_label),
            },
            "per_label": {label: counts.to_dict() for label, counts in self.per_label.items()},
        }


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of all three tasks under one policy for symmetric relations."""

    symmetric: str
    ner: TaskScores
    re_boundaries: TaskScores
    re_strict: TaskScores

    def to_dict(self, *, exclude: Sequence[str] = ()) -> dict[str, Any]:
        """Convert to plain values for JSON: the policy, then the scores of all tasks that are not excluded."""
        tasks = {task: getattr(self, task).to_dict() for task in TASKS if task not in exclude}
        return {"symmetric": self.symmetric} | tasks

    def table(self, *, per_label: bool = False) -> str:
        """Format a plain-text table, in percent, with one row per protocol.

        Args:
            per_label: Add a row for each label.
        """
        return figures_table(summarise([[self]], per_label=per_label))

    def __str__(self) -> str:
        return self.table()


def score(
    gold: Iterable[Sentence], predicted: Iterable[Sentence], *, schema: Schema, symmetric: str = "directed"
) -> Scores:
    """Score predicted sentences against gold sentences, paired by position.

    Annotations are compared as sets within a sentence, so that a repeated relation counts once.

    Args:
        gold: Annotated sentences.
        predicted: Predictions on the same sentences, word for word.
        schema: Label set of both.
        symmetric: Policy for symmetric relations: "directed", "canonical" or "doubled".

    Raises:
        AnnotationError: The two sides do not have the same sentences.
        SchemaError: A label is not in the schema.
    """
    return _score(align(gold, predicted), schema, symmetric)


def score_documents(
    gold: Iterable[Document], predicted: Iterable[Document], *, schema: Schema, symmetric: str = "directed"
) -> Scores:
    """Score documents, paired by position. See :func:`score`."""
    return _score(align_documents(gold, predicted), schema, symmetric)


# An item of any task starts with its label.
Item = tuple[object, ...]


def _score(pairs: Iterable[SentencePair], schema: Schema, symmetric: str) -> Scores:
    require_choice("symmetric", symmetric, SYMMETRIC_POLICIES)
    # By task, then by label: numbers of gold, predicted and correct items.
    tallies = {task: (Counter[object](), Counter[object](), Counter[object]()) for task in TASKS}
    for where, gold, predicted in pairs:
        schema.check(gold, f"gold {where}")
        schema.check(predicted, f"predicted {where}")
        gold_items, predicted_items = (task_items(s, schema, symmetric) for s in (gold, predicted))
        for task, (n_gold, n_predicted, n_correct) in tallies.items():
            n_gold.update(item[0] for item in gold_items[task])
            n_predicted.update(item[0] for item in predicted_items[task])
            n_correct.update(item[0] for item in gold_items[task] & predicted_items[task])
    results = {}
    for task, (n_gold, n_predicted, n_correct) in tallies.items():
        labels = schema.entity_types if task == "ner" else schema.relation_types
        per_label = {
            label: Counts(n_gold[label], n_predicted[label], n_correct[label])
            for label in labels
            if n_gold[label] or n_predicted[label]
        }
        results[task] = TaskScores(task, sum(per_label.values(), Counts()), per_label)
    return Scores(symmetric, **results)


def task_items(sentence: Sentence, schema: Schema, symmetric: str) -> dict[str, set[Item]]:
    """Return the items of a sentence by task."""
    relations = relation_items(sentence, schema, symmetric)
    return {
        "ner": {(entity.label, entity.start, entity.end) for entity in sentence.entities},
        "re_boundaries": {
            (item.label, item.head.start, item.head.end, item.tail.start, item.tail.end) for item in relations
        },
        "re_strict": set(relations),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


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
        spreads = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {"protocol": self.protocol} | {name: spread.to_dict() for name, spread in spreads.items()}


def summarise(
    models: Sequence[Sequence[Scores]], *, per_label: bool = False, condition: str = "", exclude: Sequence[str] = ()
) -> list[Figure]:
    """Compute mean and standard deviation over models. NER does not depend on a policy and is listed once.

    Each model has scores under the same policies. A label that a model lacks counts 0 for that model. ``condition``
    is a suffix of every protocol name, ``exclude`` has tasks to omit.
    """
    found: list[Figure] = []
    for task in (task for task in TASKS if task not in exclude):
        for at, scores in enumerate(models[0][:1] if task == "ner" else models[0]):
            policy = "" if task == "ner" else scores.symmetric
            tasks: list[TaskScores] = [getattr(model[at], task) for model in models]
            found.append(_figure((task, policy, "micro", condition), [one.counts for one in tasks]))
            macro = [(one.macro_precision, one.macro_recall, one.macro_f1) for one in tasks]
            found.append(Figure(_protocol(task, policy, "macro", condition), *_spreads(macro)))
            for label in dict.fromkeys(label for one in tasks for label in one.per_label) if per_label else ():
                counts = [one.per_label.get(label, Counts()) for one in tasks]
                found.append(_figure((task, policy, f"label {label}", condition), counts))
    return found


def summarise_groups(
    models: Sequence[Mapping[str, Mapping[str, Counts]]],
    *,
    symmetric: str,
    condition: str = "",
) -> list[Figure]:
    """Compute mean and standard deviation over models for each group of one breakdown that has items.

    Each model has the counts of the groups by task.
    """
    found: list[Figure] = []
    for task in models[0]:
        for group in models[0][task]:
            counts = [model[task][group] for model in models]
            if any(one.n_gold or one.n_predicted for one in counts):
                policy = "" if task == "ner" else symmetric
                found.append(_figure((task, policy, "micro", group, condition), counts))
    return found


def _figure(parts: Sequence[str], counts: Sequence[Counts]) -> Figure:
    spreads = _spreads([(one.precision, one.recall, one.f1) for one in counts])
    return Figure(_protocol(*parts), *spreads, counts[0] if len(counts) == 1 else None)


def _protocol(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _spreads(rows: Sequence[tuple[float, float, float]]) -> tuple[Spread, Spread, Spread]:
    """Return the spreads of precision, recall and F1 of models."""
    precision, recall, f1 = (Spread.of(column) for column in zip(*rows, strict=True))
    return precision, recall, f1


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
