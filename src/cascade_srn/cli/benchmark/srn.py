"""``cascade-srn benchmark srn``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.options import SrnOptions
from cascade_srn.cli.benchmark.options import Device, Output, Repeats, Warmup, publish
from cascade_srn.cli.benchmark.options import shapes as parse_shapes

DEFAULT_SHAPES = ",".join(f"{batch}x{length}" for batch, length in SrnOptions.shapes)


def srn(
    shapes: Annotated[str, typer.Option(metavar="BxL,…", help="Sentences x words of a batch.")] = DEFAULT_SHAPES,
    input_width: Annotated[int, typer.Option(help="Width of a word's vector.")] = SrnOptions.input_width,
    hidden_width: Annotated[int, typer.Option(help="Width of a hidden state.")] = SrnOptions.hidden_width,
    n_tasks: Annotated[int, typer.Option("--tasks", help="Tasks of the SRN.")] = SrnOptions.n_tasks,
    repeats: Repeats = SrnOptions.repeats,
    warmup: Warmup = SrnOptions.warmup,
    device: Device = SrnOptions.device,
    output: Output = None,
) -> None:
    """The SRN, in every implementation that runs here, against an LSTM of the same widths."""
    options = SrnOptions(
        shapes=parse_shapes("--shapes", shapes),
        input_width=input_width,
        hidden_width=hidden_width,
        n_tasks=n_tasks,
        repeats=repeats,
        warmup=warmup,
        device=device,
    )
    from cascade_srn.benchmarks.srn import measure

    publish(measure(options), output)
