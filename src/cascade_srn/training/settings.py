"""Settings of training and distillation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from cascade_srn.config import MAX_SEED, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.network.batch import CANDIDATES

PRECISIONS = ("float32", "tf32", "bf16")
SCHEDULES = ("linear", "cosine", "constant")
OPTIMISERS = ("adamw", "adam")
AUTO_TRACKER = "auto"
# Ranges of numeric settings, by lowest and highest value. Some settings may also be null.
_RANGES = (
    (1, math.inf, "epochs batch_size accumulation log_steps evaluate_every evaluate_steps patience"),
    (0, math.inf, "save_every save_steps learning_rate label_learning_rate encoder_learning_rate weight_decay"),
    (0, 1, "warmup corruption negatives masking noise frozen swapping"),
    (0, MAX_SEED, "seed"),
)
_CHOICES = {"candidates": CANDIDATES, "precision": PRECISIONS, "schedule": SCHEDULES, "optimiser": OPTIMISERS}


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How to train a model.

    Attributes:
        epochs: Passes over the training sentences.
        batch_size: Sentences per step, over all processes.
        accumulation: Parts of a batch that go through the model one after the other. More parts use less memory and
            give the same gradients.
        learning_rate: Highest rate of parameters that are not pretrained.
        label_learning_rate: Highest rate of the weights that belong to single labels. New labels have few examples and
            far to go. None: that of the other parameters.
        encoder_learning_rate: Highest rate of the pretrained encoder.
        layer_decay: Factor between the rates of an encoder layer and the layer above it.
        frozen: Share of the encoder's layers that keep their weights, counted from below, and the embeddings with them.
            They have no dropout and no backward pass, which is faster on a CPU. 0: everything learns.
        warmup: Share of the steps over which the rates rise.
        schedule: How the rates fall afterwards: "linear" or "cosine" to zero, or "constant".
        optimiser: "adamw", or "adam" as in the paper, whose weight decay is part of the gradient.
        weight_decay: Decay of matrices.
        max_gradient_norm: Norm that gradients are clipped to.
        ema: Decay of a moving average of the weights, such as 0.999. The averages are evaluated and saved.
        candidates: Turn 3 learns the objects of all gold "entities", or of gold "subjects" only, an ablation of the
            paper.
        corruption: Share of the entities given to turns 2 and 3 that have a mistake, as they do in prediction.
        negatives: Share of the word pairs that are not a span to learn from, in all turns.
        masking: Share of the words that are masked in the input of the encoder.
        noise: Share of the sentences of each epoch that get a random kind of noise, such as OCR errors
            (:mod:`cascade_srn.evaluation.noise`). Sentences with probabilities of teachers only get kinds that the
            segmenter cannot undo. The card of the model then has scores with noise.
        swapping: Share of the entities of gold sentences that get the words of another training entity of the same
            type. Each epoch draws again.
        precision: "float32"; "tf32", the fastest for small batches on a GPU; or "bf16", for large models and batches.
        cuda_graphs: Whether a GPU replays the encoder as CUDA graphs. This saves CPU time and uses more memory.
            Several processes that train one model do not use them.
        evaluate_every: Epochs between evaluations on the development documents. The last step is always evaluated.
        evaluate_steps: Steps between evaluations.
        patience: Number of evaluations without a new best after which training ends.
        calibrate: Whether to choose temperatures and thresholds of the best model on the development documents.
        calibrate_labels: Whether to choose a threshold for each label (``evaluation/calibration/choose.py``).
        seed: Seed of initial weights, order, dropout and all other random choices.
        log_steps: Steps between lines of the log.
        save_every: Epochs between states to resume from; 0 or None for none.
        save_steps: Steps between states to resume from; 0 or None for none.
        trackers: Names of accelerate's trackers. "auto" is TensorBoard if it is installed.
    """

    epochs: int = 30
    batch_size: int = 16
    accumulation: int = 1
    learning_rate: float = 1e-3
    label_learning_rate: float | None = None
    encoder_learning_rate: float = 5e-5
    layer_decay: float = 1.0
    frozen: float = 0.0
    warmup: float = 0.1
    schedule: str = "linear"
    optimiser: str = "adamw"
    weight_decay: float = 0.01
    max_gradient_norm: float = 5.0
    ema: float | None = None
    candidates: str = "entities"
    corruption: float = 0.0
    negatives: float = 1.0
    masking: float = 0.0
    noise: float = 0.0
    swapping: float = 0.0
    precision: str = "float32"
    cuda_graphs: bool = True
    evaluate_every: int | None = 1
    evaluate_steps: int | None = None
    patience: int | None = None
    calibrate: bool = True
    calibrate_labels: bool = False
    seed: int = 0
    log_steps: int = 50
    save_every: int | None = 1
    save_steps: int | None = None
    trackers: tuple[str, ...] = (AUTO_TRACKER,)

    def __post_init__(self) -> None:
        for low, high, names in _RANGES:
            for name in names.split():
                if getattr(self, name) is not None:
                    require_range(name, getattr(self, name), low, high)
        for name, choices in _CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        if self.max_gradient_norm <= 0:
            raise ConfigError(f"max_gradient_norm is {self.max_gradient_norm!r}", "Give a number above 0")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"layer_decay is {self.layer_decay!r}", "Give a number above 0 and at most 1")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ConfigError(f"ema is {self.ema!r}", "Give a decay between 0 and 1, such as 0.999, or null")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the configuration") -> Self:
        """Make settings from plain values. ``trackers`` may also be a single name or null."""
        if not isinstance(values, Mapping) or "trackers" not in values:
            return super().from_dict(values, where)
        rest = {key: value for key, value in values.items() if key != "trackers"}
        chosen = super().from_dict(rest, where)
        return replace(chosen, trackers=parse_names(values["trackers"], f"{where}: trackers"))


@dataclass(frozen=True)
class DistillationSettings(Settings):
    """How a student learns from labelled text (``data.labels``) and gold sentences.

    Attributes:
        teacher_share: Share of labelled sentences in each batch.
        teacher_weight: Weight of the loss of a labelled sentence. Gold sentences have weight 1.
        temperature: Divisor of the teachers' logits. Values above 1 make their probabilities softer.
        confidence: Sentences with a less certain decision are not used. The certainty of a decision rises linearly from
            0, if the score is at its threshold, to 1, if the score is 0 or 1.
        hard: Whether to learn the teachers' decisions like gold annotations instead of their probabilities.
    """

    teacher_share: float = 0.5
    teacher_weight: float = 1.0
    temperature: float = 1.0
    confidence: float = 0.0
    hard: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.teacher_share <= 1:
            raise ConfigError(
                f"distillation.teacher_share is {self.teacher_share!r}", "Give a share above 0 and at most 1"
            )
        if self.teacher_weight <= 0:
            raise ConfigError(f"distillation.teacher_weight is {self.teacher_weight!r}", "Give a number above 0")
        require_range("distillation.temperature", self.temperature, 0.1, 100)
        require_range("distillation.confidence", self.confidence, 0, 1)
        if self.hard and self.temperature != 1:
            raise ConfigError(
                f"distillation.temperature is {self.temperature:g}, but distillation.hard uses no probabilities",
                "Remove one of the two",
                option="distillation.temperature",
            )


def parse_names(value: Any, where: str) -> tuple[str, ...]:
    """Return a list of names, a single name or null as a tuple."""
    given = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"{where} is {value!r}", "Give a list of names")
    return tuple(given)
