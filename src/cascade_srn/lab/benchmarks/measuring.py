"""Measure time and memory in turns, report the progress, and write results as JSON and as a table.

A benchmark that is interrupted keeps the rows that it has.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from rich.table import Table

from cascade_srn.config import Settings
from cascade_srn.formats.files import replacing
from cascade_srn.inference.batching import release_freed_memory
from cascade_srn.runs.display import ProgressRow, duration
from cascade_srn.runs.environment import command_line, shareable
from cascade_srn.runs.environment import environment as runs_environment
from cascade_srn.runs.resources import cpu_instructions, cpu_name

T = TypeVar("T")

PERCENTILES = (50, 95, 99)
PACKAGES = ("cascade-srn", "torch", "transformers", "triton")


# Ctrl-C, and SIGTERM inside of ``sigterm_as_exit``.
INTERRUPTIONS = (KeyboardInterrupt, SystemExit)


class BenchmarkRun:
    """A benchmark in progress: it reports what is measured now, and keeps what was measured before an interruption.

    Attributes:
        rows: Rows that are complete, or as complete as they were when the benchmark was interrupted.
        interruption: The Ctrl-C or SIGTERM that ended the benchmark early, or None.

    Args:
        report: Called for each turn and each message. By default nothing is reported.
    """

    def __init__(self, report: Callable[[ProgressRow], None] | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.interruption: BaseException | None = None
        self._report = report
        self._what = ""
        self._started = time.monotonic()

    @property
    def is_partial(self) -> bool:
        """Whether the benchmark was interrupted."""
        return self.interruption is not None

    def step(self, what: str, turn: int = 0, n_turns: int | None = None, candidate: str = "") -> None:
        """Report what is measured next. A benchmark that was interrupted ends here."""
        if self.interruption is not None:
            raise self.interruption
        if self._report is None:
            return
        of = f"turn {turn} of {n_turns}" if n_turns else ""
        figures = ", ".join(filter(None, (of, candidate, duration(time.monotonic() - self._started))))
        is_new, self._what = what != self._what, what
        completed = max(0, turn - 1)
        self._report(ProgressRow(what, completed, n_turns, figures, f"{what}: {figures}", to_file=is_new))

    def result(
        self,
        name: str,
        device: torch.device,
        options: Settings,
        columns: Sequence[ResultColumn],
        notes: Sequence[str] = (),
        *,
        precision: str,
        summary: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Result:
        """Return the rows with the machine, and the options without folders of this machine.

        ``settings`` replace options of the same name.
        """
        used = {**shareable(options.to_dict()), **settings}
        machine = environment(device, precision)
        return Result(
            name, device.type, used, machine, self.rows, columns, tuple(notes), summary or {}, self.is_partial
        )

    def part(self, what: str, function: Callable[[], T]) -> T | None:
        """Return the result of a function, or None if the benchmark is or was interrupted.

        Used for columns without which a row is still worth keeping.
        """
        if self.interruption is None:
            try:
                self.step(what)
                return function()
            except INTERRUPTIONS as error:
                self.interruption = error  # the benchmark ends at its next step
        return None

    @contextmanager
    def collecting(self, kept: Sized | None = None) -> Iterator[None]:
        """End this block at an interruption, if there is something to keep: rows, or else ``kept``.

        Raises:
            KeyboardInterrupt, SystemExit: If there is nothing to keep.
        """
        try:
            yield
        except INTERRUPTIONS as error:
            self.interruption = error
            if not (self.rows if kept is None else kept):
                raise


@dataclass(frozen=True)
class Timing:
    """Times of repeated runs in seconds, in the order they were measured."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median time. Benchmarks report it because the mean follows every disturbance."""
        return float(np.median(self.times))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. Names end with the unit."""
        return {"median_s": self.median, "times_s": list(self.times)}

    def percentiles(self) -> dict[str, float]:
        """Return p50, p95 and p99 in seconds."""
        return {f"p{share}_s": float(np.percentile(self.times, share)) for share in PERCENTILES}


def synchronise(device: torch.device) -> None:
    """Wait until all work of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(function: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that one call takes, including the work that it leaves on the device."""
    synchronise(device)
    started = time.perf_counter()
    function()
    synchronise(device)
    return time.perf_counter() - started


def measure_in_turns(
    candidates: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    warmup: int = 1,
    device: torch.device,
    run: BenchmarkRun | None = None,
    what: str = "",
) -> dict[str, Timing]:
    """Time several functions in turns: A B A B …, not A A B B.

    A slowdown of the machine then affects all of them, and their ratios stay valid. At an interruption, the complete
    turns are returned if there are any. ``what`` is the name of the measurement for ``run``.
    """
    timed = {name: lambda f=function: seconds(f, device) for name, function in candidates.items()}
    found = take_turns(timed, repeats=repeats, warmup=warmup, run=run, what=what)
    return {name: Timing(tuple(taken)) for name, taken in found.items()}


def take_turns(
    candidates: Mapping[str, Callable[[], T]],
    *,
    repeats: int,
    warmup: int = 0,
    run: BenchmarkRun | None = None,
    what: str = "",
) -> dict[str, list[T]]:
    """Call several functions in turns, and return the results of all complete turns."""
    run = BenchmarkRun() if run is None else run
    for turn in range(warmup):
        for name, function in candidates.items():
            run.step(f"{what}, warm-up", turn + 1, warmup, name)
            function()
    found: dict[str, list[T]] = {name: [] for name in candidates}
    turns: list[dict[str, T]] = []
    with run.collecting(turns):
        for turn in range(repeats):
            taken: dict[str, T] = {}
            for name, function in candidates.items():
                run.step(what, turn + 1, repeats, name)
                taken[name] = function()
            turns.append(taken)
    for taken in turns:
        for name, value in taken.items():
            found[name].append(value)
    return found


@dataclass(frozen=True)
class Memory:
    """Peak memory of one run, in bytes."""

    peak: int  # Highest memory during the run
    before: int  # Memory at the start of the run, with models and other long-lived data
    kind: str  # "gpu allocated", "resident set", or "resident set since start" on systems that cannot reset the peak

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. Names end with the unit."""
        return {"peak_bytes": self.peak, "before_bytes": self.before, "kind": self.kind}


def peak_memory(function: Callable[[], object], device: torch.device) -> Memory:
    """Return the peak memory of the process or the GPU while a function runs."""
    if device.type == "cuda":
        synchronise(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        function()
        synchronise(device)
        return Memory(torch.cuda.max_memory_allocated(device), before, "gpu allocated")
    # Memory that earlier runs have freed does not belong to this one.
    gc.collect()
    release_freed_memory()
    was_reset = _reset_resident_peak()
    before = _resident_peak()
    function()
    return Memory(_resident_peak(), before, "resident set" if was_reset else "resident set since start")


def _reset_resident_peak() -> bool:
    """Reset the peak of the resident set to its present size; only Linux can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    peak, held = _status("VmHWM:"), _status("VmRSS:")
    # Some kernels accept the request and ignore it.
    return peak is not None and held is not None and peak - held < 1 << 22


def _resident_peak() -> int:
    found = _status("VmHWM:")
    if found is not None:
        return found
    import resource  # not available on Windows

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


RESULTS = Path("benchmarks") / "results"

ResultRow = dict[str, Any]


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result table: its heading, and a function that formats the value of a row."""

    heading: str
    show: Callable[[ResultRow], str]


@dataclass(frozen=True)
class Result:
    """The measurements of a benchmark, with its settings and the machine."""

    name: str
    device: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    rows: list[ResultRow]
    columns: Sequence[ResultColumn]
    notes: tuple[str, ...] = ()
    summary: dict[str, Any] = field(default_factory=dict)
    # Whether the benchmark was interrupted, and rows are missing or have fewer turns.
    partial: bool = False

    @property
    def default_path(self) -> Path:
        """Default path of the JSON file. A partial result does not replace a complete one."""
        return RESULTS / f"{self.name}-{self.device}{'-partial' if self.partial else ''}.json"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "device": self.device,
            "settings": self.settings,
            "environment": self.environment,
            "notes": list(self.notes),
            "summary": self.summary,
            "partial": self.partial,
            "rows": self.rows,
        }

    def save(self, path: str | Path | None = None) -> Path:
        """Write the JSON file and return its path."""
        target = self.default_path if path is None else Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as handle:
            handle.write(json.dumps(self.to_dict(), indent=2).encode() + b"\n")
        return target

    def table(self) -> Table:
        """Return the rows as a table for a terminal."""
        hardware = self.environment["gpu"] or self.environment["cpu"]
        title = f"{self.name} on {hardware}" + (" (partial, because it was interrupted)" if self.partial else "")
        table = Table(title=title, caption="\n".join(self.notes) or None)
        for i, column in enumerate(self.columns):
            table.add_column(column.heading, justify="left" if i == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(column.show(row) for column in self.columns))
        return table


def text(heading: str, key: str) -> ResultColumn:
    """Return a column of plain values."""
    return ResultColumn(heading, lambda row: str(row[key]))


def latencies(
    *names: str, suffix: str = "", of: Callable[[ResultRow], Any] = itemgetter("latency")
) -> list[ResultColumn]:
    """Return columns of percentiles such as "p50". Rows without a latency show dashes."""

    def column(name: str) -> ResultColumn:
        return milliseconds(f"{name}{suffix}, ms", lambda row: (of(row) or {}).get(f"{name}_s"))

    return [column(name) for name in names]


def peak() -> ResultColumn:
    """Return the column of the peak memory."""
    return number("peak, MiB", lambda row: row["memory"] and row["memory"]["peak_bytes"] / 2**20)


def milliseconds(heading: str, value: Callable[[ResultRow], float | None]) -> ResultColumn:
    """Return a column of times. Rows without a time show a dash."""
    return number(heading, lambda row: None if (found := value(row)) is None else 1000 * found, "{:.2f}")


def number(heading: str, value: str | Callable[[ResultRow], float | None], form: str = "{:,.0f}") -> ResultColumn:
    """Return a column of numbers, by their key or by a function. Rows without a number show a dash."""

    def show(row: ResultRow) -> str:
        found = row[value] if isinstance(value, str) else value(row)
        return "–" if found is None else form.format(found)

    return ResultColumn(heading, show)


def environment(device: torch.device, precision: str) -> dict[str, Any]:
    """Return the hardware, the versions and the command of this process. "auto" is replaced by what it stands for."""
    found = runs_environment(device)
    if precision == "auto":
        precision = "bf16" if device.type == "cuda" else "float32"
    return {
        "cpu": cpu_name(),
        "instructions": list(cpu_instructions()),
        **{key: found[key] for key in ("cores", "threads", "gpu")},
        "precision": precision,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "versions": {"python": found["python"]} | {name: found["packages"][name] for name in PACKAGES},
        "system": found["system"],
        "date": found["started"],
        "command": command_line(),
    }
