"""Save and restore the state of a training loop: everything that its next step depends on."""

import hashlib
import json
import math
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cascade_srn.errors import CascadeError, ModelError
from cascade_srn.formats.files import replacing
from cascade_srn.model.build import TorchModule
from cascade_srn.runs.process import seed_everything
from cascade_srn.storage.atomic import replacing_path
from cascade_srn.storage.files import checksum
from cascade_srn.training.loop import Loop, LoopState
from cascade_srn.training.step import LOSS_PARTS

FORMAT_VERSION = 1
STATE_FILE = "state.json"

Tensors = dict[str, Tensor]


class InvalidState(ValueError):
    """The files of a state can be read, but its values do not fit the run."""


def write_state(folder: Path, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
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
        handle.write(json.dumps({**state, _CHECKSUM: _digest(state)}).encode())
    for other in folder.glob("*state-*.safetensors*"):
        if other.name != name:
            # A process that was killed leaves a temporary folder.
            shutil.rmtree(other) if other.is_dir() and not other.is_symlink() else other.unlink()


def read_state(folder: Path, restore: Callable[[dict[str, Any], Tensors], None]) -> dict[str, Any] | None:
    """Read a state that :func:`write_state` wrote, check it against its checksums, and restore it.

    ``restore`` raises :class:`InvalidState` for invalid values. States of old releases have no checksums. Return the
    values of the state, or None if there is none.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(state, dict):
            raise InvalidState(f"{STATE_FILE} is not a mapping")
        if state["format_version"] != FORMAT_VERSION:
            raise ModelError(
                f"the state in {str(folder)!r} has format version {state['format_version']}, but this release reads "
                f"{FORMAT_VERSION}",
                "Resume with the release that wrote it, or start over",
                option="overwrite",
            )
        if _CHECKSUM in state and state[_CHECKSUM] != _digest(state):
            raise InvalidState(f"{STATE_FILE} does not match its checksum")
        restore(state, _read_tensors(folder, state))
    except InvalidState as error:
        raise ModelError(
            f"the state in {str(folder)!r} is damaged: {error}",
            "Restore the folder from a copy, or start over",
            option="overwrite",
        ) from error
    except (*_UNREADABLE, SafetensorError) as error:
        if isinstance(error, CascadeError):
            raise
        raise ModelError(
            f"the state in {str(folder)!r} cannot be read ({type(error).__name__}: {error})",
            "Restore the folder from a copy, or start over",
            option="overwrite",
        ) from error
    return state


# Raised where a value of a wrong type or size is used. CascadeError is a ValueError and is passed on.
_UNREADABLE = (KeyError, TypeError, ValueError, OSError, RuntimeError, AttributeError, OverflowError, IndexError)
_CHECKSUM = "sha256"


def _digest(state: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the values of a state. It does not depend on the layout of the JSON file."""
    values = {key: value for key, value in state.items() if key != _CHECKSUM}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _read_tensors(folder: Path, state: Mapping[str, Any]) -> Tensors:
    name = state["tensors"]
    if Path(name).name != name:
        raise InvalidState(f"it names the file {name!r}, which is not in the folder")
    tensors: Tensors = load_file(folder / name)
    if "tensors_sha256" in state and checksum(folder / name) != state["tensors_sha256"]:
        raise InvalidState(f"{name} does not match its checksum")
    return tensors


def require_like(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], kind: str) -> None:
    """Refuse tensors with other names, shapes or dtypes than expected, or with values that are not finite."""
    for name, tensor in expected.items():
        if name not in found:
            raise InvalidState(f"the {kind} {name} is missing")
        if found[name].shape != tensor.shape or found[name].dtype != tensor.dtype:
            raise InvalidState(f"the {kind} {name} is {_describe(found[name])}, but the run needs {_describe(tensor)}")
    for name, tensor in found.items():
        if name not in expected:
            raise InvalidState(f"the {kind} {name} is unknown")
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InvalidState(f"the {kind} {name} has values that are not finite")


def require_step(step: Any, n_steps: int) -> None:
    """Refuse a step that the run does not have."""
    if type(step) is not int or not 0 <= step <= n_steps:
        raise InvalidState(f"its step is {step!r}, but the run has {n_steps} steps")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def below(tensors: Mapping[str, Tensor], prefix: str) -> Tensors:
    """Return the tensors whose names start with a prefix and a dot, without the prefix."""
    start = f"{prefix}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


