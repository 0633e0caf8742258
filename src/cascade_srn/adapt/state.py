"""The state of an adaptation: everything that its next step depends on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object

from cascade_srn.adapt.loop import AdaptLoop
from cascade_srn.training.start import seed_everything
from cascade_srn.training.state_files import (
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


def save_state(loop: AdaptLoop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two of its steps; ``more`` plain values are kept with it.

    All processes call this, and the main one writes.
    """
    own = random.getstate(), random_tensors(loop.device)
    everywhere = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors: Tensors = {f"weights.{name}": parameter for name, parameter in loop.network.named_parameters()}
    tensors |= optimiser_tensors(loop.network, loop.optimiser)
    for process, (_, found) in enumerate(everywhere):
        tensors |= {f"random.{process}.{name}": value for name, value in found.items()}
    values = {"step": loop.step, "seconds": loop.seconds, "python": [found for found, _ in everywhere], **more}
    write_state(folder, loop.step, tensors, values)


def load_state(loop: AdaptLoop, folder: Path) -> dict[str, Any] | None:
    """Restore a loop built from the same settings; return the values of the state, or None if there is none."""
    return read_state(folder, lambda state, tensors: _restore(loop, state, tensors))


def _restore(loop: AdaptLoop, state: dict[str, Any], tensors: Tensors) -> None:
    weights = below(tensors, "weights")
    require_like(weights, dict(loop.network.named_parameters()), "weight")
    with torch.no_grad():
        for name, parameter in loop.network.named_parameters():
            parameter.copy_(weights[name])
    restore_optimiser(loop.network, loop.optimiser, tensors)
    require_step(state["step"], loop.n_steps)
    loop.go_to(state["step"], seconds=float(state["seconds"]))
    process = loop.accelerator.process_index
    if process < len(state["python"]):
        version, numbers, gauss = state["python"][process]
        random.setstate((version, tuple(numbers), gauss))
        restore_random(loop.device, below(tensors, f"random.{process}"))
    else:
        # With more processes than before, the new ones begin from their seeds.
        seed_everything(loop.settings.seed + process)
