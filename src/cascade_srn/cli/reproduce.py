"""``cascade-srn reproduce``: the paper's tables again, beside the paper's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.errors import ConfigError
from cascade_srn.reproduction.options import DEFAULTS, QUICK, ReproduceOptions

LIST = "list"


def reproduce(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE…",
            help="main, ablation, entities, fusion, encoder, errors, or all; list tells what each needs.",
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            metavar="E",
            help="The encoder of all variants, by hub id or folder.",
            show_default="the recipe's",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="A folder with train, dev and test.", show_default="the recipe's"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="N", help="Seeds of each variant: 0 to N-1.", show_default=str(DEFAULTS["n_seeds"])
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Where runs and tables go.", show_default=str(DEFAULTS["output"])),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            "--recipe",
            metavar="RECIPE",
            help="What all variants share: a YAML file.",
            show_default=str(DEFAULTS["recipe"]),
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the recipe to change; again for more."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", help="So many trainings at once, each in a process of its own.", min=1)
    ] = ReproduceOptions.jobs,
    device: Annotated[
        str, typer.Option("--device", help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")
    ] = ReproduceOptions.device,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"The example corpus, a tiny encoder, {QUICK['n_seeds']} seeds: minutes on a CPU."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be trained and what is there, and do nothing.")
    ] = False,
    batch_words: Annotated[
        int, typer.Option("--batch-words", help="Words of a batch at most, of predictions and of speed.")
    ] = ReproduceOptions.batch_words,
    precision: Annotated[
        str,
        typer.Option(
            "--precision", help="Of the encoder in predictions and speed: auto (bf16 on a GPU), float32 or bf16."
        ),
    ] = ReproduceOptions.precision,
    repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats", metavar="N", help="Runs that a speed is the median of.", show_default=str(DEFAULTS["repeats"])
        ),
    ] = None,
    resample: Annotated[
        str, typer.Option("--resample", metavar="documents|sentences", help="What the bootstrap draws.")
    ] = ReproduceOptions.resample,
    resamples: Annotated[
        int | None,
        typer.Option("--resamples", metavar="N", help="How often.", show_default=str(DEFAULTS["n_resamples"])),
    ] = None,
) -> None:
    """Fill tables of the paper: train what is missing, measure, and set our figures beside the paper's.

    The same command again goes on where it stopped: what is finished is not done again. docs/reproduce.md explains.
    """
    if LIST in tables:
        if len(tables) > 1:
            raise ConfigError(f"{LIST!r} was given with {tables[0 if tables[0] != LIST else 1]!r}; give one of the two")
        from cascade_srn.reproduction.markdown import tables_text

        typer.echo(tables_text())
        return
    options = ReproduceOptions.create(
        quick=quick,
        tables=tuple(tables),
        encoder=encoder,
        data=None if data is None else str(data),
        n_seeds=seeds,
        output=None if output is None else str(output),
        recipe=None if recipe is None else str(recipe),
        changes=tuple(changes or ()),
        jobs=jobs,
        device=device,
        batch_words=batch_words,
        precision=precision,
        repeats=repeats,
        resample=resample,
        n_resamples=resamples,
    )
    from cascade_srn.reproduction.plan import Plan

    plan = Plan.of(options)
    if dry_run:
        typer.echo(plan.text())
        return
    from cascade_srn.reproduction.markdown import table_markdown
    from cascade_srn.reproduction.run import reproduce as fill
    from cascade_srn.runs.display import console_for

    console = console_for(is_main=True)
    for result in fill(plan, console=console):
        typer.echo(f"\n{table_markdown(result)}", nl=False)
    typer.echo(f"\nThe tables are in {options.output}/results.md, and each in files of its own beside it", err=True)
