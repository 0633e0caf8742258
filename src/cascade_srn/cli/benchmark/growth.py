"""``cascade-srn benchmark growth``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.options import GrowthOptions
from cascade_srn.cli.benchmark.options import (
    BatchWords,
    Data,
    Device,
    Encoder,
    Output,
    Precision,
    Repeats,
    SavedModel,
    Sentences,
    Warmup,
    listed,
    numbers,
    publish,
)

LENGTHS, SUBJECTS, FACTORS = (
    listed(sizes) for sizes in (GrowthOptions.lengths, GrowthOptions.subjects, GrowthOptions.factors)
)
Sizes = Annotated[str, typer.Option(metavar="N,…")]


def growth(
    model: SavedModel = None,
    encoder: Encoder = None,
    data: Data = None,
    preset: Annotated[str, typer.Option(help="A fusion preset.")] = GrowthOptions.preset,
    lengths: Sizes = LENGTHS,
    subjects: Sizes = SUBJECTS,
    factors: Annotated[str, typer.Option(metavar="N,…", help="How many times over the data is streamed.")] = FACTORS,
    batch_sentences: Annotated[
        int, typer.Option(help="Sentences measured together for lengths and subjects.")
    ] = GrowthOptions.batch_sentences,
    subject_words: Annotated[
        int, typer.Option(help="Words of the sentences in which subjects grow.")
    ] = GrowthOptions.subject_words,
    sentences: Sentences = GrowthOptions.sentences,
    batch_words: BatchWords = GrowthOptions.batch_words,
    precision: Precision = GrowthOptions.precision,
    repeats: Repeats = GrowthOptions.repeats,
    warmup: Warmup = GrowthOptions.warmup,
    device: Device = GrowthOptions.device,
    output: Output = None,
    plot: Annotated[
        bool, typer.Option("--plot/--no-plot", help="Draw a PNG beside the JSON file (extra: report).")
    ] = True,
) -> None:
    """How extraction's cost grows with sentence length, subjects in a sentence, and corpus size."""
    options = GrowthOptions(
        model=model,
        encoder=encoder,
        data=data,
        preset=preset,
        lengths=numbers("--lengths", lengths),
        subjects=numbers("--subjects", subjects),
        factors=numbers("--factors", factors),
        batch_sentences=batch_sentences,
        subject_words=subject_words,
        sentences=sentences,
        batch_words=batch_words,
        precision=precision,
        repeats=repeats,
        warmup=warmup,
        device=device,
    )
    from cascade_srn.benchmarks.plots import plot_growth, require_matplotlib

    if plot:
        require_matplotlib()
    from cascade_srn.benchmarks.growth import measure

    result = measure(options)
    publish(result, output)
    if plot:
        path = plot_growth(result.to_dict(), (output or result.default_path).with_suffix(".png"))
        typer.echo(f"plot in {path}")
