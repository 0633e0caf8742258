"""Save and restore the state of a training loop: everything that its next step depends on."""

import hashlib
import json
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

from cascade_srn.errors import ModelError
from cascade_srn.formats.files import replacing
from cascade_srn.runs.folder import remove
from cascade_srn.runs.process import seed_everything
from cascade_srn.storage.atomic import replacing_path
from cascade_srn.storage.files import checksum
from cascade_srn.training.loop import Loop, LoopState

FORMAT_VERSION = 1
STATE_FILE = "state.json"

Tensors = dict[str, Tensor]


def _write(folder: Path, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write the tensors, and then the JSON file with their name and checksum. Both are written atomically.

    If the process is killed, either the old or the new state is complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{step}.safetensors"
    with replacing_path(folder / name) as beside:
        save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, beside)
        sha256 = checksum(beside)
    state = {"format_version": FORMAT_VERSION, "tensors": name, "tensors_sha256": sha256, **values}
    with replacing(folder / STATE_FILE) as handle:
        handle.write(json.dumps({**state, "sha256": _digest(state)}).encode())
    for other in folder.glob("*state-*.safetensors*"):
        if other.name != name:
            # A process that was killed leaves a temporary folder.
            remove(other)


def _read(folder: Path) -> tuple[dict[str, Any], Tensors]:
    """Read a state, and check it against its checksums."""
    state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    if state["format_version"] != FORMAT_VERSION:
        raise ValueError(f"format version {state['format_version']}, but this release reads {FORMAT_VERSION}")
    sha256 = state.pop("sha256")
    path = folder / state["tensors"]
    for name, known, found in ((STATE_FILE, sha256, _digest(state)), (path.name, state["tensors_sha256"], None)):
        if known != (checksum(path) if found is None else found):
            raise ValueError(f"{name} does not match its checksum")
    return state, load_file(path)


def _digest(state: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the values of a state. It does not depend on the layout of the JSON file."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """Return the tensors whose names start with a prefix and a dot, without the prefix."""
    start = f"{prefix}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


def save_state(loop: Loop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two steps, with ``more`` plain values.

    All processes must call this. The main process writes.
    """
    device = loop.take_step.device
    generators = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        generators["cuda"] = torch.cuda.get_rng_state(device)
    own = _random_values(), generators
    randomness = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors = _weights(loop)
    for process, (_, found) in enumerate(randomness):
        tensors |= {f"random.{process}.{name}": value for name, value in found.items()}
    values = {
        "standing": asdict(loop.loop_state),
        "n_averaged": 0 if loop.averaged is None else loop.averaged.n_steps,
        "shuffling": loop.shuffling.getstate(),
        "random": [found for found, _ in randomness],
        **more,
    }
    _write(folder, loop.loop_state.step, tensors, values)


def load_state(loop: Loop, folder: Path) -> dict[str, Any] | None:
    """Restore a loop that was built from the same recipe. Return the values of the state, or None if there is none."""
    if not (folder / STATE_FILE).is_file():
        return None
    try:
        state, tensors = _read(folder)
        _restore(loop, state, tensors)
    except (KeyError, TypeError, ValueError, OSError, RuntimeError, AttributeError, SafetensorError) as error:
        raise ModelError(
            f"the state in {str(folder)!r} cannot be read ({type(error).__name__}: {error})",
            "Restore the folder from a copy, or start over",
            option="overwrite",
        ) from error
    return state


def _restore(loop: Loop, state: Mapping[str, Any], tensors: Tensors) -> None:
    loop.model.network.load_state_dict(_below(tensors, "weights"))
    loop.loop_state = LoopState(**state["standing"])
    loop.schedule.go_to(loop.loop_state.step)
    _restore_optimiser(loop, tensors)
    if loop.averaged is not None:
        loop.averaged.restore(_below(tensors, "average"), state["n_averaged"])
    loop.shuffling.setstate(_random_state(state["shuffling"]))
    process, device = loop.accelerator.process_index, loop.take_step.device
    if process >= len(state["random"]):
        # A process that did not exist before starts from its seed.
        seed_everything(loop.settings.seed + process)
        return
    values, generators = state["random"][process], _below(tensors, f"random.{process}")
    random.setstate(_random_state(values["python"]))
    kind, keys, *rest = values["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(generators["torch"])
    if device.type == "cuda" and "cuda" in generators:
        torch.cuda.set_rng_state(generators["cuda"], device)


def _restore_optimiser(loop: Loop, tensors: Mapping[str, Tensor]) -> None:
    """Restore the moments of each parameter. Parameters that never had a gradient have none."""
    fused = {id(p): bool(group.get("fused")) for group in loop.optimiser.param_groups for p in group["params"]}
    for name, parameter in loop.model.network.named_parameters():
        if own := _below(tensors, f"optimiser.{name}"):
            # The number of steps stays on the CPU, except for a fused optimiser.
            loop.optimiser.state[parameter] = {
                key: value if key == "step" and not fused[id(parameter)] else value.to(parameter.device)
                for key, value in own.items()
            }


def _random_state(values: Any) -> tuple[Any, ...]:
    """Return a state of ``random`` that was stored as JSON, which has no tuples."""
    version, numbers, gauss = values
    return version, tuple(numbers), gauss


def _weights(loop: Loop) -> Tensors:
    """Return weights, averages, and the state of the optimiser by parameter names."""
    network = loop.model.network
    found = {f"weights.{name}": value for name, value in network.state_dict().items()}
    if loop.averaged is not None:
        found |= {f"average.{name}": value for name, value in loop.averaged.state().items()}
    for name, parameter in network.named_parameters():
        state = loop.optimiser.state.get(parameter, {})
        found |= {f"optimiser.{name}.{key}": value for key, value in state.items()}
    return found


def _random_values() -> dict[str, Any]:
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {"python": random.getstate(), "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached]}
