"""The command line: one file for each command, each a thin skin over a function that can be called.

Nothing heavy is imported before a command that needs it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from cascade_srn.cli.adapt import adapt
from cascade_srn.cli.benchmark import app as benchmark
from cascade_srn.cli.calibrate import calibrate
from cascade_srn.cli.convert import convert
from cascade_srn.cli.distil import distil
from cascade_srn.cli.download import download
from cascade_srn.cli.evaluate import evaluate
from cascade_srn.cli.extract import extract
from cascade_srn.cli.failures import OneSentence, one_line, prepare_streams
from cascade_srn.cli.reproduce import reproduce
from cascade_srn.cli.serve import serve
from cascade_srn.cli.train import train
from cascade_srn.version import __version__

app = typer.Typer(
    name="cascade-srn",
    cls=OneSentence,
    help="Joint entity and relation extraction.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cascade-srn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


app.command()(adapt)
app.command()(calibrate)
app.command()(convert)
app.command()(distil)
app.command()(download)
app.command()(evaluate)
app.command()(extract)
app.command()(reproduce)
app.command()(serve)
app.command()(train)
app.add_typer(benchmark, name="benchmark")


def _plain_warning(message: Warning | str, *_: object, **__: object) -> str:
    """Format a warning for users of the command line: its sentence, without the place in our source."""
    return f"Note: {one_line(str(message))}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command with these arguments (default: those of the process), and exit with its code."""
    prepare_streams()
    # Threads of torch that wait for each other spin unless they are told not to, and where something else wants the
    # cores, everything takes many times as long. It is read when torch is imported, which no command has done yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.formatwarning = _plain_warning
    app(args=None if arguments is None else list(arguments), prog_name="cascade-srn")
