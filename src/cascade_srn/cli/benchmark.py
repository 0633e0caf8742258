"""``cascade-srn benchmark``: the front door to :mod:`cascade_srn.benchmarks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.benchmarks.options import (
    ExtractOptions,
    GrowthOptions,
    ServeOptions,
    SrnOptions,
    TrainOptions,
    WorstTextOptions,
)
from cascade_srn.cli.failures import INTERRUPTED
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from cascade_srn.benchmarks.measuring import Result

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")]
Repeats = Annotated[int, typer.Option(help="Runs that count; the median is reported.")]
Warmup = Annotated[int, typer.Option(help="Runs before them that do not count.")]
Encoder = Annotated[
    str | None, typer.Option(help="A pretrained encoder, by folder or hub id; a fresh small one when left out.")
]
SavedModel = Annotated[str | None, typer.Option(help="A saved model, by folder or hub id.")]
Data = Annotated[str | None, typer.Option(help="Annotated sentences; the example corpus when left out.")]
Sentences = Annotated[int, typer.Option(help="Sentences of the data to use, from its beginning.")]
BatchWords = Annotated[int, typer.Option(help="Words of a batch at most, padding included.")]
Presets = Annotated[str, typer.Option(metavar="A,B,…", help="Fusion presets.")]
Precision = Annotated[str, typer.Option(help="Of the pretrained encoder: auto (bf16 on a GPU), float32 or bf16.")]
Output = Annotated[Path | None, typer.Option(help="The JSON file; benchmarks/results/NAME-DEVICE.json when left out.")]


# Columns of a table that goes to a file, where nobody can widen a window.
FILE_WIDTH = 160


def names(value: str, *, separator: str = ",") -> tuple[str, ...]:
    """Return ``a,b`` as names."""
    return tuple(part.strip() for part in value.split(separator) if part.strip())


def numbers(option: str, value: str) -> tuple[int, ...]:
    """``1,2`` as numbers; empty for none."""
    try:
        return tuple(int(part) for part in names(value))
    except ValueError as error:
        raise ConfigError(f"{option} is {value!r}; give whole numbers with commas between them, as in 8,16") from error


def parse_shapes(option: str, value: str) -> tuple[tuple[int, int], ...]:
    """``8x40,32x40`` as pairs."""
    try:
        pairs = [part.split("x") for part in names(value)]
        return tuple((int(batch), int(length)) for batch, length in pairs)
    except ValueError as error:
        raise ConfigError(f"{option} is {value!r}; give sentences x words, as in 8x40,32x40") from error


def listed(values: tuple[object, ...]) -> str:
    """The inverse of :func:`names` and :func:`numbers`, for showing defaults."""
    return ",".join(str(value) for value in values)


def publish(result: Result, output: Path | None) -> None:
    """Write the JSON file and show the table."""
    from rich.console import Console

    path = result.save(output)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    console.print(result.table())
    console.print(f"written to {path}", soft_wrap=True)


EXTRACT_PRESETS = listed(ExtractOptions.presets)


def extract(
    model: SavedModel = None,
    encoder: Encoder = None,
    data: Data = None,
    presets: Presets = EXTRACT_PRESETS,
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
    from cascade_srn.benchmarks.growth import plot_growth, require_matplotlib

    if plot:
        require_matplotlib()
    from cascade_srn.benchmarks.growth import measure

    result = measure(options)
    publish(result, output)
    if plot:
        path = plot_growth(result.to_dict(), (output or result.default_path).with_suffix(".png"))
        typer.echo(f"plot in {path}")


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


TRAIN_PRESETS, BATCH_SIZES = listed(TrainOptions.presets), listed(TrainOptions.batch_sizes)


def train(
    encoder: Encoder = None,
    data: Data = None,
    presets: Presets = TRAIN_PRESETS,
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


app = typer.Typer(help="Measure what things cost, side by side.", no_args_is_help=True)
for command in (srn, extract, train, growth, serve, worst_text):
    app.command()(command)
