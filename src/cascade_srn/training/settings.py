"""How a model is trained: every setting of the loop, with its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from cascade_srn.config import MAX_SEED, Settings, require_choice, require_range
from cascade_srn.data.batch import CANDIDATES
from cascade_srn.errors import ConfigError

PRECISIONS = ("float32", "tf32", "bf16")
SCHEDULES = ("linear", "cosine", "constant")
OPTIMISERS = ("adamw", "adam")


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How a model is trained.

    **Steps.** ``batch_size`` sentences make a step, whatever the number of processes; ``accumulation`` lets them
    through the model in that many parts, which takes less memory and gives the same gradients.

    **Rates.** The pretrained encoder learns at ``encoder_learning_rate``, everything else at ``learning_rate``.
    With a ``layer_decay`` below 1 each layer of the encoder learns that much slower than the one above it. All
    rates rise over the first ``warmup`` share of the steps and then follow the ``schedule``: "linear" or "cosine"
    down to zero, or "constant". The ``optimiser`` is "adamw" or, as in the paper, "adam", whose weight decay is
    part of the gradient.

    **Averaging.** With ``ema`` (0.999, say) the weights that are evaluated and saved are a running average over
    the steps; early on, when there is little to average, the average is shorter.

    **Evaluation.** The development documents are scored every ``evaluate_every`` epochs, every ``evaluate_steps``
    steps, and at the end. With ``patience`` training ends after that many evaluations without a new best. With
    ``calibrate`` the best model gets the temperatures and thresholds that suit those documents, with
    ``calibrate_labels`` each label its own (:mod:`cascade_srn.calibration.choose`).

    **Turns 2 and 3.** ``candidates`` says whose objects the object turn learns: those of all gold "entities", or of
    gold "subjects" only (the paper's ablation). About a ``corruption`` share of the entities that these turns are
    told of have a mistake, as they will in use. Of the pairs of words that are no span, a ``negatives`` share is
    learned, in all turns.

    **Words.** A ``masking`` share of the words is hidden from the encoder, so that it learns to read a name from what
    stands around it.

    **Speed.** ``precision`` "tf32" rounds the factors of matrix products on a GPU, and is the
    fastest for small batches there; "bf16" computes in half precision, and is for large models and batches. With
    ``cuda_graphs`` the encoder's work on a GPU is recorded and played again, which leaves less for the processor to do;
    it takes memory, and is not done where several processes train one model.

    The remaining settings concern what a run writes (:mod:`cascade_srn.training.run`): the loss every
    ``log_steps`` steps, a state to resume from every ``save_every`` epochs and ``save_steps`` steps (0 or None:
    not), and the ``trackers`` of accelerate that are told what is logged.
    """

    epochs: int = 30
    batch_size: int = 16
    accumulation: int = 1
    learning_rate: float = 1e-3
    encoder_learning_rate: float = 5e-5
    layer_decay: float = 1.0
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
    trackers: tuple[str, ...] = ("tensorboard",)

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulation", "log_steps"):
            require_range(name, getattr(self, name), 1)
        for name in ("evaluate_every", "evaluate_steps", "patience"):
            if getattr(self, name) is not None:
                require_range(name, getattr(self, name), 1)
        for name in ("save_every", "save_steps"):
            require_range(name, getattr(self, name) or 0, 0)
        for name in ("learning_rate", "encoder_learning_rate", "weight_decay"):
            require_range(name, getattr(self, name), 0)
        require_range("seed", self.seed, 0, MAX_SEED)
        for name in ("warmup", "corruption", "negatives", "masking"):
            require_range(name, getattr(self, name), 0, 1)
        require_choice("candidates", self.candidates, CANDIDATES)
        require_choice("precision", self.precision, PRECISIONS)
        require_choice("schedule", self.schedule, SCHEDULES)
        require_choice("optimiser", self.optimiser, OPTIMISERS)
        if self.max_gradient_norm <= 0:
            raise ConfigError(f"max_gradient_norm is {self.max_gradient_norm!r}; give a number above 0")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"layer_decay is {self.layer_decay!r}; give a number above 0 and at most 1 (1: off)")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ConfigError(f"ema is {self.ema!r}; give a decay between 0 and 1, such as 0.999, or null for none")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the configuration") -> Self:
        """Also takes a single tracker by its name, and null for none."""
        if not isinstance(values, Mapping) or "trackers" not in values:
            return super().from_dict(values, where)
        rest = {key: value for key, value in values.items() if key != "trackers"}
        chosen = super().from_dict(rest, where)
        return replace(chosen, trackers=names(values["trackers"], f"{where}: trackers"))


@dataclass(frozen=True)
class DistillationSettings(Settings):
    """How a student learns from labelled text (``data.labels``) beside gold sentences.

    A ``teacher_share`` of each batch's sentences are labelled ones, and the loss of each of them counts
    ``teacher_weight`` times. The teachers' logits are divided by ``temperature`` before they are learned: above 1
    makes their probabilities softer. With ``hard`` what the teachers decided on is learned as if it were gold.

    Sentences with a decision that is less certain than ``confidence`` are left out. A decision's certainty is 0 where
    the score is at its threshold and 1 where it is 0 or 1, in a line between.
    """

    teacher_share: float = 0.5
    teacher_weight: float = 1.0
    temperature: float = 1.0
    confidence: float = 0.0
    hard: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.teacher_share <= 1:
            raise ConfigError(
                f"distillation.teacher_share is {self.teacher_share!r}; give a share above 0, and at most 1 for no gold"
            )
        if self.teacher_weight <= 0:
            raise ConfigError(f"distillation.teacher_weight is {self.teacher_weight!r}; give a number above 0")
        require_range("distillation.temperature", self.temperature, 0.1, 100)
        require_range("distillation.confidence", self.confidence, 0, 1)
        if self.hard and self.temperature != 1:
            raise ConfigError(
                f"distillation.hard is given with a temperature of {self.temperature:g}, but decisions have no "
                "probabilities to soften; leave one of the two out"
            )


def names(value: Any, where: str) -> tuple[str, ...]:
    """A list of names, a single name or null, as a tuple."""
    given = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"{where} is {value!r}; give a list of names")
    return tuple(given)
