"""Training batches of the cascade, and their transfer between devices."""

import math
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from cascade_srn.config import require_choice
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.windows import Division
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels, SpanTargets
from cascade_srn.network.span_extraction import Pairs

CANDIDATES = ("entities", "subjects")


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a training batch.

    Attributes:
        candidates: Subjects whose objects are learned. ``"entities"`` are all entities, so that the model also learns
            that most have no object (default of the paper). ``"subjects"`` are the gold subjects (its ablation).
        joint: Whether the batch is for all turns, or for turn 1 only.
        corruption: Share of the entities given to turns 2 and 3 that are corrupted.
        negatives: Share of the word pairs that are not a span to learn from.
        masking: Share of the words that are masked for the encoder, the same in all turns.
        division: How the encoder splits rows of different lengths into several passes
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
    """Return a dataclass with all tensors, also those of nested dataclasses, on a device."""
    found: list[Tensor] = []
    _collect(batch, found)
    device = torch.device(device)
    if all(tensor.device == device for tensor in found):
        return batch
    return _replace_tensors(batch, iter(_move_in_one_copy(found, device)))


def _collect(value: Any, found: list[Tensor]) -> None:
    """Append the tensors of nested dataclasses in order."""
    if isinstance(value, Tensor):
        found.append(value)
    elif value is not None and not isinstance(value, int | tuple):
        for field in fields(value):
            _collect(getattr(value, field.name), found)


def _replace_tensors(value: T, tensors: Any) -> T:
    """Return a copy with other tensors, in the order of :func:`_collect`."""
    if isinstance(value, Tensor):
        return next(tensors)  # type: ignore[no-any-return]
    if value is None or isinstance(value, int | tuple):
        return value
    parts = {field.name: _replace_tensors(getattr(value, field.name), tensors) for field in fields(value)}  # type: ignore[arg-type]
    return type(value)(**parts)


def _move_in_one_copy(tensors: list[Tensor], device: torch.device) -> list[Tensor]:
    """Copy tensors to a device with a single transfer. Floats are transferred as their bits."""
    flat = torch.cat([_as_integers(tensor).flatten().long() for tensor in tensors])
    if device.type == "cuda":
        # A copy from memory that is not pinned waits until the GPU is idle.
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    parts = flat.split([math.prod(tensor.shape) for tensor in tensors])
    return [_from_integers(part.view(tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]


def _as_integers(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() and tensor.dtype != torch.float32:
        raise TypeError(f"a batch has a tensor of {tensor.dtype}, but floats must be float32")
    return tensor.view(torch.int32) if tensor.dtype == torch.float32 else tensor


def _from_integers(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(torch.int32).view(dtype) if dtype == torch.float32 else numbers.to(dtype)


@dataclass(frozen=True)
class CascadeBatch:
    """Annotated sentences as tensors for the loss.

    The encoder reads all rows together. Turn 1 uses the first ``n_sentences`` rows.

    Attributes:
        rows: Input of the encoder.
        lengths: Number of words of each sentence. Shape: (n_sentences,).
        pairs: Word pairs of the sentences.
        entities: Targets of turn 1.
        subject_rows: Rows of turn 2. Shape: (n_sentences,).
        object_rows: Rows of turn 3. Shape: (n_queries,) if markers show the subject, else (n_sentences,).
        given: Entities given to turns 2 and 3.
        subjects: Targets of turn 2.
        queries: Subjects whose objects turn 3 looks for.
        query_pairs: Word pairs of the queries.
        objects: Targets of turn 3.
        n_sentences: Number of sentences.
        weight: Weight of each sentence in the loss; None if all are 1. Shape: (n_sentences,).
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
        """Return the batch on a device."""
        return to_device(self, device)
