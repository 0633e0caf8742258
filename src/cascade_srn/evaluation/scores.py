"""Precision, recall and F1 of entities and relations, over sets of exact matches.

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

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.config import require_choice
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES, Pair, align, align_documents, format_table, relation_items
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

__all__ = ["SYMMETRIC_POLICIES", "TASKS", "Counts", "Scores", "TaskScores", "score", "score_documents", "task_items"]

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
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "n_gold": self.n_gold,
            "n_predicted": self.n_predicted,
            "n_correct": self.n_correct,
        }


@dataclass(frozen=True, slots=True)
class TaskScores:
    """Scores of one task.

    Attributes:
        name: Name of the task.
        counts: Counts over all labels, for micro averages.
        per_label: Counts of each label that occurs in gold or in the predictions, in the order of the schema. Macro
            averages are means over these labels. Other labels have no F1, and counting them as 0 would make macro
            averages depend on the labels that a test set lacks.
    """

    name: str
    counts: Counts
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

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON: the policy, then the scores by task."""
        return {"symmetric": self.symmetric} | {task.name: task.to_dict() for task in self._tasks()}

    def table(self, *, per_label: bool = False) -> str:
        """Format a plain-text table, in percent, with one row per protocol.

        Args:
            per_label: Add a row for each label.
        """
        rows: list[tuple[str, ...]] = [("protocol", "precision", "recall", "F1", "gold", "predicted", "correct")]
        for task in self._tasks():
            name = task.name if task.name == "ner" else f"{task.name}, {self.symmetric}"
            macro = (task.macro_precision, task.macro_recall, task.macro_f1)
            rows.append(_counts_row(f"{name}, micro", task.counts))
            rows.append((f"{name}, macro", *(_percent(value) for value in macro), "", "", ""))
            if per_label:
                rows += [_counts_row(f"{name}, label {label}", c) for label, c in task.per_label.items()]
        return format_table(rows)

    def __str__(self) -> str:
        return self.table()

    def _tasks(self) -> tuple[TaskScores, TaskScores, TaskScores]:
        return self.ner, self.re_boundaries, self.re_strict


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


def _score(pairs: Iterable[Pair], schema: Schema, symmetric: str) -> Scores:
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


def _counts_row(name: str, counts: Counts) -> tuple[str, ...]:
    figures = (_percent(value) for value in (counts.precision, counts.recall, counts.f1))
    return (name, *figures, str(counts.n_gold), str(counts.n_predicted), str(counts.n_correct))


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
