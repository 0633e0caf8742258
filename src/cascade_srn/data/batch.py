"""What the loss is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from cascade_srn.data.moving import moved
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanLabels, SpanTargets


@dataclass(frozen=True)
class CascadeBatch:
    """Sentences with gold annotation, ready for the loss.

    All rows go through the encoder together; ``subject_rows`` and ``object_rows`` say which of them the later
    turns read (turn 1 reads the first ``n_sentences`` rows). An object row belongs to a query where the subject
    is told by markers, and to a sentence otherwise.

    Shapes:
        subject_rows: (n_sentences,); object_rows: (n_queries,) or (n_sentences,)
        lengths: (n_sentences,), the words of each sentence
        pairs, query_pairs: all pairs of words, by sentence and by query
        given: entities that the later turns are told of, by sentence
        entities, subjects: what is to be found in each sentence; objects: for each query
        weight: (n_sentences,), what each sentence counts; None: 1
    """

    rows: RowBatch
    lengths: Tensor
    pairs: Pairs
    entities: SpanTargets
    subject_rows: Tensor
    object_rows: Tensor
    given: SpanLabels
    subjects: SpanTargets
    queries: Queries
    query_pairs: Pairs
    objects: SpanTargets
    n_sentences: int
    weight: Tensor | None = None

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""
        return moved(self, device)
