"""``cascade-srn benchmark``: measure speed, memory and correctness under load."""

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
from cascade_srn.cli.options import BatchWords, Device, Encoder, Precision, SavedModel, make_settings
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from cascade_srn.benchmarks.measuring import Result

Repeats = Annotated[int, typer.Option(help="Measured runs; the median is reported.")]
Warmup = Annotated[int, typer.Option(help="Runs before them that are not measured.")]
Data = Annotated[str | None, typer.Option(help="Annotated sentences. Default: the example corpus.")]
Sentences = Annotated[int, typer.Option(help="Number of sentences to use, from the beginning of the data.")]
Presets = Annotated[str, typer.Option(metavar="A,B,…", help="Fusion presets.")]
Output = Annotated[Path | None, typer.Option(help="JSON file. Default: benchmarks/results/NAME-DEVICE.json.")]

# Width of a table that is not printed on a terminal.
FILE_WIDTH = 160


def parse_names(value: str, *, separator: str = ",") -> tuple[str, ...]:
    """Parse ``a,b``."""
    return tuple(part.strip() for part in value.split(separator) if part.strip())


def parse_numbers(option: str, value: str) -> tuple[int, ...]:
    """Parse ``8,16``."""
    try:
        return tuple(int(part) for part in parse_names(value))
    except ValueError as error:
        raise ConfigError(f"{option} is {value!r}", "Give integers such as 8,16", option=option) from error


def parse_shapes(option: str, value: str) -> tuple[tuple[int, int], ...]:
    """Parse ``8x40,32x40``."""
    try:
        pairs = [part.split("x") for part in parse_names(value)]
        return tuple((int(batch), int(length)) for batch, length in pairs)
    except ValueError as error:
        hint = "Give sentences x words, such as 8x40,32x40"
        raise ConfigError(f"{option} is {value!r}", hint, option=option) from error


def _join(values: tuple[object, ...]) -> str:
    return ",".join(str(value) for value in values)


def publish(result: Result, output: Path | None) -> None:
    """Write the JSON file and print the table."""
    from rich.console import Console

    path = result.save(output)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    console.print(result.table())
    console.print(f"written to {path}", soft_wrap=True)


EXTRACT_PRESETS, TRAIN_PRESETS = _join(ExtractOptions.presets), _join(TrainOptions.presets)
BATCH_SIZES = _join(TrainOptions.batch_sizes)
LENGTHS, SUBJECTS = _join(GrowthOptions.lengths), _join(GrowthOptions.subjects)
FACTORS = _join(GrowthOptions.factors)
SHAPES = _join(tuple(f"{batch}x{length}" for batch, length in SrnOptions.shapes))


def extract(
    model: SavedModel = None,
    encoder: Encoder = None,
    data: Data = None,
    presets: Presets = EXTRACT_PRESETS,
    sentences: Sentences = ExtractOptions.sentences,
    train_steps: Annotated[
        int, typer.Option(help="Train each model for about this many steps first, so that it finds entities.")
    ] = ExtractOptions.train_steps,
    given_entities: Annotated[
        bool, typer.Option("--given-entities", help="Run turns 2 and 3 on gold entities, all of them as subjects.")
    ] = ExtractOptions.given_entities,
    batch_words: BatchWords = ExtractOptions.batch_words,
    batch_sentences: Annotated[
        int, typer.Option(help="Sentences per batch, instead of --batch-words. 0: off.")
    ] = ExtractOptions.batch_sentences,
    latency_sentences: Annotated[
        int, typer.Option(help="Sentences to process one at a time for the latency.")
    ] = ExtractOptions.latency_sentences,
    precision: Precision = ExtractOptions.precision,
    repeats: Repeats = ExtractOptions.repeats,
    warmup: Warmup = ExtractOptions.warmup,
    device: Device = ExtractOptions.device,
    output: Output = None,
) -> None:
    """Measure throughput, latency and memory of extraction, compared with the bare encoder and a BiLSTM.

    Measures --model, or models of --presets over --encoder. The latter have random heads and use gold entities, unless
    --train-steps trains them first.
    """
    options = make_settings(ExtractOptions, locals(), presets=parse_names(presets))
    from cascade_srn.benchmarks.extract import measure

    publish(measure(options), output)


