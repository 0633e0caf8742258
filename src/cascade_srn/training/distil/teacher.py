"""A teacher: a model that returns its logits turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from cascade_srn.encoder.pieces import PIECES_PER_WORD, Row, RowBatch
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels
from cascade_srn.network.span_extraction import Pairs, SpanLogits
from cascade_srn.types import Span


@dataclass(frozen=True)
class GivenEntities:
    """The entities that turns 2 and 3 use: as Python objects, for markers, and as tensors."""

    entities: Sequence[Sequence[Span]]
    labels: SpanLabels


class Teacher:
    """A model that returns its logits turn by turn.

    Teachers with the same ``reading`` make the same rows of a sentence, so the rows are made once for all of them.
    """

    def __init__(self, model: Model, *, bf16: bool, batch_words: int) -> None:
        self.batch_words = batch_words
        self.model, self.cascade, self.collator, self.bf16 = model, model.cascade, model.cascade_collator, bf16
        self.temperatures = model.settings.temperatures
        offsets = [self.temperatures.entity_offsets.get(label, 0.0) for label in model.schema.entity_types]
        self.entity_offset = torch.tensor(offsets, device=self.device)
        self.context_words = model.settings.encoder.context_words
        self.fusion = model.settings.fusion
        self.reading = self._reading()

    def _reading(self) -> str:
        pieces = self.collator.pieces
        axes = [axis for axis in (self.fusion.entities, self.fusion.subject) if axis == "markers"]
        vocabulary = sha256(self.model.tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
        form = pieces.text_form
        return f"{vocabulary} {pieces.room} {pieces.overlap} {self.context_words} {axes} {self.fusion.entities} {form}"

    def plain(self, examples: Sequence[Example]) -> list[Row]:
        """Return the rows of turn 1, with the context that this teacher was trained with."""
        return [self.collator.plain(self._within_context(example)) for example in examples]

    def _within_context(self, example: Example) -> Example:
        n = self.context_words
        return Example(example.sentence, example.left[max(0, len(example.left) - n) :], example.right[:n])

    def with_entities(self, rows: Sequence[Row], given: GivenEntities) -> list[Row]:
        """Return the rows of turn 2."""
        return self.collator.with_entities(rows, given.entities)

    def with_subjects(self, rows: Sequence[Row], given: GivenEntities, subjects: Sequence[Sequence[int]]) -> list[Row]:
        """Return the rows of turn 3 with subject markers. Subjects are (sentence, first word, last word)."""
        return self.collator.with_subjects(rows, given.entities, np.array(subjects, dtype=np.int64).reshape(-1, 3))

    def cost(self, example: Example) -> int:
        """Return the cost of a sentence, see ``WordPieces.cost``."""
        return self.model.cost(self._within_context(example))

    def batch(self, rows: Sequence[Row]) -> RowBatch:
        """Return rows as tensors, in encoder passes of bounded size."""
        return self.collator.pieces.batch(rows, max_pieces=PIECES_PER_WORD * self.batch_words)

    def features(self, batch: RowBatch) -> Tensor:
        """Encode rows that are on the device."""
        return self.cascade.features(batch, bf16=self.bf16)

    def tags(self, given: GivenEntities, features: Tensor) -> Tensor | None:
        """Return the entity tags, if the fusion uses them."""
        return self.cascade.tags(given.labels, (features.shape[0], features.shape[1]))

    def objects(
        self, features: Tensor, tags: Tensor | None, queries: Queries, pairs: Pairs, n_words: int
    ) -> SpanLogits:
        """Turn 3 for some queries, as wide as the batch: rows of short sentences alone are narrower."""
        missing = n_words - features.shape[1]
        features = pad(features, (0, 0) * (features.dim() - 2) + (0, missing))
        return self.cascade.object_logits(features, tags, queries, pairs)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.cascade.parameters()).device
