"""Command line: one module per command, each a thin layer over a library function.

A command is imported when it is used, and heavy libraries inside it, so that the start is fast.
"""

import os
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from cascade_srn.cli.failures import ErrorReportingGroup, join_lines, prepare_streams
from cascade_srn.cli.lazy import LazyCommands
from cascade_srn.runs.resources import count_cores
from cascade_srn.version import __version__

_EXTRACT, _ANNOTATE, _TRAIN, _EVALUATE, _FILES = "Extract", "Annotate", "Train", "Evaluate", "Data and models"
# Name of each command or group, and its panel in the help.
PANELS = {
    "extract": _EXTRACT,
    "serve": _EXTRACT,
    "select": _ANNOTATE,
    "annotate": _ANNOTATE,
    "init": _TRAIN,
    "train": _TRAIN,
    "adapt": _TRAIN,
    "distil": _TRAIN,
    "calibrate": _TRAIN,
    "evaluate": _EVALUATE,
    "reproduce": _EVALUATE,
    "convert": _FILES,
    "download": _FILES,
    "export": _FILES,
    "info": _FILES,
    "models": _FILES,
    "push": _FILES,
    "corpus": _EXTRACT,
    "graph": _EXTRACT,
    "project": _ANNOTATE,
    "benchmark": _EVALUATE,
}


class _CommandLine(ErrorReportingGroup):
    """All commands. Each is imported when it is looked up."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands(PANELS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help, without importing the commands."""
        return list(self.commands)


app = typer.Typer(
    name="cascade-srn",
    cls=_CommandLine,
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