def growth(
    model: SavedModel = None,
    encoder: Encoder = None,
    data: Data = None,
    preset: Annotated[str, typer.Option(help="Fusion preset.")] = GrowthOptions.preset,
    lengths: Annotated[str, typer.Option(metavar="N,…", help="Words per sentence.")] = LENGTHS,
    subjects: Annotated[str, typer.Option(metavar="N,…", help="Subjects per sentence.")] = SUBJECTS,
    factors: Annotated[str, typer.Option(metavar="N,…", help="How many times the data is repeated.")] = FACTORS,
    batch_sentences: Annotated[
        int, typer.Option(help="Sentences per batch for lengths and subjects.")
    ] = GrowthOptions.batch_sentences,
    subject_words: Annotated[int, typer.Option(help="Words per sentence for subjects.")] = GrowthOptions.subject_words,
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
    """Measure how the cost of extraction grows with sentence length, number of subjects and corpus size."""
    options = make_settings(
        GrowthOptions,
        locals(),
        lengths=parse_numbers("lengths", lengths),
        subjects=parse_numbers("subjects", subjects),
        factors=parse_numbers("factors", factors),
    )
    from cascade_srn.benchmarks.growth import measure, plot_growth, require_matplotlib

    if plot:
        require_matplotlib()
    result = measure(options)
    publish(result, output)
    if plot:
        path = plot_growth(result.to_dict(), (output or result.default_path).with_suffix(".png"))
        typer.echo(f"plot in {path}")


def serve(
    model: SavedModel = None,
    data: Data = None,
    sentences: Sentences = ServeOptions.sentences,
    clients: Annotated[int, typer.Option(help="Number of parallel clients.")] = ServeOptions.clients,
    seconds: Annotated[float, typer.Option(help="How long the parallel clients send requests.")] = ServeOptions.seconds,
    single: Annotated[int, typer.Option(help="Requests of a single client, sent first.")] = ServeOptions.single,
    batch_words: BatchWords = ServeOptions.batch_words,
    precision: Precision = ServeOptions.precision,
    device: Device = ServeOptions.device,
    output: Output = None,
) -> None:
    """Measure the service under load and check every answer: one client first, then many in parallel.

    The exit code is 1 if an answer is missing, swapped, wrong or refused.
    """
    options = make_settings(ServeOptions, locals())
    from cascade_srn.benchmarks.serve import is_faultless, measure

    result = measure(options)
    publish(result, output)
    if not is_faultless(result):
        raise typer.Exit(1)


def srn(
    shapes: Annotated[str, typer.Option(metavar="BxL,…", help="Batches: sentences x words.")] = SHAPES,
    input_width: Annotated[int, typer.Option(help="Width of a word vector.")] = SrnOptions.input_width,
    hidden_width: Annotated[int, typer.Option(help="Width of a hidden state.")] = SrnOptions.hidden_width,
    n_tasks: Annotated[int, typer.Option("--tasks", help="Number of tasks of the SRN.")] = SrnOptions.n_tasks,
    repeats: Repeats = SrnOptions.repeats,
    warmup: Warmup = SrnOptions.warmup,
    device: Device = SrnOptions.device,
    output: Output = None,
) -> None:
    """Measure each available implementation of the SRN, compared with an LSTM of the same widths."""
    options = make_settings(SrnOptions, locals(), shapes=parse_shapes("shapes", shapes))
    from cascade_srn.benchmarks.srn import measure

    publish(measure(options), output)


def train(
    encoder: Encoder = None,
    data: Data = None,
    presets: Presets = TRAIN_PRESETS,
    batch_sizes: Annotated[str, typer.Option(metavar="N,…", help="Sentences per batch.")] = BATCH_SIZES,
    sentences: Sentences = TrainOptions.sentences,
    epochs: Annotated[int, typer.Option(help="Measured epochs, after one warm-up epoch.")] = TrainOptions.epochs,
    precision: Annotated[str, typer.Option(help="float32, tf32 or bf16.")] = TrainOptions.precision,
    device: Device = TrainOptions.device,
    output: Output = None,
) -> None:
    """Measure the training loop: seconds per epoch, and the share of each part of a step."""
    options = make_settings(
        TrainOptions,
        locals(),
        presets=parse_names(presets),
        batch_sizes=parse_numbers("batch_sizes", batch_sizes),
    )
    from cascade_srn.benchmarks.train import measure

    publish(measure(options), output)


def worst_text(
    model: SavedModel = None,
    characters: Annotated[
        int, typer.Option(help="Length of the longest texts. 500, 2,000 and 10,000 are measured as well.")
    ] = WorstTextOptions.characters,
    patterns: Annotated[str, typer.Option(metavar="A;B;…", help="Built-in patterns to start from. Default: all.")] = "",
    seconds: Annotated[float, typer.Option(help="Time budget of the whole search.")] = WorstTextOptions.seconds,
    limit_seconds: Annotated[
        float, typer.Option(help="CPU seconds after which a text is given up.")
    ] = WorstTextOptions.limit_seconds,
    limit_megabytes: Annotated[
        int, typer.Option(help="Memory of the measured process, in MiB, at which a text is given up.")
    ] = WorstTextOptions.limit_megabytes,
    threads: Annotated[int, typer.Option(help="Number of torch threads.")] = WorstTextOptions.threads,
    seed: Annotated[int, typer.Option(help="Seed of the random changes.")] = WorstTextOptions.seed,
    max_ratio: Annotated[
        float | None, typer.Option(help="Exit with 1 if a text costs more than this many times ordinary text.")
    ] = WorstTextOptions.max_ratio,
    output: Output = None,
) -> None:
    """Search for the text that costs the most CPU time or memory, compared with ordinary text.

    Each text is measured in a separate process with a time and a memory limit. Ctrl-C keeps the measurements so far.
    """
    options = make_settings(WorstTextOptions, locals(), patterns=parse_names(patterns, separator=";"))
    from cascade_srn.benchmarks.worst_text import is_acceptable, measure

    result = measure(options, lambda line: typer.echo(line, err=True))
    publish(result, output)
    if result.summary["interrupted"]:
        raise typer.Exit(INTERRUPTED)
    if not is_acceptable(result):
        raise typer.Exit(1)


app = typer.Typer(help="Measure speed, memory and correctness under load.", no_args_is_help=True)
for command in (srn, extract, train, growth, serve, worst_text):
    app.command()(command)
