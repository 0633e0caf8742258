"""Runs as they are shown: a progress bar on a terminal, plain lines elsewhere, the scores at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from cascade_srn.training.progress import Progress, reached
from cascade_srn.training.run_folder import found_nothing, rows

# Seconds without a word after which a line is due all the same, and between two movements of a bar.
_PATIENCE, _REFRESH = 60.0, 0.5
_FILE_WIDTH = 120


class Display(Protocol):
    """Shows a run that is under way."""

    def step(self, step: int) -> None:
        """A step was taken."""

    def progress(self, progress: Progress) -> None:
        """There is something to tell."""


class Lines:
    """A line for each epoch and each evaluation, and one a minute in between."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last = time.monotonic()

    def step(self, step: int) -> None:
        """Lines wait for something to tell."""

    def progress(self, progress: Progress) -> None:
        """Print a line where one is due."""
        now = time.monotonic()
        if progress.epoch_done or progress.dev is not None or now - self._last > _PATIENCE:
            self.console.print(line(progress), highlight=False)
            self._last = now


class ProgressBar:
    """A bar with the loss, the last scores and the time left; evaluations are printed above it."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.task = bar.add_task("starting", total=None, loss="", dev="", left="")
        self._last = 0.0

    def step(self, step: int) -> None:
        """Move the bar, but not at every step: steps can be very short."""
        now = time.monotonic()
        if now - self._last > _REFRESH:
            self.bar.update(self.task, completed=step)
            self._last = now

    def progress(self, progress: Progress) -> None:
        """Show loss, scores and time left."""
        shown: dict[str, Any] = {
            "description": f"epoch {progress.epoch}/{progress.epochs}",
            "loss": f"loss {progress.parts['total']:.3f}",
            "left": f"{duration(progress.seconds_left)} left",
        }
        if progress.dev is not None:
            shown["dev"] = f"dev {100 * progress.dev.ner.counts.f1:.1f} / {100 * progress.dev.re_strict.counts.f1:.1f}"
            self.bar.console.print(line(progress), highlight=False)
        self.bar.update(self.task, completed=progress.step, total=progress.steps, **shown)


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """What suits the console."""
    if not console.is_terminal:
        yield Lines(console)
        return
    fields = [TextColumn(f"{{task.fields[{name}]}}") for name in ("loss", "dev", "left")]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *fields)
    with Bar(*columns, console=console, refresh_per_second=1 / _REFRESH, transient=True) as bar:
        yield ProgressBar(bar)


def console_for(*, is_main: bool) -> Console:
    """Where to show things; processes beside the main one keep quiet."""
    console = Console(soft_wrap=True, quiet=not is_main)
    # What goes to a file has no window that could be widened.
    return console if console.is_terminal else Console(soft_wrap=True, quiet=not is_main, width=_FILE_WIDTH)


def line(progress: Progress) -> str:
    """A moment of training on one line."""
    parts = [
        f"epoch {progress.epoch}/{progress.epochs}",
        f"step {progress.step}/{progress.steps}",
        f"loss {progress.parts['total']:.3f}",
    ]
    if progress.dev is not None:
        ner, strict = progress.dev.ner.counts.f1, progress.dev.re_strict.counts.f1
        best = " (best so far)" if progress.best and reached(progress.dev) else ""
        parts.append(f"dev: NER {100 * ner:.1f}, RE strict, {progress.dev.symmetric} {100 * strict:.1f}{best}")
    parts.append(f"{progress.words_per_second:,.0f} words/s")
    parts.append("done" if progress.finished else f"{duration(progress.seconds_left)} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shown_scores(summaries: Sequence[Mapping[str, Any]]) -> Table | str:
    """The table of the scores, or a sentence where there are none."""
    if rows(summaries):
        return scores_table(summaries)
    return (
        "There are no scores, because there are neither dev nor test documents (data.dev, data.test); cascade-srn "
        "evaluate scores a model on others."
    )


def shown_failure(summaries: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where runs ended with a score of 0 on dev; empty where each found something."""
    seeds = [str(summary["seed"]) for summary in summaries if found_nothing(summary)]
    if not seeds:
        return ""
    which = f" with the seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" if len(summaries) > 1 else ""
    return (
        f"Nothing that was predicted on dev{which} is right; train longer (training.epochs), raise "
        "training.learning_rate and training.encoder_learning_rate, or lower model.thresholds, which cascade-srn "
        "calibrate does for a model that is there."
    )


def scores_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """Precision, recall and F1 of one run, or their mean and deviation over several."""
    title = None if len(summaries) == 1 else f"mean ± standard deviation over {len(summaries)} seeds"
    table = Table("", "protocol", title=title, title_justify="left")
    for heading in ("precision", "recall", "F1"):
        table.add_column(heading, justify="right")
    previous = None
    for split, *cells in rows(summaries):
        if previous is not None and split != previous:
            table.add_section()
        table.add_row(split if split != previous else "", *cells)
        previous = split
    return table
