"""``cascade-srn train``: from a recipe to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.failures import mark_reported
from cascade_srn.errors import ConfigError, TrainingError
from cascade_srn.runs.process import sigterm_as_exit

if TYPE_CHECKING:
    from rich.console import Console

    from cascade_srn.training.recipe import Recipe
    from cascade_srn.training.run import Run
    from cascade_srn.training.run_folder import Summary


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A YAML file, such as recipes/scierc.yaml.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings to change, such as training.epochs=5.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the output folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the output folder.")] = False,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Train with the seeds 0 to N-1, and end with mean and deviation.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="With --seeds: so many at once, each in a process of its own.", min=1)
    ] = 1,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = "auto",
) -> None:
    """Train a model by a recipe, and score it.

    Everything goes to the recipe's output folder: the model in best/, the scores in summary.json, the log, the
    curves, and the state that --resume goes on from. docs/training.md explains recipes.
    """
    from cascade_srn.runs.display import console_for
    from cascade_srn.runs.process import end_processes, make_accelerator
    from cascade_srn.training.display import shown_failure, shown_scores
    from cascade_srn.training.recipe import load_recipe

    if jobs > 1 and seeds is None:
        raise ConfigError(f"--jobs {jobs} was given without --seeds; there is one run only: give --seeds as well")
    chosen = load_recipe(recipe, overrides or [])
    processes = make_accelerator(device)
    console = console_for(is_main=processes.is_main_process)
    if seeds is None:
        summaries: Sequence[Summary] = [_run(chosen, console, resume=resume, overwrite=overwrite, device=device)]
        where = f"{chosen.output}/best"
    elif jobs > 1:
        given = ["train", str(recipe), *(overrides or [])]
        given += ["--device", device, *["--resume"] * resume, *["--overwrite"] * overwrite]
        summaries = _run_parallel(chosen, seeds, jobs, given, console, resume=resume, overwrite=overwrite)
        where = f"{chosen.output}/seed-N/best"
    else:
        summaries = _run_seeds(chosen, seeds, console, resume=resume, overwrite=overwrite, device=device)
        where = f"{chosen.output}/seed-N/best"
    console.print(shown_scores(summaries), highlight=False)
    if failure := shown_failure(summaries):
        console.print(failure, highlight=False)
    console.print(f"The model is in {where}", highlight=False)
    end_processes()


def _run(recipe: Recipe, console: Console, *, resume: bool, overwrite: bool, device: str) -> Summary:
    """One run, shown; its summary. Stopped on the way, it says where, and how to go on."""
    from cascade_srn.runs.process import make_accelerator

    begun: list[Run] = []
    processes = make_accelerator(device)
    # Of several processes one may wait for the others where no exception reaches it; they end as they always do.
    ending = sigterm_as_exit() if processes.num_processes == 1 else nullcontext()
    go_on = _go_on(overwrite=overwrite)
    with ending, _telling(lambda: _stopped(begun, recipe.output, go_on), is_main=processes.is_main_process):
        return _run_to_its_end(recipe, console, begun, resume=resume, overwrite=overwrite, device=device)


def _run_to_its_end(
    recipe: Recipe, console: Console, begun: list[Run], *, resume: bool, overwrite: bool, device: str
) -> Summary:
    """The run goes to ``begun`` when it is ready to take steps."""
    from cascade_srn.training.corpus import known_checksums
    from cascade_srn.training.display import display
    from cascade_srn.training.run import Run
    from cascade_srn.training.run_folder import RunFolder

    folder = RunFolder(recipe.output)
    if resume and folder.is_finished:
        folder.check(recipe, resume=True, overwrite=overwrite)
        folder.refuse_other_data(known_checksums(recipe.data))
        console.print(f"The run in {recipe.output} is finished; there is nothing to resume.", highlight=False)
        return folder.read_summary()
    run = Run(recipe, resume=resume, overwrite=overwrite, device=device)
    begun.append(run)
    if run.resumed_at is None:
        console.print(str(run.preflight), highlight=False, markup=False)
    else:
        console.print(f"Resuming after step {run.resumed_at} of {run.loop.n_steps}.", highlight=False)
    with display(console) as shown:
        run.loop.on_step = shown.step
        for progress in run:
            shown.progress(progress)
    return folder.read_summary()


@contextmanager
def _telling(sentence: Callable[[], str], *, is_main: bool = True) -> Iterator[None]:
    """Print a sentence on stderr if the block is stopped by Ctrl-C or SIGTERM; in the main process only."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if is_main:
            typer.echo(sentence(), err=True)
        mark_reported(error)
        raise


