"""The state to resume from: everything that the next step depends on, as safetensors and JSON."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cascade_srn.data.formats.files import replacing
from cascade_srn.errors import ModelError
from cascade_srn.training.loop import Loop, Standing

FORMAT_VERSION = 1
STATE_FILE = "state.json"

Tensors = dict[str, Tensor]


def save_state(loop: Loop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two of its steps; ``more`` plain values are kept with it.

    All processes call this, and the main one writes: first the tensors, then, at one stroke, the file that names
    them. Whenever it is killed, one whole state is there, the old one or the new one.
    """
    randomness = gather_object([_random_state(loop)]) if loop.accelerator.num_processes > 1 else [_random_state(loop)]
    if not loop.accelerator.is_main_process:
        return
    tensors = {**_weights(loop), **_optimiser_state(loop)}
    for process, (_, own) in enumerate(randomness):
        tensors |= {f"random.{process}.{name}": value for name, value in own.items()}
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{loop.standing.step}.safetensors"
    beside = folder / f".{name}.tmp"
    save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, beside)
    os.replace(beside, folder / name)
    state = {
        "format_version": FORMAT_VERSION,
        "tensors": name,
        "standing": asdict(loop.standing),
        "n_averaged": 0 if loop.averaged is None else loop.averaged.n_steps,
        "shuffling": loop.shuffling.getstate(),
        "random": [values for values, _ in randomness],
        **more,
    }
    with replacing(folder / STATE_FILE) as handle:
        handle.write(json.dumps(state).encode())
    for other in folder.glob("*state-*.safetensors*"):
        if other.name != name:
            other.unlink()


def load_state(loop: Loop, folder: Path) -> dict[str, Any] | None:
    """Put a loop, made anew from the same recipe, where it stood; what the state holds, None where there is none."""
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["format_version"] != FORMAT_VERSION:
            raise ModelError(
                f"the state in {str(folder)!r} has format version {state['format_version']}, and this release reads "
                f"{FORMAT_VERSION}; resume with the release that wrote it, or start over with --overwrite"
            )
        tensors = load_file(folder / state["tensors"])
        _restore(loop, state, tensors)
    except (KeyError, TypeError, json.JSONDecodeError, OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(
            f"the state in {str(folder)!r} cannot be read ({type(error).__name__}: {error}); start over with "
            "--overwrite"
        ) from error
    loaded: dict[str, Any] = state
    return loaded


def _restore(loop: Loop, state: Mapping[str, Any], tensors: Tensors) -> None:
    loop.model.cascade.load_state_dict(_named(tensors, "weights"))
    loop.standing = Standing(**state["standing"])
    loop.schedule.go_to(loop.standing.step)
    _restore_optimiser(loop, _named(tensors, "optimiser"))
    if loop.averaged is not None:
        loop.averaged.restore(_named(tensors, "average"), state["n_averaged"])
    version, numbers, gauss = state["shuffling"]
    loop.shuffling.setstate((version, tuple(numbers), gauss))
    process = loop.accelerator.process_index
    # With more processes than before, the new ones go on from their seeds.
    if process < len(state["random"]):
        _restore_random(loop, state["random"][process], _named(tensors, f"random.{process}"))


def _weights(loop: Loop) -> Tensors:
    found = {f"weights.{name}": value for name, value in loop.model.cascade.state_dict().items()}
    if loop.averaged is not None:
        found |= {f"average.{name}": value for name, value in loop.averaged.state().items()}
    return found


def _optimiser_state(loop: Loop) -> Tensors:
    """By the names of the parameters, which, unlike their numbers, mean the same in every release."""
    return {
        f"optimiser.{name}.{key}": value
        for name, parameter in loop.model.cascade.named_parameters()
        for key, value in loop.optimiser.state.get(parameter, {}).items()
    }


def _restore_optimiser(loop: Loop, tensors: Tensors) -> None:
    fused = {id(p): bool(group.get("fused")) for group in loop.optimiser.param_groups for p in group["params"]}
    for name, parameter in loop.model.cascade.named_parameters():
        own = _named(tensors, name, inner=False)
        if own:
            # The count of steps stays with the processor unless the fused optimiser reads it on the device.
            loop.optimiser.state[parameter] = {
                key: value if key == "step" and not fused[id(parameter)] else value.to(parameter.device)
                for key, value in own.items()
            }


def _named(tensors: Tensors, prefix: str, *, inner: bool = True) -> Tensors:
    """The tensors below a prefix, without it; with ``inner=False`` those directly below it only."""
    start = f"{prefix}."
    found = {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
    return found if inner else {key: value for key, value in found.items() if "." not in key}


def _random_state(loop: Loop) -> tuple[dict[str, Any], Tensors]:
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    values = {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
    }
    tensors = {"torch": torch.get_rng_state()}
    device = loop.take_step.device
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return values, tensors


def _restore_random(loop: Loop, values: Mapping[str, Any], tensors: Tensors) -> None:
    version, numbers, gauss = values["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = values["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(tensors["torch"])
    device = loop.take_step.device
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"], device)
