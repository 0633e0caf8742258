"""Progress and scores of training runs on the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.table import Table

from cascade_srn.runs.display import Display, Row, duration, show_progress
from cascade_srn.training.progress import Progress, reached
from cascade_srn.training.run_folder import found_nothing, rows


def display(console: Console) -> AbstractContextManager[Display[Progress]]:
    """Show a training run: a line for each epoch and evaluation, or a bar with the last scores on a terminal."""
    dev = ""

    def row(progress: Progress) -> Row:
        nonlocal dev
        if progress.dev is not None:
            dev = f"dev {100 * progress.dev.ner.counts.f1:.1f} / {100 * progress.dev.re_strict.counts.f1:.1f}"
        figures = f"loss {progress.parts['total']:.3f}", dev, f"{duration(progress.seconds_left)} left"
        return Row(
            f"epoch {progress.epoch}/{progress.epochs}",
            progress.step,
            progress.steps,
            "  ".join(filter(None, figures)),
            line=line(progress),
            to_file=progress.epoch_done or progress.dev is not None,
            to_terminal=progress.dev is not None,
        )

    return show_progress(console, row)


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
