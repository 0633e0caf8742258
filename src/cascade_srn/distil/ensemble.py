"""Several teachers as one: their probabilities averaged, turn by turn, and what follows from the averages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cascade_srn.config import Thresholds
from cascade_srn.data.examples import Example
from cascade_srn.data.soft import TURNS
from cascade_srn.distil.teacher import Teacher
from cascade_srn.distil.turns import Labelled, Prepared, ThreeTurns
from cascade_srn.encoder.pieces import Row, RowBatch
from cascade_srn.errors import ModelError, SchemaError
from cascade_srn.heads import pairs_within
from cascade_srn.model import Model


class Ensemble:
    """Asks all teachers and averages their probabilities.

    Entities, and then subjects and objects, are decided on by averages of probabilities with the teachers' own
    temperatures, by the mean of their thresholds. Turns 2 and 3 of all teachers are told the same entities, which are
    those of the sentence: a teacher's thresholds for entities with a relation (``related``) and for relations as a
    whole (``relation``) are not used. What is kept for a student to learn, where it reaches the ``floor``, are averages
    without temperatures.
    """

    def __init__(self, models: Sequence[Model], *, floor: float = 0.01, batch_words: int = 16384, half: bool = False):
        self.schema = models[0].schema
        for model in models[1:]:
            if differences := self.schema.differences(model.schema):
                raise SchemaError(
                    f"the teachers do not have the same labels: in another than the first {'; '.join(differences)}; "
                    "give teachers that were trained for the same schema"
                )
        self.teachers = [Teacher(model, half=half, batch_words=batch_words) for model in models]
        # By what they have, not by their settings: without relations in its data a model is of entities alone.
        self.joint = models[0].network.relations is not None
        if any((model.network.relations is not None) != self.joint for model in models):
            raise ModelError(
                "some of the teachers find entities alone and some relations as well; give teachers of one kind"
            )
        self.floor, self.batch_words = floor, batch_words
        # One teacher for each way of reading: teachers that share it make the same rows.
        self.readers = list({teacher.reading: teacher for teacher in self.teachers}.values())
        # Whether the device has run out of memory, which is told once.
        self.is_narrow = False
        self.device = self.teachers[0].device
        self.context_words = max(teacher.context_words for teacher in self.teachers)
        self._thresholds = {turn: self._mean_thresholds(turn) for turn in TURNS}

    def _mean_thresholds(self, turn: str) -> Tensor:
        """One for each label of a turn. Shape: (n_labels,)."""
        found = [_by_label(t.model.settings.thresholds, turn, t.model) for t in self.teachers]
        return torch.tensor(found, device=self.device).mean(0)

    def cost(self, example: Example) -> int:
        """Return what a sentence costs the teacher whose tokenizer splits it most."""
        return max(teacher.cost(example) for teacher in self.readers)

    def prepare(self, examples: Sequence[Example]) -> Prepared:
        """Make the rows of turn 1; may be done beside another batch."""
        rows: dict[str, tuple[list[Row], RowBatch]] = {}
        for teacher in self.teachers:
            if teacher.reading not in rows:
                plain = teacher.plain(examples)
                rows[teacher.reading] = plain, teacher.batch(plain)
        lengths = torch.tensor([len(example.sentence) for example in examples])
        return Prepared(examples, rows, lengths, pairs_within(lengths))

    @torch.inference_mode()
    def label(self, prepared: Prepared) -> Labelled:
        """Label a batch."""
        return ThreeTurns(
            self.teachers, self._thresholds, prepared, floor=self.floor, joint=self.joint, batch_words=self.batch_words
        ).labelled()


def _by_label(thresholds: Thresholds, turn: str, model: Model) -> list[float]:
    if turn == "subject":
        return [thresholds.subject]
    labels, own = model.schema.entity_types, thresholds.entity_types
    if turn == "object":
        labels, own = model.schema.relation_types, thresholds.relation_types
    return [own.get(label, getattr(thresholds, turn)) for label in labels]
