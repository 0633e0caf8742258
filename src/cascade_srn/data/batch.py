"""What the loss is computed from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.fusion import Queries
from cascade_srn.heads import SpanLabels


@dataclass(frozen=True)
class CascadeBatch:
    """Sentences with gold annotation, ready for the loss.

    All rows go through the encoder together; ``subject_rows`` and ``object_rows`` say which of them the later
    turns read (turn 1 reads the first ``n_sentences`` rows). An object row belongs to a query where the subject
    is told by markers, and to a sentence otherwise.

    Shapes:
        subject_rows: (n_sentences,); object_rows: (n_queries,) or (n_sentences,)
        lengths: (n_sentences,), the words of each sentence
        given: entities that the later turns are told of, by sentence
        entities, subjects: gold spans by sentence; objects: gold spans by query
    """

    rows: RowBatch
    lengths: Tensor
    entities: SpanLabels
    subject_rows: Tensor
    object_rows: Tensor
    given: SpanLabels
    subjects: SpanLabels
    queries: Queries
    objects: SpanLabels
    n_sentences: int

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            moved[f.name] = value if isinstance(value, int) else value.to(device)
        return type(self)(**moved)