def _go_on(*, overwrite: bool) -> str:
    """How to resume what this command began."""
    return f"the same command and --resume{' in the place of --overwrite' * overwrite}"


def _stopped(begun: Sequence[Run], output: str, go_on: str) -> str:
    """Where a run was stopped, what there is of it, and how to go on."""
    from cascade_srn.training.checkpoint import STATE_FILE

    if not begun:
        return f"Stopped before the first step; there is nothing new in {output}"
    folder, loop = begun[0].folder, begun[0].loop
    there = folder.best.is_dir()
    model = f"the best model so far is in {folder.best}" if there else f"there is no model in {output} yet"
    if (folder.last / STATE_FILE).is_file():
        further = f"go on with {go_on}"
    else:
        further = f"no state to go on from was saved yet (training.save_every), so that {go_on} begin it anew"
    return f"Stopped at step {loop.loop_state.step} of {loop.n_steps}; {model}; {further}"


def _run_seeds(
    recipe: Recipe, n_seeds: int, console: Console, *, resume: bool, overwrite: bool, device: str
) -> Sequence[Summary]:
    """A run for each seed, those that are finished left out when resuming; the summaries of all."""
    from cascade_srn.runs.process import make_accelerator
    from cascade_srn.training.seeds import Seeds

    series = Seeds(recipe, n_seeds, processes=make_accelerator(device), resume=resume, overwrite=overwrite)
    for each in series.to_run():
        console.print(f"Seed {each.training.seed}:", highlight=False)
        _run(each, console, resume=resume, overwrite=overwrite, device=device)
    return series.finish()


def _run_parallel(
    recipe: Recipe, n_seeds: int, n_jobs: int, command: list[str], console: Console, *, resume: bool, overwrite: bool
) -> Sequence[Summary]:
    """The same as :func:`_run_seeds`, several at once; what one cannot do does not stop the others."""
    from cascade_srn.runs.parallel import run_parallel
    from cascade_srn.runs.process import make_accelerator
    from cascade_srn.training.seeds import Seeds

    processes = make_accelerator("cpu")
    if processes.num_processes > 1:
        raise ConfigError("--jobs starts processes of its own; leave accelerate launch out, or --jobs")
    series = Seeds(recipe, n_seeds, processes=processes, resume=resume, overwrite=overwrite)
    commands = {
        f"seed-{each.training.seed}": [*command, f"training.seed={each.training.seed}", f"output={each.output}"]
        for each in series.to_run()
    }
    console.print(f"{len(commands)} runs, {n_jobs} at a time; their logs are {recipe.output}/seed-N.log")
    failed = []
    go_on = f"go on with {_go_on(overwrite=overwrite)}"
    with _telling(lambda: f"Stopped; what there is of the runs is in {recipe.output}; {go_on}"):
        for ended in run_parallel(commands, n_jobs, Path(recipe.output)):
            console.print(f"{ended.name}: exit code {ended.code} after {ended.seconds:.0f} s", highlight=False)
            failed += [ended] if ended.code else []
    if failed:
        first = failed[0]
        raise TrainingError(
            f"{len(failed)} of {len(commands)} runs failed, {first.name} with exit code {first.code} "
            f"({first.last_words}); mend that and go on with --resume"
        )
    return series.finish()
