"""What the loss is computed from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanLabels, SpanTargets

T = TypeVar("T")


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
        if torch.device(device) == self.lengths.device:
            return self
        found: list[Tensor] = []
        _collect(self, found)
        return _replaced(self, iter(_moved(found, device)))


def _collect(value: Any, found: list[Tensor]) -> None:
    """The tensors within a dataclass of dataclasses, in order."""
    if isinstance(value, Tensor):
        found.append(value)
    elif value is not None and not isinstance(value, int | tuple):
        for field in fields(value):
            _collect(getattr(value, field.name), found)


def _replaced(value: T, tensors: Any) -> T:
    """The same with other tensors, taken in the order of :func:`_collect`."""
    if isinstance(value, Tensor):
        return next(tensors)  # type: ignore[no-any-return]
    if value is None or isinstance(value, int | tuple):
        return value
    parts = {field.name: _replaced(getattr(value, field.name), tensors) for field in fields(value)}  # type: ignore[arg-type]
    return type(value)(**parts)


def _moved(tensors: list[Tensor], device: torch.device | str) -> list[Tensor]:
    """Tensors on a device, brought there in one piece: each copy costs a call. Fractions go as their bits."""
    flat = torch.cat([_numbers(tensor).flatten().long() for tensor in tensors]).to(device)
    parts = flat.split([math.prod(tensor.shape) for tensor in tensors])
    return [_like(part.view(tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]


def _numbers(tensor: Tensor) -> Tensor:
    return tensor.view(torch.int32) if tensor.dtype == torch.float32 else tensor


def _like(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(torch.int32).view(dtype) if dtype == torch.float32 else numbers.to(dtype)
