"""Progress and scores of training runs on the console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from cascade_srn.runs.display import Display, ProgressRow, duration, show_progress
from cascade_srn.storage.atomic import clean_leftovers
from cascade_srn.training.corpus import compute_checksums
from cascade_srn.training.progress import TrainingProgress, selection_score
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.run_folder import TASKS, RunFolder, Summary, score_rows

if TYPE_CHECKING:
    from cascade_srn.training.run import Run


def display(console: Console) -> AbstractContextManager[Display[TrainingProgress]]:
    """Show a training run: a line for each epoch and evaluation, or a bar with the last scores on a terminal."""
    dev = ""

    def row(progress: TrainingProgress) -> ProgressRow:
        nonlocal dev
        if progress.dev is not None:
            dev = f"dev {100 * progress.dev.ner.counts.f1:.1f} / {100 * progress.dev.re_strict.counts.f1:.1f}"
        figures = f"loss {progress.parts['total']:.3f}", dev, f"{duration(progress.seconds_left)} left"
        return ProgressRow(
            f"epoch {progress.epoch}/{progress.epochs}",
            progress.step,
            progress.steps,
            "  ".join(filter(None, figures)),
            line=line(progress),
            to_file=progress.epoch_done or progress.dev is not None,
            to_terminal=progress.dev is not None,
        )

    return show_progress(console, row)


def train_with_display(
    recipe: Recipe,
    console: Console,
    started: list[Run] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> Summary:
    """Train one model and show its progress. The run is appended to ``started`` before its first step."""
    from cascade_srn.training.run import Run

    folder = RunFolder(recipe.output)
    if resume and folder.is_finished:
        folder.check(recipe, resume=True, overwrite=overwrite)
        folder.refuse_other_data(compute_checksums(recipe.data))
        clean_leftovers(folder.path)  # a kill right after the summary leaves an empty one
        console.print(f"The run in {recipe.output} is finished; there is nothing to resume.")
        return folder.read_summary()
    run = Run(recipe, resume=resume, overwrite=overwrite, device=device)
    if started is not None:
        started.append(run)
    if run.resumed_at is None:
        console.print(str(run.preflight))
    else:
        console.print(f"Resuming after step {run.resumed_at} of {run.loop.n_steps}.")
    with display(console) as shown:
        run.loop.on_step = shown.step
        for progress in run:
            shown.progress(progress)
    return folder.read_summary()


def line(progress: TrainingProgress) -> str:
    """Return a progress report as one line."""
    parts = [
        f"epoch {progress.epoch}/{progress.epochs}",
        f"step {progress.step}/{progress.steps}",
        f"loss {progress.parts['total']:.3f}",
    ]
    if progress.dev is not None:
        ner, strict = progress.dev.ner.counts.f1, progress.dev.re_strict.counts.f1
        best = " (best so far)" if progress.best and selection_score(progress.dev) else ""
        parts.append(f"dev: NER {100 * ner:.1f}, RE strict, {progress.dev.symmetric} {100 * strict:.1f}{best}")
    parts.append(f"{progress.words_per_second:,.0f} words/s")
    parts.append("done" if progress.finished else f"{duration(progress.seconds_left)} left")
    return "  ".join(parts)


def describe_scores(summaries: Sequence[Mapping[str, Any]], kind: str = "seed") -> Table | str:
    """Return the table of scores, or a sentence if there are none. ``kind`` is what several runs differ in."""
    if score_rows(summaries):
        return scores_table(summaries, kind)
    return (
        "There are no scores, because neither data.dev nor data.test is given. Use cascade-srn evaluate to score the "
        "model on other documents."
    )


def describe_failure(summaries: Sequence[Mapping[str, Any]], kind: str = "seed") -> str:
    """Return advice for runs that ended with a score of 0 on dev, or an empty string if there are none."""
    failed = [
        str(number if kind == "fold" else summary["seed"])
        for number, summary in enumerate(summaries)
        if "dev" in summary and not any(summary["dev"][task]["micro"]["f1"] for task in TASKS)
    ]
    if not failed:
        return ""
    which = f" with {kind}{'s' * (len(failed) > 1)} {', '.join(failed)}" if len(summaries) > 1 else ""
    return (
        f"No prediction on dev{which} is correct. Train longer (training.epochs), raise training.learning_rate and "
        "training.encoder_learning_rate, or lower model.thresholds, for example with cascade-srn calibrate."
    )


# Annotations of a label from which more of it do not help most.
_FEW_EXAMPLES = 20
# Sentences from which raw text helps more than a few more annotations.
_MANY_SENTENCES = 500


def describe_in_words(summary: Mapping[str, Any]) -> str:
    """Say what the scores of a run mean, and what would help most. Empty without scores."""
    split = next((name for name in ("test", "dev") if name in summary), None)
    if split is None:
        return ""
    parts = [
        f"Of ten {what} that the model reports, {_of_ten(found['precision'])} right; "
        f"of ten in the text it finds {_of_ten(found['recall'], verb='')}."
        for what, found in (
            ("entities", summary[split]["ner"]["micro"]),
            ("relations", summary[split]["re_strict"]["micro"]),
        )
        if found["n_gold"]
    ]
    train = summary["data"]["train"]
    rare = [f"{label} ({count})" for label, count in train["by_label"].items() if count < _FEW_EXAMPLES][::-1]
    if rare:
        more = f", and {len(rare) - 5} more" if len(rare) > 5 else ""
        parts.append(f"More annotations of rare labels would help most: {', '.join(rare[:5])}{more}.")
    elif train["sentences"] < _MANY_SENTENCES:
        parts.append(f"More annotated sentences than these {train['sentences']} would help most.")
    else:
        parts.append("More sentences help little now; raw text of the same kind may (cascade-srn train --raw).")
    if split == "dev":
        parts.append("Thresholds were chosen on dev as well, so scores on other text are a little lower.")
    return " ".join(parts)


def _of_ten(share: float, verb: str = " are") -> str:
    number = round(10 * share)
    if number == 0:
        return f"none{verb}"
    if number == 1:
        return "one is" if verb else "one"
    return f"{number if number < 10 else 'nearly all'}{verb}"


def scores_table(summaries: Sequence[Mapping[str, Any]], kind: str = "seed") -> Table:
    """Return a table of precision, recall and F1 of one run, or of their mean and deviation over several runs."""
    title = None if len(summaries) == 1 else f"mean ± standard deviation over {len(summaries)} {kind}s"
    table = Table("", "protocol", title=title, title_justify="left")
    for heading in ("precision", "recall", "F1"):
        table.add_column(heading, justify="right")
    _add_sections(table, score_rows(summaries))
    return table


def comparison_table(teacher: Mapping[str, Any], students: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with the F1 of the teachers and of the student, or its mean and deviation over seeds."""
    table = Table("", "protocol", title="F1 of teacher and student", title_justify="left")
    table.add_column("teacher", justify="right")
    table.add_column("student", justify="right")
    both = zip(score_rows([teacher]), score_rows(students), strict=True)
    _add_sections(table, [(*theirs[:2], theirs[-1], ours[-1]) for theirs, ours in both])
    return table


def stages_table(stages: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table of the stages of a training with raw text: F1 on dev before and after each, and what was kept."""
    table = Table("stage", title="F1 on dev by stage", title_justify="left")
    for heading in ("NER", "RE strict"):
        table.add_column(heading, justify="right")
    table.add_column("")
    best: Mapping[str, Any] | None = None
    for stage in stages:
        if stage["skipped"]:
            table.add_row(stage["name"], "", "", f"skipped: {stage['skipped']}")
            continue
        cells = [
            f"{100 * stage[task]:.1f}" if best is None else f"{100 * best[task]:.1f} → {100 * stage[task]:.1f}"
            for task in ("ner", "re_strict")
        ]
        table.add_row(stage["name"], *cells, "" if best is None else "kept" if stage["kept"] else "no gain, undone")
        best = stage if stage["kept"] else best
    return table


def _add_sections(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Add rows to a table, with a section for each first cell, which is shown once."""
    previous = None
    for first, *cells in rows:
        if previous is not None and first != previous:
            table.add_section()
        table.add_row(first if first != previous else "", *cells)
        previous = first
