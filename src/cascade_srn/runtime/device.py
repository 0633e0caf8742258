"""Where a model runs: its device, its threads, and places for several workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cascade_srn.errors import ConfigError
from cascade_srn.inference.options import PrecisionLike
from cascade_srn.model.folder import missing_for_torch, read_export, runs_light
from cascade_srn.runs.device import find_device
from cascade_srn.runs.resources import available_memory, count_cores, may_have_gpu

if TYPE_CHECKING:
    import torch

# Read by torch when it is imported, and by ONNX Runtime when a model is loaded.
_THREADS = "OMP_NUM_THREADS"
# Memory of a worker apart from the model: Python, torch, a shard with its documents, and the tensors of a batch.
_WORKER_BYTES = 1_500_000_000
# A model is read into memory and copied to its place.
_MODEL_COPIES = 2
WORKERS_PER_GPU = 8
"""Most workers for each GPU if their number is "auto". One keeps a fast GPU busy for a tenth of the time only."""
CORES_PER_GPU_WORKER = 2
"""A worker reads, segments and writes while it computes, so it uses more than one core."""
# Memory of a worker on its GPU apart from the model: the context of CUDA, its libraries, and the tensors of a batch.
_GPU_WORKER_BYTES = 3_000_000_000


def find_model_device(name: str, model: Path, precision: PrecisionLike = "auto") -> torch.device | str:
    """Return the device of the model in a folder, or its name if torch does not run it in this ``precision``."""
    if not runs_light(model, name, precision):
        return find_device(name)
    from cascade_srn.runtime.model import check_device

    check_device(name, is_exported=read_export(model) is not None)
    return name


def set_threads(
    n_threads: int, model: Path | None = None, device: str = "auto", precision: PrecisionLike = "auto"
) -> None:
    """Set the number of CPU threads, before the model in a folder is loaded. None: any model."""
    os.environ[_THREADS] = str(n_threads)
    if missing_for_torch() or (model is not None and runs_light(model, device, precision)):
        return
    import torch

    torch.set_num_threads(n_threads)


@contextmanager
def using_threads(
    n_threads: int, model: Path, device: str = "auto", precision: PrecisionLike = "auto"
) -> Iterator[None]:
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


class Slot(NamedTuple):
    """Place of one worker: its device and its CPU threads."""

    device: str
    n_threads: int


def choose_slots(workers: int | str, device: str, threads: int | None, *, model: Path, n_shards: int) -> list[Slot]:
    """Return the places of workers.

    Args:
        workers: Number of workers, or "auto". On CPUs, "auto" is the number of cores, and on GPUs half of it, at least
            one and at most eight for each GPU. There are fewer if memory or the number of shards is small.
        device: "auto", "cpu", "cuda" or "cuda:N".
        threads: Threads of each worker. None: the cores divided by the workers.
        model: Folder of the model.
        n_shards: Number of shards to process. There are no more workers than shards.
    """
    devices = find_devices(device, model)
    cores = count_cores()
    if workers == "auto":
        weights = sum(path.stat().st_size for path in model.iterdir() if path.is_file())
        most = cores // (threads or 1) if devices == ["cpu"] else _gpu_workers(devices, cores, threads, weights)
        workers = min(most, int(available_memory() // (_WORKER_BYTES + _MODEL_COPIES * weights)))
    elif isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ConfigError(f"workers is {workers!r}", "Give a number of at least 1, or auto", option="workers")
    n_workers = max(1, min(workers, n_shards))
    n_threads = max(1, cores // n_workers) if threads is None else threads
    return [Slot(devices[at % len(devices)], n_threads) for at in range(n_workers)]


def find_devices(device: str, model: Path) -> list[str]:
    """Return the devices that a setting stands for: all GPUs for "cuda" and, if there are any, for "auto".

    A model that runs without torch has only the CPU.
    """
    if device == "cpu" or (device == "auto" and not may_have_gpu()):
        return ["cpu"]
    if runs_light(model, device):
        find_model_device(device, model)
        return ["cpu"]
    import torch

    if device not in ("auto", "cuda"):
        return [str(find_device(device))]
    if device == "auto" and not torch.cuda.is_available():
        return ["cpu"]
    find_device(device)
    return [f"cuda:{number}" for number in range(torch.cuda.device_count())]


def _gpu_workers(devices: Sequence[str], cores: int, threads: int | None, weights: int) -> int:
    """Return the number of workers that cores and the memory of the GPUs have room for, the same on each GPU."""
    room = min(gpu_memory(device) for device in devices) // (_GPU_WORKER_BYTES + _MODEL_COPIES * weights)
    per_gpu = min(WORKERS_PER_GPU, room, cores // (threads or CORES_PER_GPU_WORKER) // len(devices))
    return max(1, per_gpu) * len(devices)


def gpu_memory(device: str) -> int:
    """Return the number of bytes of a GPU."""
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)
