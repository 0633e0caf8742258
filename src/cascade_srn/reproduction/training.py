"""Training what is missing: the ordinary runs of a plan, one after the other or several at once."""

from __future__ import annotations

import gc
from pathlib import Path

import torch
from rich.console import Console

from cascade_srn.errors import ConfigError, TrainingError
from cascade_srn.reproduction.plan import Plan, PlannedRun
from cascade_srn.training.display import display, duration
from cascade_srn.training.run import Run
from cascade_srn.training.seeds import Seeds
from cascade_srn.training.side_by_side import side_by_side
from cascade_srn.training.start import make_accelerator

LOGS = "logs"


def train_missing(plan: Plan, console: Console, *, command: str) -> int:
    """Train the runs of a plan that are not finished, and return how many they were.

    Each variant that something was trained of gets its ``seeds.json``, as ``cascade-srn train --seeds`` writes it, with
    the command that asked for all of it.
    """
    processes = make_accelerator("cpu")
    if processes.num_processes > 1:
        raise ConfigError("reproduce starts processes of its own by --jobs; leave accelerate launch out")
    missing = plan.missing
    if not missing:
        return 0
    touched = dict.fromkeys(run.variant for run in missing)
    series = [Seeds(plan.series[name], plan.options.n_seeds, processes=processes, resume=True) for name in touched]
    if plan.options.jobs > 1:
        _side_by_side(plan, missing, console)
    else:
        for number, run in enumerate(missing, start=1):
            _one(run, f"{run.name} ({number} of {len(missing)})", console, device=plan.options.device)
    for seeds in series:
        seeds.finish(command)
    return len(missing)


def _one(planned: PlannedRun, title: str, console: Console, *, device: str) -> None:
    """Train one run here; a bar on a terminal, a line elsewhere."""
    run = Run(planned.recipe, resume=True, device=device, command=planned.command)
    if console.is_terminal:
        console.print(title, highlight=False, markup=False)
        with display(console) as shown:
            run.loop.on_step = shown.step
            for progress in run:
                shown.progress(progress)
    else:
        for _ in run:
            pass
    console.print(f"{title}: trained in {duration(run.loop.standing.seconds)}", highlight=False, markup=False)
    # The next run wants the memory.
    del run
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _side_by_side(plan: Plan, missing: list[PlannedRun], console: Console) -> None:
    """Train several at once; what one cannot do does not stop the others."""
    n_jobs, logs = plan.options.jobs, Path(plan.options.output) / LOGS
    console.print(
        f"{len(missing)} runs, {n_jobs} at a time; their logs are {logs}/NAME.log", highlight=False, markup=False
    )
    failed = []
    for number, ended in enumerate(side_by_side({run.name: run.arguments for run in missing}, n_jobs, logs), start=1):
        told = "trained" if ended.code == 0 else f"exit code {ended.code}"
        console.print(
            f"{ended.name} ({number} of {len(missing)}): {told} in {duration(ended.seconds)}",
            highlight=False,
            markup=False,
        )
        failed += [ended] if ended.code else []
    if failed:
        first = failed[0]
        raise TrainingError(
            f"{len(failed)} of {len(missing)} runs failed, {first.name} with exit code {first.code} "
            f"({first.last_words}); mend that and give the same command again, which goes on from here"
        )
