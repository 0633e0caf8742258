"""Progress of an adaptation on the console."""

from contextlib import AbstractContextManager

from rich.console import Console

from cascade_srn.runs.display import Display, ProgressRow, duration, show_progress
from cascade_srn.training.adapt.settings import AdaptProgress


def display(console: Console) -> AbstractContextManager[Display[AdaptProgress]]:
    """Show an adaptation. On a terminal, perplexities are also printed above the bar."""
    return show_progress(console, _row)


def _row(progress: AdaptProgress) -> ProgressRow:
    return ProgressRow(
        "adapting",
        progress.step,
        progress.steps,
        "  ".join(_figures(progress)),
        line=line(progress),
        to_file=True,
        to_terminal=progress.perplexity is not None,
    )


def line(progress: AdaptProgress) -> str:
    """Return a progress report as one line."""
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
