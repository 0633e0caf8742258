"""Extraction as it is shown on a terminal: how far, how fast, how long still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from cascade_srn.extraction.run import Counts

_REFRESH = 0.2


@contextmanager
def display(n_bytes: int | None, *, shown: bool) -> Iterator[Callable[[Counts], None]]:
    """A function to be told of progress, which draws a bar on standard error where it is to be ``shown``."""
    if not shown:
        yield lambda counts: None
        return
    columns = (SpinnerColumn(), TextColumn("extracting"), BarColumn(), TextColumn("{task.fields[told]}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, refresh_per_second=1 / _REFRESH) as bar:
        task = bar.add_task("extracting", total=n_bytes or None, told="")
        start = last = time.monotonic()

        def update(counts: Counts) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _REFRESH:
                last = now
                bar.update(task, completed=counts.position, told=figures(counts, now - start, n_bytes))

        yield update


def figures(counts: Counts, seconds: float, n_bytes: int | None) -> str:
    """Rate and time left on one line."""
    parts = [
        f"{counts.documents:,} documents",
        f"{counts.documents / seconds:,.1f}/s" if seconds else "",
        f"{counts.words / seconds:,.0f} words/s" if seconds else "",
    ]
    if n_bytes and counts.position:
        left = seconds * max(0, n_bytes - counts.position) / counts.position
        parts.append(f"{_duration(left)} left")
    return "  ".join(part for part in parts if part)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
