"""The state to resume from: everything that the next step depends on, as safetensors and JSON."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cascade_srn.adapt.loop import AdaptLoop
from cascade_srn.data.formats.files import replacing
from cascade_srn.errors import ModelError

FORMAT_VERSION = 1
STATE_FILE = "state.json"


def save_state(loop: AdaptLoop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two of its steps; ``more`` plain values are kept with it.

    All processes call this, and the main one writes: first the tensors, then, at one stroke, the file that names
    them. Whenever it is killed, one whole state is there, the old one or the new one.
    """
    own = (random.getstate(), _random_tensors(loop))
    everywhere = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors = _weights(loop) | _moments(loop)
    for process, (_, found) in enumerate(everywhere):
        tensors |= {f"random.{process}.{name}": value for name, value in found.items()}
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{loop.step}.safetensors"
    beside = folder / f".{name}.tmp"
    save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, beside)
    os.replace(beside, folder / name)
    state = {
        "format_version": FORMAT_VERSION,
        "tensors": name,
        "step": loop.step,
        "seconds": loop.seconds,
        "python": [values for values, _ in everywhere],
        **more,
    }
    with replacing(folder / STATE_FILE) as handle:
        handle.write(json.dumps(state).encode())
    for other in folder.glob("*state-*.safetensors*"):
        if other.name != name:
            other.unlink()


def load_state(loop: AdaptLoop, folder: Path) -> dict[str, Any] | None:
    """Put a loop, made anew from the same settings, where it stood; what the state holds, None where there is none."""
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if state["format_version"] != FORMAT_VERSION:
            raise ModelError(
                f"the state in {str(folder)!r} has format version {state['format_version']}, and this release reads "
                f"{FORMAT_VERSION}; resume with the release that wrote it, or start over with --overwrite"
            )
        _restore(loop, state, load_file(folder / state["tensors"]))
    except (KeyError, TypeError, json.JSONDecodeError, OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(
            f"the state in {str(folder)!r} cannot be read ({type(error).__name__}: {error}); start over with "
            "--overwrite"
        ) from error
    return state


def _restore(loop: AdaptLoop, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    parameters = dict(loop.network.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"weights.{name}"])
    for name, parameter in parameters.items():
        prefix = f"optimiser.{name}."
        # The count of steps stays with the processor unless the fused optimiser reads it on the device.
        moments = {
            key.removeprefix(prefix): value
            if key == f"{prefix}step" and not loop.is_fused
            else value.to(parameter.device)
            for key, value in tensors.items()
            if key.startswith(prefix)
        }
        # Weights that nothing was learned about have none.
        if moments:
            loop.optimiser.state[parameter] = moments
    loop.go_to(state["step"], seconds=state["seconds"])
    process = loop.accelerator.process_index
    # With more processes than before, the new ones go on from their seeds.
    if process < len(state["python"]):
        version, numbers, gauss = state["python"][process]
        random.setstate((version, tuple(numbers), gauss))
        torch.set_rng_state(tensors[f"random.{process}.torch"])
        if loop.device.type == "cuda" and f"random.{process}.cuda" in tensors:
            torch.cuda.set_rng_state(tensors[f"random.{process}.cuda"], loop.device)


def _weights(loop: AdaptLoop) -> dict[str, Tensor]:
    return {f"weights.{name}": parameter for name, parameter in loop.network.named_parameters()}


def _moments(loop: AdaptLoop) -> dict[str, Tensor]:
    """By the names of the parameters, which, unlike their numbers, mean the same in every release."""
    return {
        f"optimiser.{name}.{key}": value
        for name, parameter in loop.network.named_parameters()
        for key, value in loop.optimiser.state.get(parameter, {}).items()
    }


def _random_tensors(loop: AdaptLoop) -> dict[str, Tensor]:
    tensors = {"torch": torch.get_rng_state()}
    if loop.device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(loop.device)
    return tensors
