"""``cascade-srn benchmark train``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.options import TrainOptions
from cascade_srn.cli.benchmark.options import (
    Data,
    Device,
    Encoder,
    Output,
    Presets,
    Sentences,
    listed,
    names,
    numbers,
    publish,
)

PRESETS, BATCH_SIZES = listed(TrainOptions.presets), listed(TrainOptions.batch_sizes)


def train(
    encoder: Encoder = None,
    data: Data = None,
    presets: Presets = PRESETS,
    batch_sizes: Annotated[str, typer.Option(metavar="N,…", help="Sentences of a batch.")] = BATCH_SIZES,
    sentences: Sentences = TrainOptions.sentences,
    epochs: Annotated[int, typer.Option(help="Epochs that count; one more warms up.")] = TrainOptions.epochs,
    precision: Annotated[str, typer.Option(help="float32, tf32 or bf16.")] = TrainOptions.precision,
    device: Device = TrainOptions.device,
    output: Output = None,
) -> None:
    """The training loop: seconds per epoch, and where a step's time goes."""
    options = TrainOptions(
        encoder=encoder,
        data=data,
        presets=names(presets),
        batch_sizes=numbers("--batch-sizes", batch_sizes),
        sentences=sentences,
        epochs=epochs,
        precision=precision,
        device=device,
    )
    from cascade_srn.benchmarks.train import measure

    publish(measure(options), output)
