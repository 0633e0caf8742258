"""Batches of tensors from one device to another."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from cascade_srn.config import require_choice
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.windows import Division
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanLabels, SpanTargets

CANDIDATES = ("entities", "subjects")


@dataclass(frozen=True)
class BatchSettings:
    """What is learned from sentences, and what a model is told and shown of them meanwhile.

    ``candidates`` says whose objects the object turn learns to find: those of all "entities" it is told of, so that it
    also learns that most have none (the paper's default), or of the gold "subjects" only (its ablation).
    ``joint=False`` makes a batch for turn 1 alone. About a ``corruption`` share of the entities that the later turns
    are told of have a mistake. Of the pairs of words that are no span, a ``negatives`` share is learned. About a
    ``masking`` share of the words is hidden from the encoder, the same ones in all turns. With a ``division``
    the encoder reads rows of different lengths in passes of their own
    (:meth:`~cascade_srn.encoder.pieces.WordPieces.batch`).
    """

    candidates: str = "entities"
    joint: bool = True
    corruption: float = 0.0
    negatives: float = 1.0
    masking: float = 0.0
    division: Division | None = None

    def __post_init__(self) -> None:
        require_choice("candidates", self.candidates, CANDIDATES)


DEFAULT_BATCH_SETTINGS = BatchSettings()


T = TypeVar("T")


def to_device(batch: T, device: torch.device | str) -> T:
    """A dataclass with the tensors in it, and in the dataclasses within it, on a device."""
    found: list[Tensor] = []
    _collect(batch, found)
    device = torch.device(device)
    if all(tensor.device == device for tensor in found):
        return batch
    return _replaced(batch, iter(_in_one_piece(found, device)))


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


def _in_one_piece(tensors: list[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors on a device, brought there in one piece: each copy costs a call. Fractions go as their bits."""
    flat = torch.cat([_numbers(tensor).flatten().long() for tensor in tensors])
    if device.type == "cuda":
        # From other memory than such, a copy waits until the GPU has done all that it was asked for.
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    parts = flat.split([math.prod(tensor.shape) for tensor in tensors])
    return [_like(part.view(tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]


def _numbers(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() and tensor.dtype != torch.float32:
        raise TypeError(f"a batch holds numbers of {tensor.dtype}; fractions are moved as float32 only")
    return tensor.view(torch.int32) if tensor.dtype == torch.float32 else tensor


def _like(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(torch.int32).view(dtype) if dtype == torch.float32 else numbers.to(dtype)


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
        return to_device(self, device)