def optimiser_tensors(module: TorchModule, optimiser: torch.optim.Optimizer) -> Tensors:
    """Return the state of an optimiser by parameter names. Parameter numbers could change between releases."""
    return {
        f"optimiser.{name}.{key}": value
        for name, parameter in module.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(module: TorchModule, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state of :func:`optimiser_tensors`. Parameters that never had a gradient have no state."""
    fused = {id(p): bool(group.get("fused")) for group in optimiser.param_groups for p in group["params"]}
    found = {name: below(tensors, f"optimiser.{name}") for name, _ in module.named_parameters()}
    kinds = {key for own in found.values() for key in own}
    for name, parameter in module.named_parameters():
        own = found[name]
        if own:
            expected = {key: own[key] if key == "step" and key in own else parameter.detach() for key in kinds}
            require_like(own, expected, f"optimiser state of {name}:")
            # The number of steps stays on the CPU, except for a fused optimiser.
            optimiser.state[parameter] = {
                key: value if key == "step" and not fused[id(parameter)] else value.to(parameter.device)
                for key, value in own.items()
            }


def random_tensors(device: torch.device) -> Tensors:
    """Return the states of torch's random number generators on the CPU and on the device."""
    tensors = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def restore_random(device: torch.device, tensors: Mapping[str, Tensor]) -> None:
    """Restore the states of :func:`random_tensors`."""
    torch.set_rng_state(tensors["torch"])
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"], device)


def save_state(loop: Loop, folder: Path, **more: Any) -> None:
    """Write the state of a loop between two steps, with ``more`` plain values.

    All processes must call this. The main process writes.
    """
    own = _random_values(), random_tensors(loop.take_step.device)
    randomness = gather_object([own]) if loop.accelerator.num_processes > 1 else [own]
    if not loop.accelerator.is_main_process:
        return
    tensors = {**_weights(loop), **optimiser_tensors(loop.model.network, loop.optimiser)}
    for process, (_, found) in enumerate(randomness):
        tensors |= {f"random.{process}.{name}": value for name, value in found.items()}
    values = {
        "standing": asdict(loop.loop_state),
        "n_averaged": 0 if loop.averaged is None else loop.averaged.n_steps,
        "shuffling": loop.shuffling.getstate(),
        "random": [found for found, _ in randomness],
        **more,
    }
    write_state(folder, loop.loop_state.step, tensors, values)


def load_state(loop: Loop, folder: Path) -> dict[str, Any] | None:
    """Restore a loop that was built from the same recipe. Return the values of the state, or None if there is none."""
    return read_state(folder, lambda state, tensors: _restore(loop, state, tensors))


def _restore(loop: Loop, state: Mapping[str, Any], tensors: Tensors) -> None:
    weights = below(tensors, "weights")
    expected = loop.model.network.state_dict()
    if weights.keys() == expected.keys():
        # In the stored shapes, so that only dtypes are compared: load_state_dict reports shapes that differ.
        like = {name: value.new_empty(()).expand(weights[name].shape) for name, value in expected.items()}
        require_like(weights, like, "weight")
    loop.model.network.load_state_dict(weights)
    loop.loop_state = _make_loop_state(state["standing"], loop)
    loop.schedule.go_to(loop.loop_state.step)
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
        # A process that did not exist before starts from its seed.
        seed_everything(loop.settings.seed + process)


def _make_loop_state(values: Mapping[str, Any], loop: Loop) -> LoopState:
    """Make the loop state from stored values, and refuse invalid values."""
    if missing := [field.name for field in fields(LoopState) if field.name not in values]:
        raise InvalidState(f"{missing[0]} is missing")
    loop_state = LoopState(**values)
    require_step(loop_state.step, loop.n_steps)
    for name in ("epoch", "seen", "stale"):
        value = getattr(loop_state, name)
        if type(value) is not int or value < 0:
            raise InvalidState(f"{name} is {value!r}, which is not a count")
    if loop_state.epoch > loop.settings.epochs:
        raise InvalidState(f"its epoch is {loop_state.epoch}, but the run has {loop.settings.epochs} epochs")
    epoch_size = loop.material.epoch_size(loop.settings.batch_size)
    known = range(loop.material.n_numbers)
    if (
        not isinstance(loop_state.order, list)
        or len(loop_state.order) != (epoch_size if loop_state.epoch else 0)
        or not all(type(number) is int and number in known for number in loop_state.order)
    ):
        raise InvalidState("the order of the sentences is not one of this run")
    if loop_state.seen > len(loop_state.order):
        raise InvalidState(f"{loop_state.seen} sentences of {len(loop_state.order)} in the epoch were seen")
    numbers = [loop_state.best, loop_state.seconds, *loop_state.sums]
    if len(loop_state.sums) != len(LOSS_PARTS) or not all(
        type(n) in (int, float) and math.isfinite(n) for n in numbers
    ):
        raise InvalidState("its losses, scores and times are not finite numbers")
    return loop_state


def _weights(loop: Loop) -> Tensors:
    found = {f"weights.{name}": value for name, value in loop.model.network.state_dict().items()}
    if loop.averaged is not None:
        found |= {f"average.{name}": value for name, value in loop.averaged.state().items()}
    return found


def _random_values() -> dict[str, Any]:
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {"python": random.getstate(), "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached]}


def _restore_random_values(values: Mapping[str, Any]) -> None:
    version, numbers, gauss = values["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = values["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
