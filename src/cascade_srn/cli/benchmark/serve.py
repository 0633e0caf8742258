"""``cascade-srn benchmark serve``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.serve_options import ServeOptions
from cascade_srn.cli.benchmark.options import (
    BatchWords,
    Data,
    Device,
    Output,
    Precision,
    SavedModel,
    Sentences,
    publish,
)


def serve(
    model: SavedModel = None,
    data: Data = None,
    sentences: Sentences = ServeOptions.sentences,
    clients: Annotated[int, typer.Option(help="Clients that ask at once.")] = ServeOptions.clients,
    seconds: Annotated[float, typer.Option(help="How long they ask.")] = ServeOptions.seconds,
    single: Annotated[int, typer.Option(help="Requests of one client alone.")] = ServeOptions.single,
    batch_words: BatchWords = ServeOptions.batch_words,
    precision: Precision = ServeOptions.precision,
    device: Device = ServeOptions.device,
    output: Output = None,
) -> None:
    """The service under load, every answer checked: one client alone, then many at once.

    Exits with 1 where an answer was lost, mixed up, wrong or refused.
    """
    options = ServeOptions(
        model=model,
        data=data,
        sentences=sentences,
        clients=clients,
        seconds=seconds,
        single=single,
        batch_words=batch_words,
        precision=precision,
        device=device,
    )
    from cascade_srn.benchmarks.serve import is_faultless, measure

    result = measure(options)
    publish(result, output)
    if not is_faultless(result):
        raise typer.Exit(1)
