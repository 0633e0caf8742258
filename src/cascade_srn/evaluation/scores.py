"""Precision, recall and F1 of entities and relations, over sets of exact matches.

Three tasks, by what has to agree for a prediction to be correct:

* ``ner``: an entity's two boundaries and its type;
* ``re_boundaries``: the boundaries of both arguments and the relation type;
* ``re_strict``: that, and the entity types of both arguments.

Three policies for the relation types that the schema declares symmetric:

* ``directed``: a relation counts as it is written, (a, b) is not (b, a);
* ``canonical``: the two arguments are put in text order, so (a, b) and (b, a) are one relation;
* ``doubled``: (a, b) counts as (a, b) and as (b, a), two relations.

Whatever the policy does, it does to gold and to predictions alike. ``docs/scores.md`` has an example of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.items import (
    SYMMETRIC_POLICIES,
    Pair,
    align,
    align_documents,
    aligned,
    relation_items,
    require_policy,
)
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

__all__ = ["SYMMETRIC_POLICIES", "TASKS", "Counts", "Scores", "TaskScores", "score", "score_documents", "task_items"]

TASKS = ("ner", "re_boundaries", "re_strict")


@dataclass(frozen=True, slots=True)
class Counts:
    """What precision, recall and F1 are made of; counts of disjoint sets can be added."""

    n_gold: int = 0
    n_predicted: int = 0
    n_correct: int = 0

    @property
    def precision(self) -> float:
        """The share of the predictions that are correct; 0 where nothing was predicted."""
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold annotations that were found; 0 where there is none."""
        return self.n_correct / self.n_gold if self.n_gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where both are 0."""
        total = self.n_gold + self.n_predicted
        return 2 * self.n_correct / total if total else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.n_gold + other.n_gold,
            self.n_predicted + other.n_predicted,
            self.n_correct + other.n_correct,
        )

    def to_dict(self) -> dict[str, float | int]:
        """Plain values for JSON; precision, recall and F1 within 0..1."""
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
    """The scores of one task: micro in ``counts``, one entry of ``per_label`` for each label that occurs.

    ``per_label`` holds the labels that occur in gold or in the predictions, in the schema's order; the macro
    figures are plain means over them, and 0 where there is none. A label on neither side has no F1 to speak
    of, and counting it as 0 would make the macro figures depend on which labels a test set happens to lack.
    """

    name: str
    counts: Counts
    per_label: dict[str, Counts]

    @property
    def macro_precision(self) -> float:
        """The mean of the labels' precision."""
        return _mean([counts.precision for counts in self.per_label.values()])

    @property
    def macro_recall(self) -> float:
        """The mean of the labels' recall."""
        return _mean([counts.recall for counts in self.per_label.values()])

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1 (not the F1 of the mean precision and recall)."""
        return _mean([counts.f1 for counts in self.per_label.values()])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the averages under their names."""
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
    """The scores of all three tasks and the policy for symmetric relations they were counted under."""

    symmetric: str
    ner: TaskScores
    re_boundaries: TaskScores
    re_strict: TaskScores

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the policy's name, then each task's scores under the task's name."""
        return {"symmetric": self.symmetric} | {task.name: task.to_dict() for task in self._tasks()}

    def table(self, *, per_label: bool = False) -> str:
        """A plain-text table: one row a figure, each row opening with the name of its protocol.

        Precision, recall and F1 are percentages with one decimal.
        """
        rows: list[tuple[str, ...]] = [("protocol", "precision", "recall", "F1", "gold", "predicted", "correct")]
        for task in self._tasks():
            name = task.name if task.name == "ner" else f"{task.name}, {self.symmetric}"
            macro = (task.macro_precision, task.macro_recall, task.macro_f1)
            rows.append(_counts_row(f"{name}, micro", task.counts))
            rows.append((f"{name}, macro", *(_percent(value) for value in macro), "", "", ""))
            if per_label:
                rows += [_counts_row(f"{name}, label {label}", c) for label, c in task.per_label.items()]
        return aligned(rows)

    def __str__(self) -> str:
        return self.table()

    def _tasks(self) -> tuple[TaskScores, TaskScores, TaskScores]:
        return self.ner, self.re_boundaries, self.re_strict


def score(
    gold: Iterable[Sentence],
    predicted: Iterable[Sentence],
    *,
    schema: Schema,
    symmetric: str = "directed",
) -> Scores:
    """Score predicted sentences against gold ones, the first with the first and so on.

    Both sides must hold the same sentences, word for word, and only labels of the schema. Annotations are
    compared as sets within a sentence: a repeated relation counts once.
    """
    return _score(align(gold, predicted), schema, symmetric)


def score_documents(
    gold: Iterable[Document],
    predicted: Iterable[Document],
    *,
    schema: Schema,
    symmetric: str = "directed",
) -> Scores:
    """Like :func:`score`, on documents: the first with the first, and their sentences likewise."""
    return _score(align_documents(gold, predicted), schema, symmetric)


# What is compared: a label first, whatever the task, so that counting by label needs to know no task.
Item = tuple[object, ...]


def _score(pairs: Iterable[Pair], schema: Schema, symmetric: str) -> Scores:
    require_policy(symmetric)
    # By task, then by label: how many in gold, in the predictions, in both.
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
    """What a sentence contributes to each task."""
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
