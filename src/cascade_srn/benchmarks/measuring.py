"""Time and memory: synchronised with the device, candidates taken in turns so that drift hits all of them."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cascade_srn.memory import give_back_freed

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Timing:
    """The times of repeated runs, in seconds, in the order they were taken."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the times: what is reported, since the mean follows every disturbance."""
        return self.percentile(50)

    def percentile(self, share: float) -> float:
        """The time that ``share`` percent of the runs stay within."""
        return percentile(self.times, share)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the unit in each name."""
        return {"median_s": self.median, "times_s": list(self.times)}

    def percentiles(self) -> dict[str, float]:
        """p50, p95 and p99 in seconds."""
        return {f"p{share}_s": self.percentile(share) for share in PERCENTILES}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` percent of the values do not exceed, interpolated between neighbours."""
    if not values:
        raise ValueError("percentiles of no values were asked for; measure at least once")
    return float(np.percentile(values, share))


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(function: Callable[[], object], device: torch.device) -> float:
    """How long one call takes, from an idle device until the device is idle again."""
    synchronise(device)
    started = time.perf_counter()
    function()
    synchronise(device)
    return time.perf_counter() - started


def side_by_side(
    candidates: Mapping[str, Callable[[], object]], *, repeats: int, warmup: int = 1, device: torch.device
) -> dict[str, Timing]:
    """The times of several functions, called in turns: A B A B …, never A A B B.

    What slows the machine down for a while (heat, a neighbour) then falls on all of them, and their ratios hold.
    """
    if repeats < 1:
        raise ValueError(f"repeats is {repeats}; measure at least once")
    for _ in range(warmup):
        for function in candidates.values():
            seconds(function, device)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, function in candidates.items():
            times[name].append(seconds(function, device))
    return {name: Timing(tuple(taken)) for name, taken in times.items()}


@dataclass(frozen=True)
class Memory:
    """Peak memory of one run, in bytes.

    ``kind`` says of what: "gpu allocated", "resident set" or, where the kernel lets nobody reset the peak,
    "resident set since start", which can only rise from one run to the next. ``before`` is what was taken when
    the run began: models and everything else that lives longer than the run.
    """

    peak: int
    before: int
    kind: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the unit in each name."""
        return {"peak_bytes": self.peak, "before_bytes": self.before, "kind": self.kind}


def peak_memory(function: Callable[[], object], device: torch.device) -> Memory:
    """The most memory that was in use while a function ran."""
    if device.type == "cuda":
        synchronise(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        synchronise(device)
        return Memory(torch.cuda.max_memory_allocated(device), before, "gpu allocated")
    # What earlier runs have freed is not this one's.
    gc.collect()
    give_back_freed()
    was_reset = _reset_resident_peak()
    before = _resident_peak()
    function()
    return Memory(_resident_peak(), before, "resident set" if was_reset else "resident set since start")


def _reset_resident_peak() -> bool:
    """Lower the process's high-water mark to what it holds now; Linux alone can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    peak, held = _status("VmHWM:"), _status("VmRSS:")
    # Some kernels take the request and do nothing.
    return peak is not None and held is not None and peak - held < 1 << 22


def _resident_peak() -> int:
    found = _status("VmHWM:")
    if found is not None:
        return found
    import resource  # where it is used: Windows has none

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)
