"""What training tells about itself on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import ProjectConfiguration

from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.evaluation.scores import Scores
from cascade_srn.storage.atomic import replacing_path
from cascade_srn.training.run_folder import TRACKERS

LOSSES = {"loss": "total", "loss_entity": "entity", "loss_subject": "subject", "loss_object": "object"}
SCORES = {"ner": "NER", "re_boundaries": "RE boundaries", "re_strict": "RE strict"}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_curves(log: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw what a run logged; the file appears or is replaced as a whole."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for key, label in LOSSES.items():
        points = [(line["step"], line[key]) for line in log if key in line]
        if points:
            left.plot(*zip(*points, strict=True), label=label, linewidth=1.8 if key == "loss" else 1.0)
    left.set_yscale("log")
    left.set_ylabel("training loss of a sentence")
    scored = [line for line in log if "dev" in line]
    for key, label in SCORES.items():
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
    with replacing_path(path) as beside:
        figure.savefig(beside, dpi=130, format="png")


# What trackers file the run under.
PROJECT = "cascade-srn"


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a tracker that does not exist or is not installed, before anything is trained."""
    known, installed = {str(name) for name in LOGGER_TYPE_TO_CLASS}, {str(name) for name in get_available_trackers()}
    for name in names:
        if name not in known:
            raise ConfigError(f"training.trackers names {name!r}, which is no tracker. {did_you_mean(name, known)}")
        if name not in installed:
            how = "'cascade-srn[train]'" if name == "tensorboard" else name
            raise ConfigError(
                f"the tracker {name!r} is not installed; install it by pip install {how}, or leave it out by "
                "training.trackers=[]"
            )


def tracker_options(names: Sequence[str], folder: Path) -> dict[str, Any]:
    """What an accelerator must be made with for these trackers to write to a run folder."""
    if not names:
        return {}
    return {
        "log_with": list(names),
        "project_config": ProjectConfiguration(project_dir=str(folder), logging_dir=str(folder / TRACKERS)),
    }


def start_trackers(accelerator: Accelerator, *, from_step: int) -> None:
    """Start them; after a resumption, TensorBoard forgets the steps that are taken again."""
    accelerator.init_trackers(PROJECT, init_kwargs={"tensorboard": {"purge_step": from_step + 1}})


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """A line of the log as named numbers: ``dev/ner`` for the ``ner`` in ``dev``."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            found[f"{prefix}{name}"] = float(value)
    return found


@dataclass(frozen=True)
class Progress:
    """Where training stands at the end of an epoch, and wherever else it was asked to tell.

    ``loss`` is the mean loss of a sentence over the epoch so far; ``parts`` has the turns' own losses since the
    last time, and ``total``, their sum. ``dev`` is there where the development documents were scored, and ``best``
    says whether the weights are the ones to keep: they never did better, or never found anything right. ``save``
    marks the moments to save a state at, ``finished`` the last one.
    """

    epoch: int
    epochs: int
    loss: float
    dev: Scores | None = None
    best: bool = False
    step: int = 0
    steps: int = 0
    epoch_done: bool = True
    finished: bool = False
    save: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    words_per_second: float = 0.0

    @property
    def seconds_left(self) -> float:
        """The time that the remaining steps take if they take as long as those before."""
        return self.seconds / self.step * (self.steps - self.step) if self.step and not self.finished else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a line of the log."""
        told: dict[str, Any] = {
            "step": self.step,
            "epoch": self.epoch,
            "loss": self.parts.get("total", self.loss),
            **{f"loss_{name}": value for name, value in self.parts.items() if name != "total"},
            **{f"learning_rate_{name}": value for name, value in self.rates.items()},
            "seconds": round(self.seconds, 3),
            "words_per_second": round(self.words_per_second, 1),
        }
        if self.epoch_done:
            told["epoch_loss"] = self.loss
        if self.dev is not None:
            told |= {"best": self.best, "dev": headline(self.dev)}
        return told


def headline(scores: Scores) -> dict[str, float | str]:
    """The micro F1 of each task, and what relations were counted by."""
    return {
        "symmetric": scores.symmetric,
        "ner": scores.ner.counts.f1,
        "re_boundaries": scores.re_boundaries.counts.f1,
        "re_strict": scores.re_strict.counts.f1,
    }


def reached(scores: Scores) -> float:
    """What the best weights are chosen by: the sum of NER and strict RE F1, as in the paper."""
    return scores.ner.counts.f1 + scores.re_strict.counts.f1
