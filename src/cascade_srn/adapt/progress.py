"""What adapting tells about itself on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
