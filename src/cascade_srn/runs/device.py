"""The device and precision of a run."""

from __future__ import annotations

import platform
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    import torch

# Torch knows more kinds of devices, but the package is not tested on them.
TYPES = ("cpu", "cuda")


def find_device(name: str) -> torch.device:
    """Return a device by name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``auto`` is the GPU if there is one."""
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


@contextmanager
def without_onednn(device: torch.device) -> Iterator[None]:
    """Do not use oneDNN in this block on ARM processors, if the CPU does the work.

    It prepares each new shape of a matrix product. The batches of a training rarely have the same shape twice, and a
    step with four sentences takes a third longer with it.
    """
    import torch

    if device.type != "cpu" or platform.machine() not in ("aarch64", "arm64"):
        yield
        return
    # Reading the flags warns about GPUs that are not there.
    with warnings.catch_warnings(action="ignore"):
        flags = torch.backends.mkldnn.flags(enabled=False)
        flags.__enter__()
    try:
        yield
    finally:
        with warnings.catch_warnings(action="ignore"):
            flags.__exit__(None, None, None)


_blas_lock = threading.Lock()
_blas_users, _blas_limit = 0, ExitStack()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let each matrix product of NumPy use one thread, in the whole process, as long as a thread is in such a block."""
    global _blas_users
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit.enter_context(_find_blas().limit(limits=1))
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.close()


@cache
def _find_blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
