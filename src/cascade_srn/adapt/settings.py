"""How an encoder is adapted: every setting, with its default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cascade_srn.config import MAX_SEED, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError

PRECISIONS = ("float32", "tf32", "bf16")


@dataclass(frozen=True)
class AdaptSettings(Settings):
    """How an encoder is adapted to raw text.

    **Text.** ``field`` of each JSON record is its text. Documents are packed into sequences of
    ``sequence_pieces`` pieces, special ones included. A ``held_out`` share of the documents is not learned from,
    and measures how well the encoder knows the field.

    **Task.** A ``masked`` share of the words is hidden, whole words at a time, others in each epoch. Where a checkpoint
    has no head to guess them with, the new one first learns alone for ``head_steps`` steps: the encoder is then not
    moved by what a random head makes of it, and what it knew before can be measured.

    **Steps.** ``batch_size`` sequences make a step, whatever the number of processes; ``accumulation`` lets them go
    through the encoder in that many parts. ``steps`` counts instead of ``epochs`` where it is given; the steps of a new
    head come on top.

    **Optimiser.** AdamW; the rate rises to ``learning_rate`` over the ``warmup`` share of the steps and falls to
    zero in a line. ``precision`` is that of matrix products: "tf32" and "bf16" are for GPUs.

    The remaining ones say how often, in steps, the held-out text is measured, a state to resume from is written
    and a line is logged (None: measured before and after only; None or 0: no state).
    """

    encoder: str
    field: str = "text"
    sequence_pieces: int = 256
    held_out: float = 0.01
    masked: float = 0.15
    head_steps: int = 200
    epochs: int = 3
    steps: int | None = None
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float = 1e-4
    warmup: float = 0.06
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    precision: str = "float32"
    seed: int = 0
    evaluate_steps: int | None = None
    save_steps: int | None = 500
    log_steps: int = 50

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulation", "log_steps"):
            require_range(name, getattr(self, name), 1)
        require_range("save_steps", self.save_steps or 0, 0)
        require_range("head_steps", self.head_steps, 0)
        for name in ("steps", "evaluate_steps"):
            if getattr(self, name) is not None:
                require_range(name, getattr(self, name), 1)
        for name in ("learning_rate", "weight_decay"):
            require_range(name, getattr(self, name), 0)
        require_range("seed", self.seed, 0, MAX_SEED)
        require_range("sequence_pieces", self.sequence_pieces, 8)
        require_range("warmup", self.warmup, 0, 1)
        require_range("held_out", self.held_out, 0.001, 0.5)
        require_range("masked", self.masked, 0.01, 0.9)
        require_choice("precision", self.precision, PRECISIONS)
        if self.max_gradient_norm <= 0:
            raise ConfigError(f"max_gradient_norm is {self.max_gradient_norm!r}; give a number above 0")
        if self.accumulation > self.batch_size:
            raise ConfigError(
                f"accumulation is {self.accumulation}, but a batch has {self.batch_size} sequences only; "
                "give an accumulation of at most batch_size"
            )


@dataclass(frozen=True)
class AdaptProgress:
    """Where adapting stands.

    ``loss`` is the mean loss of a hidden piece since the last time, None before the first step; ``perplexity`` is
    that of the held-out text, where it was measured. ``save`` marks the moments to save a state at.
    """

    step: int
    steps: int
    epoch: int
    loss: float | None = None
    perplexity: float | None = None
    learning_rate: float = 0.0
    pieces_per_second: float = 0.0
    seconds: float = 0.0
    save: bool = False

    @property
    def finished(self) -> bool:
        """Whether this was the last step."""
        return self.step == self.steps

    @property
    def seconds_left(self) -> float:
        """The time that the remaining steps take if they take as long as those before."""
        return self.seconds / self.step * (self.steps - self.step) if self.step else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a line of the log."""
        told: dict[str, Any] = {"step": self.step, "epoch": self.epoch}
        if self.loss is not None:
            told |= {"loss": self.loss, "learning_rate": self.learning_rate}
        if self.perplexity is not None:
            told["perplexity"] = self.perplexity
        return told | {"seconds": round(self.seconds, 3), "pieces_per_second": round(self.pieces_per_second, 1)}
