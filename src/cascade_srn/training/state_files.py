"""A state to resume from on disk: tensors in safetensors, all else in JSON, replaced at one stroke."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cascade_srn.data.formats.files import replacing
from cascade_srn.errors import ModelError

FORMAT_VERSION = 1
STATE_FILE = "state.json"

Tensors = dict[str, Tensor]


def write_state(folder: Path, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write first the tensors, then, at one stroke, the file that names them.

    Whenever the process is killed, one whole state is there, the old one or the new one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{step}.safetensors"
    beside = folder / f".{name}.tmp"
    save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, beside)
    os.replace(beside, folder / name)
    with replacing(folder / STATE_FILE) as handle:
        handle.write(json.dumps({"format_version": FORMAT_VERSION, "tensors": name, **values}).encode())
    for other in folder.glob("*state-*.safetensors*"):
        if other.name != name:
            other.unlink()


def read_state(folder: Path, restore: Callable[[dict[str, Any], Tensors], None]) -> dict[str, Any] | None:
    """Have a state, where there is one, restored from its values and tensors; the values, None where there is none."""
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
        restore(state, load_file(folder / state["tensors"]))
    except (KeyError, TypeError, json.JSONDecodeError, OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(
            f"the state in {str(folder)!r} cannot be read ({type(error).__name__}: {error}); start over with "
            "--overwrite"
        ) from error
    return state


def below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """The tensors below a prefix, without it."""
    start = f"{prefix}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


def optimiser_tensors(module: nn.Module, optimiser: torch.optim.Optimizer) -> Tensors:
    """An optimiser's state by the parameters' names, which, unlike their numbers, mean the same in every release."""
    return {
        f"optimiser.{name}.{key}": value
        for name, parameter in module.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(module: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the state of :func:`optimiser_tensors` back; weights that nothing was learned about have none."""
    fused = {id(p): bool(group.get("fused")) for group in optimiser.param_groups for p in group["params"]}
    for name, parameter in module.named_parameters():
        own = below(tensors, f"optimiser.{name}")
        if own:
            # The count of steps stays with the processor unless the fused optimiser reads it on the device.
            optimiser.state[parameter] = {
                key: value if key == "step" and not fused[id(parameter)] else value.to(parameter.device)
                for key, value in own.items()
            }


def random_tensors(device: torch.device) -> Tensors:
    """Where torch's random numbers stand, on the processor and on the device."""
    tensors = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def restore_random(device: torch.device, tensors: Mapping[str, Tensor]) -> None:
    """Put torch's random numbers back to where :func:`random_tensors` found them."""
    torch.set_rng_state(tensors["torch"])
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"], device)
