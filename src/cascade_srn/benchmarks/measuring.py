"""What a benchmark found, with all that is needed to repeat it: a JSON file and a table."""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from cascade_srn.config import Settings
from cascade_srn.data.formats.files import replacing
from cascade_srn.inference.batching import give_back_freed
from cascade_srn.version import __version__

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


def measured_in_turns(
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


RESULTS = Path("benchmarks") / "results"

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of the table: its heading, and a row's value as it is shown there."""

    heading: str
    show: Callable[[Row], str]


@dataclass(frozen=True)
class Result:
    """The rows that a benchmark measured, and the settings and the machine it measured them with."""

    name: str
    device: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    rows: list[Row]
    columns: Sequence[Column]
    notes: tuple[str, ...] = ()
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def default_path(self) -> Path:
        """Where the result goes unless told otherwise."""
        return RESULTS / f"{self.name}-{self.device}.json"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "device": self.device,
            "settings": self.settings,
            "environment": self.environment,
            "notes": list(self.notes),
            "summary": self.summary,
            "rows": self.rows,
        }

    def save(self, path: str | Path | None = None) -> Path:
        """Write the JSON file, to the default path where none is given, and return the path."""
        target = self.default_path if path is None else Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as handle:
            handle.write(json.dumps(self.to_dict(), indent=2).encode() + b"\n")
        return target

    def table(self) -> Table:
        """The rows as a table for a terminal."""
        hardware = self.environment["gpu"] or self.environment["cpu"]
        table = Table(title=f"{self.name} on {hardware}", caption="\n".join(self.notes) or None)
        for i, column in enumerate(self.columns):
            table.add_column(column.heading, justify="left" if i == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(column.show(row) for column in self.columns))
        return table


def text(heading: str, key: str) -> Column:
    """A column of values as they are."""
    return Column(heading, lambda row: str(row[key]))


def milliseconds(heading: str, value: Callable[[Row], float | None]) -> Column:
    """A column of times; a row without one shows a dash."""
    return number(heading, lambda row: None if (found := value(row)) is None else 1000 * found, "{:.2f}")


def number(heading: str, value: Callable[[Row], float | None], form: str = "{:,.0f}") -> Column:
    """A column of numbers; a row without one shows a dash."""

    def show(row: Row) -> str:
        found = value(row)
        return "–" if found is None else form.format(found)

    return Column(heading, show)


def environment(device: torch.device, precision: str) -> dict[str, Any]:
    """The hardware, the versions and the command that a result was made with."""
    return {
        "cpu": _cpu_name(),
        "cores": _n_cores(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "precision": precision,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "versions": {
            "python": platform.python_version(),
            "cascade-srn": __version__,
            "torch": torch.__version__,
            "transformers": _version("transformers"),
            "triton": _version("triton"),
        },
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(sys.argv),
    }


def plain_settings(options: Settings) -> dict[str, Any]:
    """Options as they stand in a result: without the folders of this machine."""
    return {key: without_folders(v) if isinstance(v, str) else v for key, v in options.to_dict().items()}


def command_line(arguments: Sequence[str]) -> str:
    """A command as it can be shown elsewhere: folders of this machine are left out, the rest stands as it was."""
    program, *rest = arguments
    path = Path(program)
    named = f"python {path.parent.name}/{path.name}" if path.suffix == ".py" else path.name
    return " ".join([named, *(without_folders(argument) for argument in rest)])


def without_folders(argument: str) -> str:
    """An absolute path as ``…/name``; anything else unchanged."""
    option, equals, value = argument.rpartition("=")
    return f"{option}{equals}…/{Path(value).name}" if Path(value).is_absolute() else argument


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _n_cores() -> int:
    """The cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
