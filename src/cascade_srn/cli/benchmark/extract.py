"""``cascade-srn benchmark extract``."""

from __future__ import annotations

from typing import Annotated

import typer

from cascade_srn.benchmarks.options import ExtractOptions
from cascade_srn.cli.benchmark.options import (
    BatchWords,
    Data,
    Device,
    Encoder,
    Output,
    Precision,
    Presets,
    Repeats,
    SavedModel,
    Sentences,
    Warmup,
    listed,
    names,
    publish,
)

PRESETS = listed(ExtractOptions.presets)


def extract(
    model: SavedModel = None,
    encoder: Encoder = None,
    data: Data = None,
    presets: Presets = PRESETS,
    sentences: Sentences = ExtractOptions.sentences,
    train_steps: Annotated[
        int, typer.Option(help="Train each model for about so many steps first, so that it finds things itself.")
    ] = ExtractOptions.train_steps,
    given_entities: Annotated[
        bool, typer.Option("--given-entities", help="Run turns 2 and 3 on gold entities, all taken as subjects.")
    ] = ExtractOptions.given_entities,
    batch_words: BatchWords = ExtractOptions.batch_words,
    batch_sentences: Annotated[
        int, typer.Option(help="Sentences of a batch, instead of --batch-words; 0 is off.")
    ] = ExtractOptions.batch_sentences,
    latency_sentences: Annotated[
        int, typer.Option(help="Sentences to take one at a time for the latency.")
    ] = ExtractOptions.latency_sentences,
    precision: Precision = ExtractOptions.precision,
    repeats: Repeats = ExtractOptions.repeats,
    warmup: Warmup = ExtractOptions.warmup,
    device: Device = ExtractOptions.device,
    output: Output = None,
) -> None:
    """From words to triples: throughput, latency and memory, beside the bare encoder and a BiLSTM.

    Measures a saved --model, or models of --presets over --encoder: trained briefly with --train-steps, else with
    random heads on gold entities.
    """
    options = ExtractOptions(
        model=model,
        encoder=encoder,
        data=data,
        presets=names(presets),
        sentences=sentences,
        train_steps=train_steps,
        given_entities=given_entities,
        batch_words=batch_words,
        batch_sentences=batch_sentences,
        latency_sentences=latency_sentences,
        precision=precision,
        repeats=repeats,
        warmup=warmup,
        device=device,
    )
    from cascade_srn.benchmarks.extract import measure

    publish(measure(options), output)
