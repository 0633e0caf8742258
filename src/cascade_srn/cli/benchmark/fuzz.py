"""``cascade-srn benchmark fuzz``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.fuzz_options import FuzzOptions
from cascade_srn.cli.benchmark.options import BatchWords, Device, Output, Precision, SavedModel, publish


def fuzz(
    model: SavedModel = None,
    texts: Annotated[int, typer.Option(help="How many texts.")] = FuzzOptions.texts,
    skip: Annotated[
        int, typer.Option(help="Leave out so many before them, to go on where another run ended.")
    ] = FuzzOptions.skip,
    seed: Annotated[int, typer.Option(help="The same texts for the same seed.")] = FuzzOptions.seed,
    threshold: Annotated[
        float | None, typer.Option(help="In all turns; low ones find more to check. The model's own if left out.")
    ] = FuzzOptions.threshold,
    batch_words: BatchWords = FuzzOptions.batch_words,
    precision: Precision = FuzzOptions.precision,
    device: Device = FuzzOptions.device,
    service: Annotated[
        str | None, typer.Option(help="Send the texts to a running service, as http://127.0.0.1:8000, instead.")
    ] = FuzzOptions.service,
    output: Output = None,
) -> None:
    """Strange texts through a model, every offset checked.

    Exits with 1 where something failed or was wrong.
    """
    options = FuzzOptions(
        model=model,
        texts=texts,
        skip=skip,
        seed=seed,
        threshold=threshold,
        batch_words=batch_words,
        precision=precision,
        device=device,
        service=service,
    )
    from cascade_srn.benchmarks.fuzz import is_faultless, measure

    result = measure(options)
    publish(result, output)
    if not is_faultless(result):
        raise typer.Exit(1)
