"""Adapting as it is shown: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from cascade_srn.adapt.settings import AdaptProgress
from cascade_srn.training.display import duration


@dataclass(frozen=True)
class Display:
    """Shows an adaptation that is under way: its progress, and each of its steps."""

    progress: Callable[[AdaptProgress], None]
    step: Callable[[int], None] = lambda step: None


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """What suits the console; measurements stay, above the bar where there is one."""
    if not console.is_terminal:
        yield Display(lambda progress: console.print(line(progress), highlight=False))
        return
    columns = (TextColumn("adapting"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("adapting", total=None, told="")

        def show(progress: AdaptProgress) -> None:
            if progress.perplexity is not None:
                console.print(line(progress), highlight=False)
            bar.update(task, completed=progress.step, total=progress.steps, told="  ".join(_figures(progress)))

        yield Display(show, lambda step: bar.update(task, completed=step))


def line(progress: AdaptProgress) -> str:
    """A moment of adapting on one line."""
    return "  ".join([f"step {progress.step}/{progress.steps}", *_figures(progress)])


def _figures(progress: AdaptProgress) -> list[str]:
    parts = []
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.3f}")
    if progress.perplexity is not None:
        parts.append(f"held-out perplexity {progress.perplexity:,.2f}")
    if progress.step:
        parts.append(f"{progress.pieces_per_second:,.0f} pieces/s")
        parts.append("done" if progress.finished else f"{duration(progress.seconds_left)} left")
    return parts
