"""Progress of a long job on the console: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

# Seconds of silence after which a line is printed in any case, and between two updates of a bar.
_MAX_SILENCE, _REFRESH = 60.0, 0.5
_FILE_WIDTH = 120

P = TypeVar("P")


@dataclass(frozen=True)
class ProgressRow:
    """One progress report of a job."""

    title: str  # Text before the bar
    completed: int  # Number of steps or items that are done
    total: int | None  # Number of steps or items; None if it is not known
    figures: str  # Text after the bar, such as the loss and the time left
    line: str = ""  # The report as a line of its own
    to_file: bool = False  # Whether a file gets the line at once. Otherwise it gets one a minute
    to_terminal: bool = False  # Whether the line is printed above the bar


class Display(Generic[P]):
    """Shows the progress reports of a job."""

    def __init__(self, console: Console, row: Callable[[P], ProgressRow], bar: Progress | None) -> None:
        self.console, self.row, self.bar = console, row, bar
        self._task = None if bar is None else bar.add_task("starting", total=None, figures="")
        self._last_step, self._last_line = 0.0, time.monotonic()

    def step(self, step: int) -> None:
        """Move the bar. Most calls do nothing, because steps can be very short."""
        now = time.monotonic()
        if self.bar is not None and self._task is not None and now - self._last_step > _REFRESH:
            self.bar.update(self._task, completed=step)
            self._last_step = now

    def progress(self, progress: P) -> None:
        """Show a progress report."""
        row, now = self.row(progress), time.monotonic()
        if self.bar is None or self._task is None:
            due = row.to_file or now - self._last_line > _MAX_SILENCE
        else:
            due = row.to_terminal
            self.bar.update(
                self._task, description=row.title, completed=row.completed, total=row.total, figures=row.figures
            )
            if not self.bar.live.auto_refresh and now - self._last_step > _REFRESH:
                self.bar.refresh()
                self._last_step = now
        if due:
            self.console.print(row.line, highlight=False)
            self._last_line = now


@contextmanager
def show_progress(
    console: Console, row: Callable[[P], ProgressRow], *, counts: bool = True, in_background: bool = True
) -> Iterator[Display[P]]:
    """Show the progress of a job in this block.

    Args:
        console: Where to show it.
        row: Describes a progress report.
        counts: Whether to show the numbers of completed and of all steps.
        in_background: Whether a thread redraws the bar. Without it, the bar is drawn between steps only, so that it
            does not disturb measurements.
    """
    if not console.is_terminal:
        yield Display(console, row, None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    numbers = (MofNCompleteColumn(),) if counts else ()
    columns = (TextColumn("{task.description}"), BarColumn(), *numbers, TextColumn("{task.fields[figures]}"))
    with Progress(
        *columns, console=console, refresh_per_second=1 / _REFRESH, transient=True, auto_refresh=in_background
    ) as bar:
        yield Display(console, row, bar)


@contextmanager
def show_status(text: str) -> Iterator[None]:
    """Show a line with a spinner on standard error during this block, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(text)):
        yield


def console_for(*, is_main: bool) -> Console:
    """Return the console of a process, which prints text unchanged. Only the main process prints."""
    from rich.console import Console

    options: dict[str, Any] = {"soft_wrap": True, "quiet": not is_main, "highlight": False, "markup": False}
    console = Console(**options)
    return console if console.is_terminal else Console(**options, width=_FILE_WIDTH)


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits its length, such as ``12 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
