"""The state of a training loop: everything that its next step depends on."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from torch import Tensor

from cascade_srn.training.loop import Loop, Standing
from cascade_srn.training.start import seed_everything
from cascade_srn.training.state_files import (
    InvalidState,
    Tensors,
    below,
    optimiser_tensors,
    random_tensors,
    read_state,
    require_like,
    require_step,
    restore_optimiser,
    restore_random,
    write_state,
)
from cascade_srn.training.step import LOSS_PARTS


def save_state(loop: Loop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two of its steps; ``more`` plain values are kept with it.

    All processes call this, and the main one writes.
    """
    own = _random_values(), random_tensors(loop.take_step.device)
    randomness = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors = {**_weights(loop), **optimiser_tensors(loop.model.network, loop.optimiser)}
    for process, (_, found) in enumerate(randomness):
        tensors |= {f"random.{process}.{name}": value for name, value in found.items()}
    values = {
        "standing": asdict(loop.standing),
        "n_averaged": 0 if loop.averaged is None else loop.averaged.n_steps,
        "shuffling": loop.shuffling.getstate(),
        "random": [found for found, _ in randomness],
        **more,
    }
    write_state(folder, loop.standing.step, tensors, values)


def load_state(loop: Loop, folder: Path) -> dict[str, Any] | None:
    """Restore a loop that was built from the same recipe; return the values of the state, None where there is none."""
    return read_state(folder, lambda state, tensors: _restore(loop, state, tensors))


def _restore(loop: Loop, state: Mapping[str, Any], tensors: Tensors) -> None:
    weights = below(tensors, "weights")
    expected = loop.model.network.state_dict()
    if weights.keys() == expected.keys():
        # Names and shapes that differ are reported by load_state_dict, all at once.
        require_like(weights, {name: _like(weights[name], value) for name, value in expected.items()}, "weight")
    loop.model.network.load_state_dict(weights)
    loop.standing = _standing(state["standing"], loop)
    loop.schedule.go_to(loop.standing.step)
    restore_optimiser(loop.model.network, loop.optimiser, tensors)
    if loop.averaged is not None:
        averages = below(tensors, "average")
        require_like(averages, loop.averaged.state(), "average")
        require_step(state["n_averaged"], loop.n_steps)
        loop.averaged.restore(averages, state["n_averaged"])
    version, numbers, gauss = state["shuffling"]
    loop.shuffling.setstate((version, tuple(numbers), gauss))
    process = loop.accelerator.process_index
    if process < len(state["random"]):
        _restore_random_values(state["random"][process])
        restore_random(loop.take_step.device, below(tensors, f"random.{process}"))
    else:
        # With more processes than before, the new ones begin from their seeds.
        seed_everything(loop.settings.seed + process)


def _like(found: Tensor, expected: Tensor) -> Tensor:
    """Return ``expected`` in the shape of ``found``, so that dtypes alone are compared."""
    return expected.new_empty(()).expand(found.shape)


def _standing(values: Mapping[str, Any], loop: Loop) -> Standing:
    """Build the loop state from its stored values, and refuse values that no run can have."""
    if missing := [field.name for field in fields(Standing) if field.name not in values]:
        raise InvalidState(f"{missing[0]} is missing")
    standing = Standing(**values)
    require_step(standing.step, loop.n_steps)
    for name in ("epoch", "seen", "stale"):
        value = getattr(standing, name)
        if type(value) is not int or value < 0:
            raise InvalidState(f"{name} is {value!r}, which is not a count")
    if standing.epoch > loop.settings.epochs:
        raise InvalidState(f"its epoch is {standing.epoch}, but the run has {loop.settings.epochs} epochs")
    epoch_size = loop.material.epoch_size(loop.settings.batch_size)
    known = range(loop.material.n_numbers)
    if (
        not isinstance(standing.order, list)
        or len(standing.order) != (epoch_size if standing.epoch else 0)
        or not all(type(number) is int and number in known for number in standing.order)
    ):
        raise InvalidState("the order of the sentences is not one of this run")
    if standing.seen > len(standing.order):
        raise InvalidState(f"{standing.seen} sentences of {len(standing.order)} in the epoch were seen")
    numbers = [standing.best, standing.seconds, *standing.sums]
    if len(standing.sums) != len(LOSS_PARTS) or not all(_is_finite(number) for number in numbers):
        raise InvalidState("its losses, scores and times are not finite numbers")
    return standing


def _is_finite(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)


def _weights(loop: Loop) -> Tensors:
    found = {f"weights.{name}": value for name, value in loop.model.network.state_dict().items()}
    if loop.averaged is not None:
        found |= {f"average.{name}": value for name, value in loop.averaged.state().items()}
    return found


def _random_values() -> dict[str, Any]:
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
    }


def _restore_random_values(values: Mapping[str, Any]) -> None:
    version, numbers, gauss = values["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = values["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
