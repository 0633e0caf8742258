"""``cascade-srn reproduce``: reproduce the tables of the paper."""

from dataclasses import fields
from typing import Annotated

import typer

from cascade_srn.cli.options import BatchWords, Device, Overrides, Precision, ResampledUnit
from cascade_srn.errors import ConfigError
from cascade_srn.lab.reproduction.options import DEFAULTS, QUICK, ReproduceOptions

LIST = "list"


def reproduce(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE…", help="main, ablation, entities, fusion, encoder, errors, or all. list describes them."
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(metavar="E", help="Encoder of all variants: hub id or folder.", show_default="the recipe's"),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder with train, dev and test.", show_default="the recipe's")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Train each variant with seeds 0 to N-1.", show_default=str(DEFAULTS["n_seeds"])
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for runs and tables.", show_default=str(DEFAULTS["output"])),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE", help="Recipe of all variants: a YAML file.", show_default=str(DEFAULTS["recipe"])
        ),
    ] = None,
    changes: Overrides = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Number of runs in parallel, one process each.", min=1)
    ] = ReproduceOptions.jobs,
    device: Device = ReproduceOptions.device,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Use the example corpus, a tiny encoder and {QUICK['n_seeds']} seeds. Takes minutes on a CPU.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print which runs are missing, and do nothing.")] = False,
    batch_words: BatchWords = ReproduceOptions.batch_words,
    precision: Precision = ReproduceOptions.precision,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Runs per speed measurement; the median counts.", show_default=str(DEFAULTS["repeats"])
        ),
    ] = None,
    resample: ResampledUnit = ReproduceOptions.resample,
    resamples: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of bootstrap resamples.", show_default=str(DEFAULTS["n_resamples"])),
    ] = None,
) -> None:
    """Reproduce tables of the paper: train missing models, measure, and compare with the paper.

    Run the same command again to continue. Finished runs are not repeated.
    """
    arguments = locals()
    if LIST in tables:
        if len(tables) > 1:
            raise ConfigError(f"{LIST!r} was given with other tables", f"Pass {LIST} alone")
        from cascade_srn.lab.reproduction.results import describe_tables

        typer.echo(describe_tables())
        return
    given = {field.name: arguments[field.name] for field in fields(ReproduceOptions) if field.name in arguments}
    given |= {"tables": tuple(tables), "changes": tuple(changes or ()), "n_seeds": seeds, "n_resamples": resamples}
    options = ReproduceOptions.create(**given)
    from cascade_srn.lab.reproduction.plan import Plan

    plan = Plan.of(options)
    if dry_run:
        typer.echo(plan.text())
        return
    from cascade_srn.lab.reproduction.results import format_result
    from cascade_srn.lab.reproduction.run import reproduce as fill_tables
    from cascade_srn.runs.display import console_for

    for result in fill_tables(plan, console=console_for(is_main=True)):
        typer.echo(f"\n{format_result(result)}", nl=False)
    typer.echo(f"\nThe tables are in {options.output}/results.md, with one set of files per table beside it", err=True)
