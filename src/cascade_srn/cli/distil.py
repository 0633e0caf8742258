"""``cascade-srn distil``: train a student on raw text that teachers labelled."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.options import Device, Jobs, Overrides, Seeds, settings_as_options
from cascade_srn.cli.train import check_jobs, train
from cascade_srn.training.distil import LabelSettings


@settings_as_options(LabelSettings)
def distil(
    teachers: Annotated[
        list[str], typer.Argument(metavar="TEACHER…", help="Model folders. Predictions of several are averaged.")
    ],
    text: Annotated[
        list[str],
        typer.Option(
            "--text", metavar="TEXT", help="File (.txt, .jsonl, also .gz, .xz, .bz2) or folder of raw text. Repeatable."
        ),
    ],
    recipe: Annotated[Path, typer.Option("--recipe", metavar="RECIPE", help="Recipe of the student: a YAML file.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the student and the labels.")],
    settings: LabelSettings,
    student_encoder: Annotated[
        str | None, typer.Option(metavar="E", help="Encoder of the student: hub id or folder. Default: the recipe's.")
    ] = None,
    changes: Overrides = None,
    holdout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="Annotated data whose sentences are not labelled, besides the recipe's dev and test. Repeatable.",
        ),
    ] = None,
    labels_only: Annotated[bool, typer.Option("--labels-only", help="Write the labels without training.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the output folder.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run, and labels made with other settings.")
    ] = False,
    seeds: Seeds = None,
    jobs: Jobs = 1,
    device: Device = "auto",
) -> None:
    """Label raw text with one or more models, and train a student on the labels and on gold data.

    The labels are written to DIR/labels. The run of the student is in DIR, like a run of the train command.
    """
    from cascade_srn.runs.display import console_for, show_progress
    from cascade_srn.runs.process import end_processes, make_accelerator
    from cascade_srn.training.display import comparison_table, describe_scores
    from cascade_srn.training.distil.labelling import LabelProgress
    from cascade_srn.training.distil.run import Distillation, student_overrides
    from cascade_srn.training.recipe import load_recipe
    from cascade_srn.training.run_folder import LABELS, RunFolder

    check_jobs(jobs, is_series=seeds is not None)
    overrides = student_overrides(output, student_encoder, changes or [])
    is_main = make_accelerator(device).is_main_process
    console = console_for(is_main=is_main)
    distillation = Distillation(
        teachers,
        text,
        load_recipe(recipe, overrides),
        settings,
        holdout=holdout or [],
        n_seeds=seeds,
        resume=resume,
        overwrite=overwrite,
        device=device,
    )
    console.print(str(distillation.labelling))
    with show_progress(console, LabelProgress.row) as shown:
        for progress in distillation.labelling:
            shown.progress(progress)
    scores = distillation.teacher_scores() if is_main else {}
    distillation.labelling.free()
    if labels_only:
        labels = f"{output}/{LABELS}"
        console.print(describe_scores([scores]))
        console.print(f"The labels are in {labels}. Use them with data.labels={labels}")
        distillation.close()
        end_processes()
        return
    train(recipe, overrides, resume=resume, overwrite=overwrite, seeds=seeds, jobs=jobs, device=device)
    if is_main:
        distillation.write_scores(scores)
        runs = [output] if seeds is None else [output / f"seed-{seed}" for seed in range(seeds)]
        if scores:
            console.print(comparison_table(scores, [RunFolder(run).read_summary() for run in runs]))
    distillation.close()
