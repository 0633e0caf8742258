"""The state of a training loop: everything that its next step depends on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import gather_object

from cascade_srn.training.loop import Loop, Standing
from cascade_srn.training.start import seed_everything
from cascade_srn.training.state_files import (
    Tensors,
    below,
    optimiser_tensors,
    random_tensors,
    read_state,
    restore_optimiser,
    restore_random,
    write_state,
)


def save_state(loop: Loop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two of its steps; ``more`` plain values are kept with it.

    All processes call this, and the main one writes.
    """
    own = _random_values(), random_tensors(loop.take_step.device)
    randomness = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors = {**_weights(loop), **optimiser_tensors(loop.model.cascade, loop.optimiser)}
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
    """Put a loop, made anew from the same recipe, where it stood; what the state holds, None where there is none."""
    return read_state(folder, lambda state, tensors: _restore(loop, state, tensors))


def _restore(loop: Loop, state: Mapping[str, Any], tensors: Tensors) -> None:
    loop.model.cascade.load_state_dict(below(tensors, "weights"))
    loop.standing = Standing(**state["standing"])
    loop.schedule.go_to(loop.standing.step)
    restore_optimiser(loop.model.cascade, loop.optimiser, tensors)
    if loop.averaged is not None:
        loop.averaged.restore(below(tensors, "average"), state["n_averaged"])
    version, numbers, gauss = state["shuffling"]
    loop.shuffling.setstate((version, tuple(numbers), gauss))
    process = loop.accelerator.process_index
    if process < len(state["random"]):
        _restore_random_values(state["random"][process])
        restore_random(loop.take_step.device, below(tensors, f"random.{process}"))
    else:
        # With more processes than before, the new ones begin from their seeds.
        seed_everything(loop.settings.seed + process)


def _weights(loop: Loop) -> Tensors:
    found = {f"weights.{name}": value for name, value in loop.model.cascade.state_dict().items()}
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
