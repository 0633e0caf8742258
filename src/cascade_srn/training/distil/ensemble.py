"""Several teachers that label together: their joint thresholds, and the rows that they read."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cascade_srn.config import Thresholds
from cascade_srn.encoder.pieces import Row, RowBatch
from cascade_srn.errors import ModelError, SchemaError
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.network.span_extraction import pairs_within
from cascade_srn.network.targets import TURNS
from cascade_srn.training.distil.teacher import Teacher
from cascade_srn.training.distil.turns import Labelled, Prepared, ThreeTurns


class Ensemble:
    """Averages the probabilities of several teachers.

    Decisions use averages of probabilities with each teacher's temperatures, and the mean of their thresholds. All
    teachers use the same entities in turns 2 and 3, so the threshold ``related`` is not used. The
    targets of a student are averages without temperatures, of at least ``floor``.
    """

    def __init__(self, models: Sequence[Model], *, floor: float = 0.01, batch_words: int = 16384, bf16: bool = False):
        self.schema = models[0].schema
        for model in models[1:]:
            if differences := self.schema.differences(model.schema):
                raise SchemaError(
                    f"the teachers have different labels: {'; '.join(differences)}",
                    "Give teachers with the same schema",
                    option="teachers",
                )
        self.teachers = [Teacher(model, bf16=bf16, batch_words=batch_words) for model in models]
        # A model trained without relations has no relation heads, whatever its settings are.
        self.joint = models[0].network.relations is not None
        if any((model.network.relations is not None) != self.joint for model in models):
            raise ModelError(
                "some teachers predict entities only, and some predict relations too",
                "Give teachers of one kind",
                option="teachers",
            )
        self.floor, self.batch_words = floor, batch_words
        # Teachers with the same reading make the same rows.
        self.readers = list({teacher.reading: teacher for teacher in self.teachers}.values())
        # Whether the device has run out of memory. The warning is shown once.
        self.is_narrow = False
        self.device = self.teachers[0].device
        self.context_words = max(teacher.context_words for teacher in self.teachers)
        self._thresholds = {turn: self._mean_thresholds(turn) for turn in TURNS}

    def _mean_thresholds(self, turn: str) -> Tensor:
        """Return the mean threshold of each label of a turn. Shape: (n_labels,)."""
        found = [_by_label(t.model.settings.thresholds, turn, t.model) for t in self.teachers]
        return torch.tensor(found, device=self.device).mean(0)

    def cost(self, example: Example) -> int:
        """Return the cost of a sentence for the teacher whose tokenizer splits it most."""
        return max(teacher.cost(example) for teacher in self.readers)

    def prepare(self, examples: Sequence[Example]) -> Prepared:
        """Make the rows of turn 1. This can run in parallel to another batch."""
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
        ).label()


def _by_label(thresholds: Thresholds, turn: str, model: Model) -> list[float]:
    if turn == "subject":
        return [thresholds.subject]
    labels, own = model.schema.entity_types, thresholds.entity_types
    if turn == "object":
        labels, own = model.schema.relation_types, thresholds.relation_types
    return [own.get(label, getattr(thresholds, turn)) for label in labels]
