"""``cascade-srn distil``: a model taught by others on raw text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.train import train
from cascade_srn.distil.settings import LabelSettings
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from cascade_srn.distil.run import Distillation


def distil(
    teachers: Annotated[
        list[str], typer.Argument(metavar="TEACHER…", help="Folders of models: one, or several that are averaged.")
    ],
    text: Annotated[
        list[str],
        typer.Option(
            "--text",
            metavar="TEXT",
            help="A file (.txt, .jsonl, also .gz, .xz, .bz2) or folder of raw text; again for more.",
        ),
    ],
    recipe: Annotated[
        Path, typer.Option("--recipe", metavar="RECIPE", help="How the student is trained: a YAML file.")
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the student, with the labels in it.")],
    student_encoder: Annotated[
        str | None, typer.Option(metavar="E", help="The student's encoder, by hub id or folder; else the recipe's.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the recipe to change; again for more."),
    ] = None,
    holdout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="Annotated data whose sentences are not learned from, beside the recipe's dev and test.",
        ),
    ] = None,
    labels_only: Annotated[bool, typer.Option("--labels-only", help="Write the labels, and train nothing.")] = False,
    field: Annotated[str, typer.Option(help="The field of JSON records that holds the text.")] = LabelSettings.field,
    min_words: Annotated[int, typer.Option(help="Words of the shortest sentence to label.")] = LabelSettings.min_words,
    max_words: Annotated[int, typer.Option(help="Words of the longest sentence to label.")] = LabelSettings.max_words,
    max_sentences: Annotated[
        int | None, typer.Option(help="Sentences to label, evenly over the text; all if left out.")
    ] = LabelSettings.max_sentences,
    floor: Annotated[float, typer.Option(help="Probabilities below are not kept.")] = LabelSettings.floor,
    shard_sentences: Annotated[int, typer.Option(help="Labelled sentences of a file.")] = LabelSettings.shard_sentences,
    batch_words: Annotated[
        int, typer.Option(help="Words that the teachers read at once, padding included.")
    ] = LabelSettings.batch_words,
    precision: Annotated[
        str, typer.Option(help="Of the teachers' encoders: float32, bf16, or auto for bf16 on a GPU.")
    ] = LabelSettings.precision,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was begun in the output folder.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run, and labels that were made with other things.")
    ] = False,
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
    """Teach a student: label raw text by one model or several, and train on the labels and on gold data.

    The labels go to DIR/labels, the student's run to DIR as that of train. docs/distil.md explains what helps.
    """
    from cascade_srn.distil.display import comparison
    from cascade_srn.distil.run import Distillation, student_overrides
    from cascade_srn.runs.display import console_for
    from cascade_srn.runs.process import end_processes, make_accelerator
    from cascade_srn.training.display import shown_scores
    from cascade_srn.training.recipe import load_recipe
    from cascade_srn.training.run_folder import LABELS, RunFolder

    if jobs > 1 and seeds is None:
        raise ConfigError(f"--jobs {jobs} was given without --seeds; there is one run only: give --seeds as well")
    settings = LabelSettings(
        field=field,
        min_words=min_words,
        max_words=max_words,
        max_sentences=max_sentences,
        floor=floor,
        shard_sentences=shard_sentences,
        batch_words=batch_words,
        precision=precision,
    )
    overrides = student_overrides(output, student_encoder, changes or [])
    chosen = load_recipe(recipe, overrides)
    is_main = make_accelerator(device).is_main_process
    console = console_for(is_main=is_main)
    distillation = Distillation(
        teachers,
        text,
        chosen,
        settings,
        holdout=holdout or [],
        n_seeds=seeds,
        resume=resume,
        overwrite=overwrite,
        device=device,
    )
    _label(distillation, console)
    scores = distillation.teacher_scores() if is_main else {}
    distillation.labelling.free()
    if labels_only:
        console.print(shown_scores([scores]), highlight=False)
        console.print(
            f"The labels are in {output}/{LABELS}: use them by data.labels={output}/{LABELS}", highlight=False
        )
        distillation.close()
        end_processes()
        return
    train(recipe, overrides, resume=resume, overwrite=overwrite, seeds=seeds, jobs=jobs, device=device)
    if is_main:
        distillation.write_scores(scores)
        runs = [output] if seeds is None else [output / f"seed-{seed}" for seed in range(seeds)]
        if scores:
            console.print(comparison(scores, [RunFolder(run).read_summary() for run in runs]))
    distillation.close()


def _label(distillation: Distillation, console: Console) -> None:
    """Label, and show it."""
    from cascade_srn.distil.display import display, opening

    console.print(opening(distillation.labelling), highlight=False, markup=False)
    with display(console) as show:
        for progress in distillation.labelling:
            show(progress)
