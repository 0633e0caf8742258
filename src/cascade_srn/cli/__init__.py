"""Command line: one module per command, each a thin layer over a library function.

Heavy imports happen inside the commands, so that ``--help`` is fast.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from cascade_srn.cli.adapt import adapt
from cascade_srn.cli.annotate import annotate
from cascade_srn.cli.benchmark import app as benchmark
from cascade_srn.cli.calibrate import calibrate
from cascade_srn.cli.convert import convert
from cascade_srn.cli.corpus import app as corpus
from cascade_srn.cli.distil import distil
from cascade_srn.cli.download import download
from cascade_srn.cli.evaluate import evaluate
from cascade_srn.cli.examples import add_examples
from cascade_srn.cli.export import export
from cascade_srn.cli.extract import extract
from cascade_srn.cli.failures import ErrorReportingGroup, join_lines, prepare_streams
from cascade_srn.cli.graph import app as graph
from cascade_srn.cli.info import info, models
from cascade_srn.cli.init import init
from cascade_srn.cli.project import app as project
from cascade_srn.cli.push import push
from cascade_srn.cli.reproduce import reproduce
from cascade_srn.cli.select import select
from cascade_srn.cli.serve import serve
from cascade_srn.cli.train import train
from cascade_srn.corpus.resources import count_cores
from cascade_srn.version import __version__

app = typer.Typer(
    name="cascade-srn",
    cls=ErrorReportingGroup,
    help="Joint entity and relation extraction.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # subcommands inherit them
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"cascade-srn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


_EXTRACT, _ANNOTATE, _TRAIN, _EVALUATE, _FILES = "Extract", "Annotate", "Train", "Evaluate", "Data and models"
_COMMANDS: dict[str, tuple[Callable[..., object], ...]] = {
    _EXTRACT: (extract, serve),
    _ANNOTATE: (select, annotate),
    _TRAIN: (init, train, adapt, distil, calibrate),
    _EVALUATE: (evaluate, reproduce),
    _FILES: (convert, download, export, info, models, push),
}
for _panel, _commands in _COMMANDS.items():
    for _function in _commands:
        app.command(rich_help_panel=_panel)(_function)
app.add_typer(corpus, name="corpus", rich_help_panel=_EXTRACT)
app.add_typer(graph, name="graph", rich_help_panel=_EXTRACT)
app.add_typer(project, name="project", rich_help_panel=_ANNOTATE)
app.add_typer(benchmark, name="benchmark", rich_help_panel=_EVALUATE)
add_examples(app)


def _format_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Format a warning without the line of source code it comes from."""
    return f"Note: {join_lines(str(message))}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    prepare_streams()
    # Idle OpenMP threads spin by default, which slows everything down on shared cores. torch reads this on import.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # torch counts all cores of the machine, also those that the quota of a container does not allow.
    if (cores := count_cores()) < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))
    warnings.formatwarning = _format_warning
    _command()(args=None if arguments is None else list(arguments), prog_name="cascade-srn")


@cache
def _command() -> Any:
    return get_command(app)
