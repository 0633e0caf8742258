"""``cascade-srn benchmark worst-text``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.options import WorstTextOptions
from cascade_srn.cli.benchmark.options import Output, SavedModel, names, publish
from cascade_srn.cli.failures import INTERRUPTED


def worst_text(
    model: SavedModel = None,
    characters: Annotated[
        int, typer.Option(help="Length of the longest texts; 500, 2,000 and 10,000 are measured as well.")
    ] = WorstTextOptions.characters,
    patterns: Annotated[
        str, typer.Option(metavar="A;B;…", help="Built-in patterns to start from; all when left out.")
    ] = "",
    seconds: Annotated[float, typer.Option(help="Time budget of the whole search.")] = WorstTextOptions.seconds,
    limit_seconds: Annotated[
        float, typer.Option(help="CPU seconds after which a text is given up.")
    ] = WorstTextOptions.limit_seconds,
    limit_megabytes: Annotated[
        int, typer.Option(help="Memory of the measured process, in MiB, at which a text is given up.")
    ] = WorstTextOptions.limit_megabytes,
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = WorstTextOptions.threads,
    seed: Annotated[int, typer.Option(help="Seed of the random changes.")] = WorstTextOptions.seed,
    max_ratio: Annotated[
        float | None, typer.Option(help="Exit with 1 if a text costs more than this many times ordinary text.")
    ] = WorstTextOptions.max_ratio,
    output: Output = None,
) -> None:
    """Search for the text that costs the most CPU time or memory, compared with ordinary text.

    Each text is measured in a separate process with a time and a memory limit. Ctrl-C keeps what was measured.
    """
    options = WorstTextOptions(
        model=model,
        characters=characters,
        patterns=names(patterns, separator=";"),
        seconds=seconds,
        limit_seconds=limit_seconds,
        limit_megabytes=limit_megabytes,
        threads=threads,
        seed=seed,
        max_ratio=max_ratio,
    )
    from cascade_srn.benchmarks.worst_text import is_acceptable, measure

    result = measure(options, lambda line: typer.echo(line, err=True))
    publish(result, output)
    if result.summary["interrupted"]:
        raise typer.Exit(INTERRUPTED)
    if not is_acceptable(result):
        raise typer.Exit(1)
