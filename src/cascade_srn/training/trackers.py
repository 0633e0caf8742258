"""Trackers of accelerate, by name: TensorBoard and others, told what the log is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import ProjectConfiguration

from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.training.run_folder import TRACKERS

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
