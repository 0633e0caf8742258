"""How many workers a machine has room for: cores, memory and GPUs, with the limits of containers."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cascade_srn.errors import CascadeError, ConfigError

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
_CGROUP = Path("/sys/fs/cgroup")


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
    # Imported here because the command line counts cores on each start.
    from cascade_srn.runs.processor import may_have_gpu
    from cascade_srn.model.folder import runs_light
    from cascade_srn.runs.device import find_device

    if device == "cpu" or (device == "auto" and not may_have_gpu()):
        return ["cpu"]
    if runs_light(model, device):
        find_device(device, model)
        return ["cpu"]
    import torch

    if device not in ("auto", "cuda"):
        return [str(find_device(device))]
    if device == "auto" and not torch.cuda.is_available():
        return ["cpu"]
    find_device(device)
    return [f"cuda:{number}" for number in range(torch.cuda.device_count())]


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def available_memory() -> int:
    """Return the number of bytes that this process may still use."""
    try:
        import psutil
    except ModuleNotFoundError as error:
        raise CascadeError("psutil is not installed", "Install it with pip install 'cascade-srn[corpus]'") from error

    available = int(psutil.virtual_memory().available)
    limits = [
        limit - (_read_numbers(used) or [0])[0]
        for folder in _cgroups("memory")
        for limits, used in (
            (folder / "memory.max", folder / "memory.current"),
            (folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes"),
        )
        for limit in (_read_numbers(limits) or [])[:1]
    ]
    return max(0, min([available, *limits]))


def _gpu_workers(devices: Sequence[str], cores: int, threads: int | None, weights: int) -> int:
    """Return the number of workers that cores and the memory of the GPUs have room for, the same on each GPU."""
    room = min(gpu_memory(device) for device in devices) // (_GPU_WORKER_BYTES + _MODEL_COPIES * weights)
    per_gpu = min(WORKERS_PER_GPU, room, cores // (threads or CORES_PER_GPU_WORKER) // len(devices))
    return max(1, per_gpu) * len(devices)


def gpu_memory(device: str) -> int:
    """Return the number of bytes of a GPU."""
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)


def _cpu_quota() -> float | None:
    """Return the smallest number of cores that the quotas of a container allow; None without a quota."""
    quotas = []
    for folder in _cgroups("cpu"):
        # Version 2 has both numbers in one file, version 1 has a file for each, and -1 for no quota.
        numbers = _read_numbers(folder / "cpu.max") or [
            *(_read_numbers(folder / "cpu.cfs_quota_us") or []),
            *(_read_numbers(folder / "cpu.cfs_period_us") or []),
        ]
        if len(numbers) == 2 and numbers[0] > 0 and numbers[1] > 0:
            quotas.append(numbers[0] / numbers[1])
    return min(quotas, default=None)


def _cgroups(controller: str) -> Sequence[Path]:
    """Return the folders of the cgroup of this process and of those above it, in version 2 and version 1."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    folders: dict[Path, None] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _CGROUP / controllers if controllers else _CGROUP
        place = root / path.lstrip("/")
        for folder in (place, *place.parents):
            if folder == _CGROUP.parent:
                break
            folders.setdefault(folder)
    return tuple(folders)


def _read_numbers(path: Path) -> list[int] | None:
    """Return the numbers in a file of a cgroup; None if it does not exist or says "max"."""
    try:
        return [int(word) for word in path.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return None
