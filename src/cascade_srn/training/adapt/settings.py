"""Settings and progress of an adaptation."""

from dataclasses import dataclass
from typing import Any

from cascade_srn.config import MAX_SEED, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError

PRECISIONS = ("float32", "tf32", "bf16")


@dataclass(frozen=True)
class AdaptSettings(Settings):
    """Settings of an adaptation.

    Attributes:
        encoder: Folder or hub id of the encoder.
        field: Field of a JSON record that contains the text.
        sequence_pieces: Pieces per sequence, special pieces included.
        held_out: Share of the documents that is held out to measure perplexity.
        masked: Share of the words that is masked, as whole words.
        head_steps: Steps in which only a new head is trained, if the checkpoint has no head. They come in addition to
            ``steps``. Otherwise a random head would damage the encoder.
        epochs: Passes over the text.
        steps: Number of steps, instead of ``epochs``.
        batch_size: Sequences per step, over all processes.
        accumulation: Number of parts into which a batch is split to save memory.
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
        for name in ("epochs", "batch_size", "accumulation", "log_steps"):
            require_range(name, getattr(self, name), 1, option=name)
        require_range("save_steps", self.save_steps or 0, 0, option="save_steps")
        require_range("head_steps", self.head_steps, 0, option="head_steps")
        for name in ("steps", "evaluate_steps"):
            if getattr(self, name) is not None:
                require_range(name, getattr(self, name), 1, option=name)
        for name in ("learning_rate", "weight_decay"):
            require_range(name, getattr(self, name), 0, option=name)
        require_range("seed", self.seed, 0, MAX_SEED, option="seed")
        require_range("sequence_pieces", self.sequence_pieces, 8, option="sequence_pieces")
        require_range("warmup", self.warmup, 0, 1, option="warmup")
        require_range("held_out", self.held_out, 0.001, 0.5, option="held_out")
        require_range("masked", self.masked, 0.01, 0.9, option="masked")
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        if self.max_gradient_norm <= 0:
            raise ConfigError(
                f"max_gradient_norm is {self.max_gradient_norm!r}", "Set a number above 0", option="max_gradient_norm"
            )
        if self.accumulation > self.batch_size:
            raise ConfigError(
                f"accumulation is {self.accumulation}, but a batch has {self.batch_size} sequences",
                "Set at most batch_size",
                option="accumulation",
            )


@dataclass(frozen=True)
class AdaptProgress:
    """Progress report of an adaptation.

    Attributes:
        step: Number of steps taken.
        steps: Number of steps of the whole adaptation.
        epoch: Current epoch, counted from 1.
        loss: Mean loss of a masked piece since the last report; None before the first step.
        perplexity: Perplexity of the held-out text, if it was measured.
        save: Whether a state is saved at this step.
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
        """Estimated time of the remaining steps."""
        return self.seconds / self.step * (self.steps - self.step) if self.step else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the values of a line of the log."""
        values: dict[str, Any] = {"step": self.step, "epoch": self.epoch}
        if self.loss is not None:
            values |= {"loss": self.loss, "learning_rate": self.learning_rate}
        if self.perplexity is not None:
            values["perplexity"] = self.perplexity
        return values | {"seconds": round(self.seconds, 3), "pieces_per_second": round(self.pieces_per_second, 1)}
