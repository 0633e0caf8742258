"""``cascade-srn train``: train a model from a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cascade_srn.cli.failures import mark_reported
from cascade_srn.cli.options import Device, Jobs, Seeds
from cascade_srn.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from accelerate import Accelerator
    from rich.console import Console

    from cascade_srn.training.recipe import Recipe
    from cascade_srn.training.run import Run
    from cascade_srn.training.run_folder import Summary
    from cascade_srn.training.series import Series


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="YAML file with data, model and training settings.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Settings to override, such as training.epochs=5.", show_default=False
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the output folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the output folder.")] = False,
    seeds: Seeds = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Cross-validate: divide data.train into K parts, and train one model for each, which is its test set.",
            show_default=False,
        ),
    ] = None,
    jobs: Jobs = 1,
    raw: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="File (.txt, .jsonl, also compressed) or folder of raw text to learn from as well. Repeatable.",
            show_default=False,
        ),
    ] = None,
    field: Annotated[
        str, typer.Option(metavar="NAME", help="With --raw: field of JSON records that contains the text.")
    ] = "text",
    onnx: Annotated[
        bool, typer.Option("--onnx/--no-onnx", help="Add the form of the model that is fast on a CPU. Takes seconds.")
    ] = True,
    device: Device = "auto",
) -> None:
    """Train a model from a recipe and score it on dev and test.

    The output folder of the recipe holds the model (best/), the scores (summary.json), the log, the curves and the
    checkpoint for --resume.
    """
    from cascade_srn.runs.display import console_for
    from cascade_srn.runs.process import end_processes, make_accelerator
    from cascade_srn.training.display import describe_failure, describe_in_words, describe_scores
    from cascade_srn.training.recipe import load_recipe

    changes = [*(overrides or []), *([] if folds is None else [f"data.folds={folds}"])]
    loaded = load_recipe(recipe, changes)
    check_jobs(jobs, is_series=seeds is not None or _all_folds(loaded))
    processes = make_accelerator(device)
    console = console_for(is_main=processes.is_main_process)
    if jobs > 1 and processes.num_processes > 1:
        raise ConfigError(
            "--jobs cannot be used with accelerate launch, since it starts processes itself", "Use one of the two"
        )
    if raw:
        if seeds is not None:
            raise ConfigError("--raw trains one model, but --seeds was given", "Use one of the two")
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite were both given", "Use one of the two")
        series = None
        summaries: Sequence[Summary] = [_run_with_raw(loaded, raw, field, console, overwrite=overwrite, device=device)]
    elif (series := _make_series(loaded, seeds, processes, resume=resume, overwrite=overwrite)) is None:
        summaries = [_run(loaded, console, resume=resume, overwrite=overwrite, device=device)]
    elif jobs > 1:
        command = ["train", str(recipe), *changes]
        command += ["--device", device, *["--resume"] * resume, *["--overwrite"] * overwrite]
        summaries = _run_parallel(series, jobs, command, console, overwrite=overwrite)
    else:
        summaries = _run_series(series, console, resume=resume, overwrite=overwrite, device=device)
    kind = "seed" if series is None else series.name
    console.print(describe_scores(summaries, kind))
    if failure := describe_failure(summaries, kind):
        console.print(failure)
    if series is None:
        if words := describe_in_words(summaries[0]):
            console.print(words)
        if onnx and processes.is_main_process:
            _add_onnx(f"{loaded.output}/best", loaded.model.start, console)
    console.print(f"The model is in {loaded.output if series is None else f'{loaded.output}/{kind}-N'}/best")
    end_processes()


def _add_onnx(folder: str, start: str | None, console: Console) -> None:
    """Add the ONNX form to a trained model. A model that has none still runs on PyTorch."""
    from cascade_srn.errors import CascadeError

    try:
        from cascade_srn.training.export.run import add_light_files

        with console.status("Adding the ONNX form …"):
            add_light_files(folder, start=start)
    except (CascadeError, ImportError) as error:
        reason = error.problem if isinstance(error, CascadeError) else str(error)
        console.print(f"The model has no ONNX form and runs on PyTorch only ({reason}).")


def check_jobs(jobs: int, *, is_series: bool) -> None:
    """Reject ``--jobs`` for a single run."""
    if jobs > 1 and not is_series:
        raise ConfigError(
            f"--jobs {jobs} was given without --seeds, so there is one run only", "Pass --seeds or --folds as well"
        )


def _all_folds(recipe: Recipe) -> bool:
    return recipe.data.folds is not None and recipe.data.fold is None


def _make_series(
    recipe: Recipe, seeds: int | None, processes: Accelerator, *, resume: bool, overwrite: bool
) -> Series | None:
    """Return the series of runs that the options ask for, or None for a single run."""
    from cascade_srn.training.series import Folds
    from cascade_srn.training.series import Seeds as SeedRuns

    if seeds is not None:
        return SeedRuns(recipe, seeds, processes=processes, resume=resume, overwrite=overwrite)
    if _all_folds(recipe):
        return Folds(recipe, processes=processes, resume=resume, overwrite=overwrite)
    return None


def _run(recipe: Recipe, console: Console, *, resume: bool, overwrite: bool, device: str) -> Summary:
    """Train one model. If it is interrupted, print how to continue."""
    from cascade_srn.runs.process import make_accelerator, sigterm_as_exit
    from cascade_srn.training.display import train_with_display

    started: list[Run] = []
    processes = make_accelerator(device)
    # With several processes, one may wait for the others where no exception reaches it. Keep the default handler then.
    sigterm = sigterm_as_exit() if processes.num_processes == 1 else nullcontext()
    command = _resume_command(overwrite=overwrite)
    with (
        sigterm,
        _report_interrupt(
            lambda: _interrupt_message(started, recipe.output, command), is_main=processes.is_main_process
        ),
    ):
        return train_with_display(recipe, console, started, resume=resume, overwrite=overwrite, device=device)


def _run_with_raw(
    recipe: Recipe, texts: Sequence[str], field: str, console: Console, *, overwrite: bool, device: str
) -> dict[str, Any]:
    """Train one model with the help of raw text. The same command continues after an interruption."""
    from cascade_srn.runs.process import sigterm_as_exit
    from cascade_srn.training.display import stages_table
    from cascade_srn.training.raw import RawSettings, RawTraining

    started: list[RawTraining] = []
    command = f"the same command{' without --overwrite' * overwrite}"

    def message() -> str:
        stage = f"in stage {started[0].stage!r}" if started else "before the first stage"
        return f"Stopped {stage}. The stages are in {recipe.output}. Continue with {command}."

    with sigterm_as_exit(), _report_interrupt(message):
        settings = RawSettings(field=field)
        started.append(RawTraining(recipe, texts, settings, overwrite=overwrite, device=device, console=console))
        summary = started[0].run()
    console.print(stages_table(summary["stages"]))
    return summary


@contextmanager
def _report_interrupt(message: Callable[[], str], *, is_main: bool = True) -> Iterator[None]:
    """Print a message on standard error if the block is stopped by Ctrl-C or SIGTERM; in the main process only."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if is_main:
            typer.echo(message(), err=True)
        mark_reported(error)
        raise


