"""What a machine has: cores and memory, with the limits of containers."""

import os
from collections.abc import Sequence
from pathlib import Path

from cascade_srn.errors import require

_CGROUP = Path("/sys/fs/cgroup")


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
