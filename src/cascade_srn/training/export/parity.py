"""Compare an exported model with the model it was exported from, on annotated documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.scores import score
from cascade_srn.inference.predictor import BaseModel
from cascade_srn.network.examples import Example, examples_of
from cascade_srn.training.run_folder import TASKS
from cascade_srn.types import Document, Sentence

# The tasks that an exported model must not lose.
GUARDED = ("ner", "re_strict")
MAX_LOSS = 0.1


@dataclass(frozen=True)
class Parity:
    """Micro F1 of two models in points, and how far their predictions differ."""

    data: str  # Name of the documents
    n_sentences: int  # Number of sentences compared
    n_changed: int  # Number of sentences in which the models find different entities or relations
    max_score_difference: float  # Largest difference between the scores of the same entity or relation
    before: dict[str, float]  # F1 of the model by task
    after: dict[str, float]  # F1 of the exported model by task

    def loss(self, task: str) -> float:
        """Return the F1 that the exported model loses in a task, in points."""
        return self.before[task] - self.after[task]

    @property
    def worst_loss(self) -> float:
        """The larger loss of NER and strict RE, in points."""
        return max(self.loss(task) for task in GUARDED)

    @property
    def is_accepted(self) -> bool:
        """Whether neither NER nor strict RE loses more than ``MAX_LOSS``."""
        # Differences of rounded sums must not decide.
        return self.worst_loss <= MAX_LOSS + 1e-9

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "data": self.data,
            "n_sentences": self.n_sentences,
            "n_changed": self.n_changed,
            "max_score_difference": self.max_score_difference,
            "f1": {"before": self.before, "after": self.after},
        }


class Comparison:
    """Compares models with one model on the same documents, whose predictions are made once."""

    def __init__(self, model: BaseModel, documents: Sequence[Document], data: str) -> None:
        self.data = data
        self.examples: list[Example] = examples_of(documents, model.settings.encoder.context_words)
        self.gold = [example.sentence for example in self.examples]
        self.schema = model.schema
        self._expected = model.predictor().predict(self.examples)
        self._before = self._score(self._expected)

    def compare(self, exported: BaseModel) -> Parity:
        """Predict with an exported model and compare."""
        found = exported.predictor().predict(self.examples)
        pairs = list(zip(self._expected, found, strict=True))
        return Parity(
            data=self.data,
            n_sentences=len(pairs),
            n_changed=sum(_keys(one) != _keys(other) for one, other in pairs),
            max_score_difference=max((_score_difference(one, other) for one, other in pairs), default=0.0),
            before=self._before,
            after=self._score(found),
        )

    def _score(self, found: Sequence[Sentence]) -> dict[str, float]:
        scores = score(self.gold, found, schema=self.schema)
        return {task: round(100 * getattr(scores, task).counts.f1, 4) for task in TASKS}


def _keys(sentence: Sentence) -> tuple[set[Any], set[Any]]:
    return set(sentence.entities), set(sentence.triples)


def _score_difference(one: Sentence, other: Sentence) -> float:
    """Return the largest difference between the scores of what both sentences have."""
    largest = 0.0
    for name in ("entities", "triples"):
        scores = {item: item.score or 0.0 for item in getattr(one, name)}
        for item in getattr(other, name):
            if item in scores:
                largest = max(largest, abs((item.score or 0.0) - scores[item]))
    return largest
