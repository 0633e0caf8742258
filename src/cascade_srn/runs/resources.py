"""What a machine has: cores and memory with the limits of containers, CPU instructions, GPU drivers. No torch here."""

import os
import platform
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cascade_srn.errors import require

_CGROUP = Path("/sys/fs/cgroup")
# Instructions that decide how fast a model is, as Linux names them.
_OF_X86 = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
_OF_ARM = ("asimd", "asimddp", "i8mm", "bf16", "sve")
_WITH_BF16 = {"avx512_bf16", "amx_bf16", "bf16"}
_CPU_INFO = Path("/proc/cpuinfo")


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def available_memory() -> int:
    """Return the number of bytes that this process may still use."""
    available = int(require("psutil", extra="corpus").virtual_memory().available)
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


@cache
def cpu_name() -> str:
    """Return the name of the processor."""
    return _first_line("model name") or platform.processor() or platform.machine()


@cache
def cpu_instructions() -> tuple[str, ...]:
    """Return the instructions of the CPU that decide how fast a model is. Empty if the system does not tell."""
    found = set((_first_line("flags") or _first_line("Features")).split())
    return tuple(name for name in (*_OF_X86, *_OF_ARM) if name in found)


def lacks_bf16() -> bool:
    """Return whether the CPU is known to have no bf16 instructions. It then computes in bf16 slower than in float32."""
    return bool(cpu_instructions()) and not _WITH_BF16.intersection(cpu_instructions())


@cache
def installed_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    from importlib.metadata import PackageNotFoundError, version  # takes 20 ms, and only some commands need it

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def may_have_gpu() -> bool:
    """Return False if the system has no driver for GPUs, so that torch need not be imported to count them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    drivers = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
    return sys.platform == "win32" or any(map(os.path.exists, drivers))


def _first_line(key: str) -> str:
    """Return the first value of a key in Linux's description of the processor, or an empty string."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key)
    return next(values, "")
