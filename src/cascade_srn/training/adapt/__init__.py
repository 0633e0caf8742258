"""Adapt a pretrained encoder to a domain by masked-language-model training on raw text.

:class:`.run.Adaptation` runs an adaptation. It needs torch and is imported from its own module.
"""

import math
from dataclasses import dataclass

from cascade_srn.config import MAX_SEED, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.runs.display import ProgressRow, duration

PRECISIONS = ("float32", "tf32", "bf16")
_RANGES = (
    *((name, 1, math.inf) for name in ("epochs", "steps", "batch_size", "accumulation", "log_steps", "evaluate_steps")),
    *((name, 0, math.inf) for name in ("save_steps", "head_steps", "learning_rate", "weight_decay")),
    ("seed", 0, MAX_SEED),
    ("sequence_pieces", 8, math.inf),
    ("warmup", 0, 1),
    ("held_out", 0.001, 0.5),
    ("masked", 0.01, 0.9),
)


@dataclass(frozen=True)
class AdaptSettings(Settings):
    """Settings of an adaptation.

    Attributes:
        encoder: Folder or hub id of the encoder.
        field: Field of a JSON record that contains the text.
        sequence_pieces: Pieces per sequence, special pieces included.
        held_out: Share of the sequences that is held out to measure perplexity.
        masked: Share of the words that is masked, as whole words.
        head_steps: Steps in which only a new head is trained, if the checkpoint has no head. They come in addition to
            ``steps``. Otherwise a random head would damage the encoder.
        epochs: Passes over the text.
        steps: Number of steps, instead of ``epochs``.
        batch_size: Sequences per step, over all processes.
        accumulation: Number of equal parts into which a batch is split to save memory.
        learning_rate: Highest learning rate of AdamW. It rises linearly in the warm-up and then falls linearly to 0.
        warmup: Share of the steps with rising learning rate.
        weight_decay: Weight decay of AdamW.
        max_gradient_norm: Limit of the gradient norm.
        precision: Precision of matrix products. "tf32" and "bf16" need a GPU.
        seed: Random seed.
        evaluate_steps: Steps between measurements of perplexity, besides those before and after.
        save_steps: Steps between saved states. 0 saves none.
        log_steps: Steps between lines of the log.
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
        for name, low, high in _RANGES:
            if getattr(self, name) is not None:
                require_range(name, getattr(self, name), low, high, option=name)
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        if self.max_gradient_norm <= 0:
            raise ConfigError(
                f"max_gradient_norm is {self.max_gradient_norm!r}", "Set a number above 0", option="max_gradient_norm"
            )


@dataclass(frozen=True)
class AdaptProgress:
    """Progress report of an adaptation, with the loss since the last report or the perplexity of the held-out text."""

    step: int
    steps: int  # Number of steps of the whole adaptation
    seconds: float  # Time since the start, with the time before an adaptation was resumed
    perplexity: float | None = None
    loss: float | None = None  # Mean over masked pieces
    learning_rate: float | None = None
    pieces_per_second: float | None = None

    def row(self) -> ProgressRow:
        """Return the report for the display. On a terminal, perplexities are also printed above the bar."""
        if self.perplexity is not None:
            figures = f"held-out perplexity {self.perplexity:,.2f}"
        else:
            left = duration(self.seconds / self.step * (self.steps - self.step))
            figures = f"loss {self.loss:.3f}  {self.pieces_per_second:,.0f} pieces/s  {left} left"
        line = f"step {self.step}/{self.steps}  {figures}"
        return ProgressRow("adapting", self.step, self.steps, figures, line, True, self.perplexity is not None)
