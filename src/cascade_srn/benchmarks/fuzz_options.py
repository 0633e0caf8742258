"""What fuzzing can be asked for; free of torch, so that a command line can show it at once."""

from __future__ import annotations

from dataclasses import dataclass

from cascade_srn.benchmarks.options import PRECISIONS
from cascade_srn.config import Settings, require_choice, require_range


@dataclass(frozen=True)
class FuzzOptions(Settings):
    """How many texts by which seed, and ``skip`` of them not, to go on where another run ended.

    With the address of a ``service`` they are sent there, and no model is loaded here.
    """

    model: str | None = None
    texts: int = 10_000
    skip: int = 0
    seed: int = 0
    threshold: float | None = None
    batch_words: int = 4096
    precision: str = "auto"
    device: str = "auto"
    service: str | None = None

    def __post_init__(self) -> None:
        require_range("texts", self.texts, 1)
        require_range("skip", self.skip, 0)
        require_range("batch_words", self.batch_words, 1)
        require_choice("precision", self.precision, PRECISIONS)
