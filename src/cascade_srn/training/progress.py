"""Progress reports of training, and where they go: the log, trackers and curves."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import ProjectConfiguration

from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.evaluation.scores import Scores
from cascade_srn.storage.atomic import replacing_path
from cascade_srn.training.run_folder import TASKS, TRACKERS
from cascade_srn.training.settings import AUTO_TRACKER

DEFAULT_TRACKER = "tensorboard"
# Keys of the log with the names of the curves.
_LOSSES = {"loss": "total", "loss_entity": "entity", "loss_subject": "subject", "loss_object": "object"}


@dataclass(frozen=True)
class TrainingProgress:
    """Progress report of training, at the end of an epoch or wherever the settings ask for one."""

    epoch: int  # Current epoch, counted from 1
    epochs: int  # Number of epochs of the whole training
    loss: float  # Mean loss of a sentence over the epoch so far
    dev: Scores | None = None  # Scores on the development documents, if they were scored at this step
    # Whether the weights are the ones to keep: they score higher than all before, or none found anything
    best: bool = False
    step: int = 0  # Number of steps taken
    steps: int = 0  # Number of steps of the whole training
    epoch_done: bool = True  # Whether this is the end of an epoch
    finished: bool = False  # Whether this is the end of training
    save: bool = False  # Whether a state is saved at this step
    # Mean losses of the turns since the last report, and ``total``, their sum
    parts: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)  # Learning rates of the last step
    seconds: float = 0.0  # Time since the start of training
    words_per_second: float = 0.0  # Throughput since the last report

    @property
    def seconds_left(self) -> float:
        """Estimated time of the remaining steps."""
        return self.seconds / self.step * (self.steps - self.step) if self.step and not self.finished else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the values of a line of the log."""
        values: dict[str, Any] = {
            "step": self.step,
            "epoch": self.epoch,
            "loss": self.parts.get("total", self.loss),
            **{f"loss_{name}": value for name, value in self.parts.items() if name != "total"},
            **{f"learning_rate_{name}": value for name, value in self.rates.items()},
            "seconds": round(self.seconds, 3),
            "words_per_second": round(self.words_per_second, 1),
        }
        if self.epoch_done:
            values["epoch_loss"] = self.loss
        if self.dev is not None:
            f1 = {task: getattr(self.dev, task).counts.f1 for task in TASKS}
            values |= {"best": self.best, "dev": {"symmetric": self.dev.symmetric, **f1}}
        return values


def selection_score(scores: Scores) -> float:
    """Return the score that the best weights are chosen by: the sum of NER and strict RE F1, as in the paper."""
    return scores.ner.counts.f1 + scores.re_strict.counts.f1


def choose_trackers(names: Sequence[str]) -> list[str]:
    """Return the trackers to use. "auto" is TensorBoard, or a warning if it is not installed.

    Raises:
        ConfigError: If another tracker does not exist or is not installed.
    """
    known, installed = {str(name) for name in LOGGER_TYPE_TO_CLASS}, {str(name) for name in get_available_trackers()}
    chosen = [name for name in names if name != AUTO_TRACKER]
    if AUTO_TRACKER in names and DEFAULT_TRACKER in installed:
        chosen = [*dict.fromkeys([DEFAULT_TRACKER, *chosen])]
    elif AUTO_TRACKER in names:
        warnings.warn(
            "nothing is logged to TensorBoard, because it is not installed. Install it with pip install "
            "'cascade-srn[train]', or set training.trackers to [].",
            stacklevel=2,
        )
    for name in chosen:
        if name not in known:
            raise ConfigError(f"training.trackers contains {name!r}, which is not a tracker", did_you_mean(name, known))
        if name not in installed:
            package = "'cascade-srn[train]'" if name == DEFAULT_TRACKER else name
            raise ConfigError(
                f"the tracker {name!r} is not installed",
                f"Install it with pip install {package}, or remove it from the trackers",
                option="training.trackers",
            )
    return chosen


def tracker_options(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the options of an accelerator whose trackers write to a run folder."""
    if not names:
        return {}
    return {
        "log_with": list(names),
        "project_config": ProjectConfiguration(project_dir=str(folder), logging_dir=str(folder / TRACKERS)),
    }


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Flatten a line of the log to named numbers: ``dev/ner`` for the ``ner`` in ``dev``."""
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            numbers |= flatten(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            numbers[f"{prefix}{name}"] = float(value)
    return numbers


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_curves(log: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the losses and scores of a log to a PNG file, atomically."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for key, label in _LOSSES.items():
        points = [(line["step"], line[key]) for line in log if key in line]
        if points:
            left.plot(*zip(*points, strict=True), label=label, linewidth=1.8 if key == "loss" else 1.0)
    left.set_yscale("log")
    left.set_ylabel("training loss per sentence")
    scored = [line for line in log if "dev" in line]
    for key, label in TASKS.items():
        points = [(line["step"], 100 * line["dev"][key]) for line in scored]
        if points:
            right.plot(*zip(*points, strict=True), label=label, marker="o", markersize=3, linewidth=1.5)
    best = next((line["step"] for line in reversed(scored) if line["best"]), None)
    if best is not None:
        right.axvline(best, color="grey", linestyle=":", linewidth=1.0, label="best")
    right.set_ylim(bottom=0)
    right.set_ylabel(f"F1 on dev, {scored[0]['dev']['symmetric']}" if scored else "F1 on dev (none given)")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    with replacing_path(path) as temporary:
        figure.savefig(temporary, dpi=130, format="png")
