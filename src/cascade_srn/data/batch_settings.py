"""What a training batch is made of."""

from __future__ import annotations

from dataclasses import dataclass

from cascade_srn.config import require_choice
from cascade_srn.encoder.passes import Division

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


ALL_THERE_IS = BatchSettings()
