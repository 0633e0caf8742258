"""Show the progress of labelling, and compare the scores of teachers and student."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from cascade_srn.runs.display import ProgressRow, duration, show_progress
from cascade_srn.training.display import add_sections
from cascade_srn.training.distil.labelling import Labelling, LabelProgress
from cascade_srn.training.run_folder import score_rows


@contextmanager
def display(console: Console) -> Iterator[Callable[[LabelProgress], None]]:
    """Show the progress of labelling in this block. Yields the function to call with each progress report."""
    with show_progress(console, _row) as shown:
        yield shown.progress


def _row(progress: LabelProgress) -> ProgressRow:
    is_done = progress.done == progress.total
    return ProgressRow(
        "labelling", progress.done, progress.total, _rate(progress), line=line(progress), to_file=is_done
    )


def line(progress: LabelProgress) -> str:
    """Return a progress report as one line."""
    return f"labelled {progress.done:,}/{progress.total:,} sentences  {_rate(progress)}"


def _rate(progress: LabelProgress) -> str:
    left = (progress.total - progress.done) / progress.per_second
    until = "done" if progress.done == progress.total else f"{duration(left)} left"
    return f"{progress.per_second:,.0f} sentences/s  {until}"


def opening(labelling: Labelling) -> str:
    """Return a sentence on the text and the sentences to label."""
    if labelling.selection is None:
        return f"Using the labels in {labelling.folder.path}, which were made with the same inputs."
    counts = labelling.selection.counts
    left_out = {
        "too short": counts.too_short,
        "too long": counts.too_long,
        "held out": counts.held_out,
        "repeated": counts.repeated,
        "not sampled": counts.not_sampled,
    }
    named = ", ".join(f"{count:,} {name}" for name, count in left_out.items() if count)
    return (
        f"{counts.documents:,} documents, {counts.sentences:,} sentences: {counts.labelled:,} to label"
        f"{f' ({named})' if named else ''}, by {len(labelling.teachers)} "
        f"{'teacher' if len(labelling.teachers) == 1 else 'teachers'}."
    )


def comparison(teacher: Mapping[str, Any], students: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with the F1 of the ensemble and of the student, or its mean and deviation over seeds."""
    table = Table("", "protocol", title="F1 of teacher and student", title_justify="left")
    table.add_column("teacher", justify="right")
    table.add_column("student", justify="right")
    both = zip(score_rows([teacher]), score_rows(students), strict=True)
    add_sections(table, [(*theirs[:2], theirs[-1], ours[-1]) for theirs, ours in both])
    return table
