"""The device, precision and threads of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, overload

from cascade_srn.errors import ConfigError
from cascade_srn.model.folder import missing_for_torch, read_export, runs_light

if TYPE_CHECKING:
    import torch

# Torch knows more kinds of devices, but the package is not tested on them.
TYPES = ("cpu", "cuda")
# Read by torch when it is imported, and by the light runtime when a model is loaded.
_THREADS = "OMP_NUM_THREADS"


@overload
def find_device(name: str) -> torch.device: ...


@overload
def find_device(name: str, model: Path, precision: str = "auto") -> torch.device | str: ...


def find_device(name: str, model: Path | None = None, precision: str = "auto") -> torch.device | str:
    """Return a device by name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``auto`` is the GPU if there is one.

    For the folder of a ``model`` that torch does not run in this ``precision``, the name is returned.
    """
    if model is not None and runs_light(model, name, precision):
        from cascade_srn.runtime.model import check_device

        check_device(name, is_exported=read_export(model) is not None)
        return name
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise _refuse(f"there is no device {name!r}", "auto, cpu, cuda or cuda:N") from None
    if device.type not in TYPES:
        raise _refuse(f"the device {name!r} is not supported", "auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise _refuse(f"the device {name!r} is not available, because torch finds no GPU", "cpu or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        n_gpus = torch.cuda.device_count()
        raise _refuse(
            f"the device {name!r} does not exist: torch finds {n_gpus} GPUs", f"auto, or cuda:N below {n_gpus}"
        )
    return device


def _refuse(problem: str, known: str) -> ConfigError:
    return ConfigError(problem, f"Give {known}", option="device")


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Round the factors of float32 matrix products to tf32 in this block, if the precision is "tf32"."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def set_threads(n_threads: int, model: Path | None = None, device: str = "auto", precision: str = "auto") -> None:
    """Set the number of CPU threads, before the model in a folder is loaded. None: any model."""
    os.environ[_THREADS] = str(n_threads)
    if missing_for_torch() or (model is not None and runs_light(model, device, precision)):
        return
    import torch

    torch.set_num_threads(n_threads)


@contextmanager
def using_threads(n_threads: int, model: Path, device: str = "auto", precision: str = "auto") -> Iterator[None]:
    """Use this number of CPU threads for a model that is loaded in this block."""
    given = os.environ.get(_THREADS)
    torch_threads = None
    if not runs_light(model, device, precision):
        import torch

        torch_threads = torch.get_num_threads()
    set_threads(n_threads, model, device, precision)
    try:
        yield
    finally:
        os.environ.pop(_THREADS)
        if given is not None:
            os.environ[_THREADS] = given
        if torch_threads is not None:
            torch.set_num_threads(torch_threads)


@contextmanager
def few_threads(device: torch.device) -> Iterator[None]:
    """Use one CPU thread in this block while a GPU does the work.

    The tensors that stay on the CPU are small, and distributing them costs more than computing them.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if device.type == "cuda" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