def _resume_command(*, overwrite: bool) -> str:
    return f"the same command with --resume{' instead of --overwrite' * overwrite}"


def _interrupt_message(started: Sequence[Run], output: str, command: str) -> str:
    """Describe where a run was stopped, what is saved, and how to continue."""
    from cascade_srn.training.checkpoint import STATE_FILE

    if not started:
        return f"Stopped before the first step. Nothing was written to {output}."
    folder, loop = started[0].folder, started[0].loop
    model = f"The best model so far is in {folder.best}" if folder.best.is_dir() else f"{output} has no model yet"
    if (folder.last / STATE_FILE).is_file():
        further = f"Continue with {command}."
    else:
        further = f"No checkpoint was saved yet (training.save_every), so {command} starts again."
    return f"Stopped at step {loop.loop_state.step} of {loop.n_steps}. {model}. {further}"


def _run_series(series: Series, console: Console, *, resume: bool, overwrite: bool, device: str) -> Sequence[Summary]:
    """Train one model per seed or fold, without the finished ones, and return the summaries of all."""
    for each in series.to_run():
        console.print(f"{series.name.title()} {series.number(each)}:")
        _run(each, console, resume=resume, overwrite=overwrite, device=device)
    return series.finish()


def _run_parallel(
    series: Series, n_jobs: int, command: list[str], console: Console, *, overwrite: bool
) -> Sequence[Summary]:
    """Do the same as :func:`_run_series` in parallel processes. A failed run does not stop the others."""
    from cascade_srn.runs.children import run_parallel

    output, commands = series.recipe.output, {}
    for each in series.to_run():
        number = series.number(each)
        commands[f"{series.name}-{number}"] = [*command, f"{series.setting}={number}", f"output={each.output}"]
    console.print(f"{len(commands)} runs, {n_jobs} at a time. Their logs are {output}/{series.name}-N.log")
    failed = []
    stopped = f"Stopped. The runs are in {output}. Continue with {_resume_command(overwrite=overwrite)}."
    with _report_interrupt(lambda: stopped):
        for ended in run_parallel(commands, n_jobs, Path(output)):
            console.print(f"{ended.name}: exit code {ended.code} after {ended.seconds:.0f} s")
            failed += [ended] if ended.code else []
    if failed:
        first = failed[0]
        raise TrainingError(
            f"{len(failed)} of {len(commands)} runs failed, {first.name} with exit code {first.code} "
            f"({first.last_words})",
            "Fix the cause and continue with --resume",
        )
    return series.finish()
