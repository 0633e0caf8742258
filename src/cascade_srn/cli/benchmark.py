"""``cascade-srn benchmark``: measure speed, memory, correctness under load, and learning from few sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cascade_srn.cli.failures import INTERRUPTED, print_note
from cascade_srn.cli.options import settings_as_options
from cascade_srn.errors import require
from cascade_srn.lab.benchmarks.options import (
    CorpusOptions,
    ExtractOptions,
    FewShotOptions,
    GrowthOptions,
    PrecisionOptions,
    RuntimesOptions,
    ServeOptions,
    SrnOptions,
    TeachOptions,
    TrainOptions,
)

if TYPE_CHECKING:
    from cascade_srn.lab.benchmarks.measuring import BenchmarkRun, Result
    from cascade_srn.lab.benchmarks.trainings import Trainings

OptionsT = TypeVar("OptionsT", bound=FewShotOptions)

Plot = Annotated[bool, typer.Option("--plot/--no-plot", help="Draw a picture beside the JSON file (extra: report).")]
Output = Annotated[Path | None, typer.Option(help="JSON file. Default: benchmarks/results/NAME-DEVICE.json.")]

# Width of a table that is not printed on a terminal.
FILE_WIDTH = 160


def run_benchmark(measure: Callable[[BenchmarkRun], Result], output: Path | None) -> Result:
    """Run a benchmark with a progress display, write the JSON file and print the table.

    Ctrl-C and SIGTERM keep what was measured. The command then ends here, with the usual exit code.
    """
    from rich.console import Console

    from cascade_srn.lab.benchmarks.measuring import BenchmarkRun
    from cascade_srn.runs.display import show_progress
    from cascade_srn.runs.process import sigterm_as_exit

    with (
        sigterm_as_exit(),
        show_progress(Console(stderr=True), lambda row: row, counts=False, in_background=False) as display,
    ):
        run = BenchmarkRun(display.progress)
        result = measure(run)
    publish(result, output)
    if run.interruption is not None:
        print_note("the benchmark was interrupted, and its results are partial")
        code = run.interruption.code if isinstance(run.interruption, SystemExit) else None
        raise typer.Exit(code if isinstance(code, int) else INTERRUPTED)
    return result


def publish(result: Result, output: Path | None) -> None:
    """Write the JSON file and print the table."""
    from rich.console import Console

    path = result.save(output)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    console.print(result.table())
    console.print(f"written to {path}", soft_wrap=True)


def _run_trainings(
    benchmark: type[Trainings[OptionsT]],
    settings: OptionsT,
    output: Path | None,
    draw: Callable[[Mapping[str, Any], Path], Path] | None,
) -> None:
    """Run a benchmark that goes on from its JSON file, and draw a picture beside the file."""
    if draw is not None:
        require("matplotlib", extra="report")
    path = benchmark.default_path(settings) if output is None else output
    result = run_benchmark(lambda run: benchmark.run_all(settings, run, path), path)
    if draw is not None:
        typer.echo(f"plot in {draw(result.to_dict(), path.with_suffix('.svg'))}")


@settings_as_options(CorpusOptions)
def corpus(settings: CorpusOptions, output: Output = None) -> None:
    """Measure throughput and memory of corpus jobs, compared with Extractor.stream over the same texts."""
    from cascade_srn.lab.benchmarks.corpus import measure

    run_benchmark(lambda run: measure(settings, run), output)


@settings_as_options(ExtractOptions)
def extract(settings: ExtractOptions, output: Output = None) -> None:
    """Measure throughput, latency and memory of extraction, compared with the bare encoder and a BiLSTM.

    Measures --model, or models of --presets over --encoder. The latter have random heads and use gold entities, unless
    --train-steps trains them first.
    """
    from cascade_srn.lab.benchmarks.extract import measure

    run_benchmark(lambda run: measure(settings, run), output)


@settings_as_options(FewShotOptions)
def few_shot(settings: FewShotOptions, output: Output = None, plot: Plot = True) -> None:
    """Train on a few sentences of corpora, from models and encoders, and score on test.

    The same command continues after an interruption, and trains only what the JSON file does not have. With more
    --seeds, --sizes or --starts it adds to the file.
    """
    from cascade_srn.lab.benchmarks.few_shot import FewShot, plot_few_shot

    _run_trainings(FewShot, settings, output, plot_few_shot if plot else None)


@settings_as_options(GrowthOptions)
def growth(
    settings: GrowthOptions,
    output: Output = None,
    plot: Plot = True,
) -> None:
    """Measure how the cost of extraction grows with sentence length, number of subjects and corpus size."""
    from cascade_srn.lab.benchmarks.growth import measure, plot_growth, require_matplotlib

    if plot:
        require_matplotlib()
    result = run_benchmark(lambda run: measure(settings, run), output)
    if plot:
        path = plot_growth(result.to_dict(), (output or result.default_path).with_suffix(".png"))
        typer.echo(f"plot in {path}")


@settings_as_options(PrecisionOptions)
def precision(settings: PrecisionOptions, output: Output = None) -> None:
    """Simulate --precision of extract: promise levels on random halves of documents, and measure on the others."""
    from cascade_srn.lab.benchmarks.precision import measure

    run_benchmark(lambda run: measure(settings, run), output)


@settings_as_options(RuntimesOptions)
def runtimes(settings: RuntimesOptions, output: Output = None) -> None:
    """Compare PyTorch models with exported ones on the CPU: speed, latency, time to the first answer and memory."""
    from cascade_srn.lab.benchmarks.runtimes import measure

    run_benchmark(lambda run: measure(settings, run), output)


@settings_as_options(ServeOptions)
def serve(settings: ServeOptions, output: Output = None) -> None:
    """Measure the service under load and check every answer, for several numbers of clients.

    The exit code is 1 if an answer is missing, swapped, wrong or refused.
    """
    from cascade_srn.lab.benchmarks.serve import is_faultless, measure

    result = run_benchmark(lambda run: measure(settings, run), output)
    if not is_faultless(result):
        raise typer.Exit(1)


@settings_as_options(SrnOptions)
def srn(settings: SrnOptions, output: Output = None) -> None:
    """Measure each available implementation of the SRN, compared with an LSTM of the same widths."""
    from cascade_srn.lab.benchmarks.srn import measure

    run_benchmark(lambda run: measure(settings, run), output)


@settings_as_options(TeachOptions)
def teach(settings: TeachOptions, output: Output = None, plot: Plot = True) -> None:
    """Simulate a teacher that errs: degrade gold labels, train on them, and score on the gold labels of dev.

    Trains without and with a person who checks the most doubtful sentences, and on gold labels for comparison. The same
    command continues after an interruption, and trains only what the JSON file does not have.
    """
    from cascade_srn.lab.benchmarks.teach import Teach, plot_teach

    _run_trainings(Teach, settings, output, plot_teach if plot else None)


@settings_as_options(TrainOptions)
def train(settings: TrainOptions, output: Output = None) -> None:
    """Measure the training loop: seconds per epoch, and the share of each part of a step."""
    from cascade_srn.lab.benchmarks.train import measure

    run_benchmark(lambda run: measure(settings, run), output)


app = typer.Typer(
    help="Measure speed, memory and correctness under load. Ctrl-C keeps what was measured so far.",
    no_args_is_help=True,
)
for command in (srn, extract, runtimes, corpus, train, few_shot, teach, growth, serve, precision):
    app.command()(command)
