"""One teacher: what a model makes of each turn, given what came before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor
from torch.nn.functional import pad

from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import PIECES_PER_WORD, Row, RowBatch
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanLabels, SpanLogits
from cascade_srn.model.model import Model
from cascade_srn.types import Span


@dataclass(frozen=True)
class Told:
    """What turns 2 and 3 are told: the entities as Python objects, of which markers are made, and as tensors."""

    entities: Sequence[Sequence[Span]]
    labels: SpanLabels


class Teacher:
    """A model that is asked for its logits, turn by turn.

    Teachers with the same ``reading`` turn sentences into the same rows, which then need to be made once only.
    """

    def __init__(self, model: Model, *, half: bool, batch_words: int) -> None:
        self.batch_words = batch_words
        self.model, self.cascade, self.collator, self.half = model, model.cascade, model.cascade_collator, half
        self.temperatures = model.settings.temperatures
        self.context_words = model.settings.encoder.context_words
        self.fusion = model.settings.fusion
        self.reading = self._reading()

    def _reading(self) -> str:
        pieces = self.collator.pieces
        axes = [axis for axis in (self.fusion.entities, self.fusion.subject) if axis == "markers"]
        vocabulary = sha256(self.model.tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
        return f"{vocabulary} {pieces.room} {pieces.overlap} {self.context_words} {axes} {self.fusion.entities}"

    def plain(self, examples: Sequence[Example]) -> list[Row]:
        """The rows of turn 1, with as many words around the sentences as this teacher is used to."""
        return [self.collator.plain(self._within_context(example)) for example in examples]

    def _within_context(self, example: Example) -> Example:
        n = self.context_words
        return Example(example.sentence, example.left[max(0, len(example.left) - n) :], example.right[:n])

    def with_entities(self, rows: Sequence[Row], told: Told) -> list[Row]:
        """The rows of turn 2."""
        return [self.collator.with_entities(*pair) for pair in zip(rows, told.entities, strict=True)]

    def with_subjects(self, rows: Sequence[Row], told: Told, subjects: Sequence[Sequence[int]]) -> list[Row]:
        """The rows of turn 3 where markers tell the subject; subjects as (sentence, first word, last word)."""
        return [
            self.collator.with_subject(rows[row], told.entities[row], (first, last + 1))
            for row, first, last in subjects
        ]

    def cost(self, example: Example) -> int:
        """Return what a sentence costs this teacher; see ``WordPieces.cost``."""
        return self.model.cost(self._within_context(example))

    def batch(self, rows: Sequence[Row]) -> RowBatch:
        """Rows as tensors, in encoder passes of a bounded size."""
        return self.collator.pieces.batch(rows, max_pieces=PIECES_PER_WORD * self.batch_words)

    def features(self, batch: RowBatch) -> Tensor:
        """Of rows on the device."""
        return self.cascade.features(batch, half=self.half)

    def tags(self, told: Told, features: Tensor) -> Tensor | None:
        """Entity tags, where the fusion uses them."""
        return self.cascade.tags(told.labels, (features.shape[0], features.shape[1]))

    def objects(
        self, features: Tensor, tags: Tensor | None, queries: Queries, pairs: Pairs, n_words: int
    ) -> SpanLogits:
        """Turn 3 for some queries, as wide as the batch: rows of short sentences alone are narrower."""
        missing = n_words - features.shape[1]
        features = pad(features, (0, 0) * (features.dim() - 2) + (0, missing))
        return self.cascade.object_logits(features, tags, queries, pairs)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.cascade.parameters()).device
