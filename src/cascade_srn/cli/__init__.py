"""Command line: one module per command, each a thin layer over a library function.

A command is imported when it is used, and heavy libraries inside it, so that the start is fast.
"""

import os
import warnings
from collections import UserDict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from cascade_srn.cli.examples import add_examples
from cascade_srn.cli.failures import ErrorReportingGroup, join_lines, prepare_streams
from cascade_srn.runs.resources import count_cores
from cascade_srn.version import __version__

_EXTRACT, _ANNOTATE, _TRAIN, _EVALUATE, _FILES = "Extract", "Annotate", "Train", "Evaluate", "Data and models"
# Name of each command or group, and its panel in the help.
PANELS = {
    "extract": _EXTRACT,
    "serve": _EXTRACT,
    "mcp": _EXTRACT,
    "select": _ANNOTATE,
    "teach": _ANNOTATE,
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
# What the help says of each command, which would otherwise be imported for it.
SUMMARIES = {
    "extract": "Extract entities and relations from raw text.",
    "serve": "Serve a model over HTTP, with a page to try it at /.",
    "mcp": "Offer extraction, and questions to a graph, as tools to agents (Model Context Protocol).",
    "select": "Select the sentences or documents that help most when they are annotated, best first.",
    "teach": "Label some hundred sentences with a language model, and write an annotation project to check them in.",
    "annotate": "Annotate entities and relations in a browser, with suggestions of a model.",
    "init": "Write a recipe for annotated documents, with comments, to train with or to edit.",
    "train": "Train a model from a recipe and score it on dev and test.",
    "adapt": "Adapt an encoder to a field by masked language modelling on raw text.",
    "distil": "Label raw text with one or more models, and train a student on the labels and on gold data.",
    "calibrate": "Choose thresholds, temperatures and the treatment of overlapping entities on annotated documents.",
    "evaluate": "Score models on annotated data: NER, RE boundaries and RE strict.",
    "reproduce": "Reproduce tables of the paper: train missing models, measure, and compare with the paper.",
    "convert": "Convert annotated documents from one format to another.",
    "download": "Download a published corpus from the site of its authors.",
    "export": "Export a model for the light runtime: ONNX Runtime and NumPy, without torch.",
    "info": "Describe a model: family, labels, thresholds, size, checksum, scores, data and place.",
    "models": "List the models on this machine: bundled ones, and those in the cache of the hub.",
    "push": "Upload a model to the Hugging Face hub, with its card.",
    "corpus": "Extract from large corpora: jobs that can be killed and resumed.",
    "graph": "Build, change, ask, export and explore knowledge graphs.",
    "project": "Create annotation projects, train with them, and exchange and compare annotations.",
    "benchmark": "Measure speed, memory and correctness under load. Ctrl-C keeps what was measured so far.",
}
# Commands that are in the module of another one.
_MODULES = {"models": "info"}


class LazyCommands(UserDict[str, Any]):
    """Commands and groups by name, in the order of the help. Each is imported when it is used.

    Typer builds a validator for each option, and building all commands takes longer than extracting from a sentence.

    The module ``cascade_srn.cli.NAME`` has a function of that name, or the group as ``app``.

    Args:
        panels: Name of each command, and its panel in the help.
    """

    def __init__(self, panels: Mapping[str, str]) -> None:
        super().__init__(dict.fromkeys(panels))
        self._panels = panels

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _load(name, self._panels[name])
        return self.data[name]


def _load(name: str, panel: str) -> Any:
    """Import and build a command or group."""
    module = import_module(f"cascade_srn.cli.{_MODULES.get(name, name)}")
    parent = typer.Typer()
    if hasattr(module, "app"):
        parent.add_typer(module.app, name=name, rich_help_panel=panel)
    else:
        parent.command(rich_help_panel=panel)(getattr(module, name))
    add_examples(parent)
    return get_group(parent).commands[name]


class _CommandLine(ErrorReportingGroup):
    """All commands. Each is imported when it is looked up."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands(PANELS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help, without importing the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help. Importing and building all commands for it took half of the time."""
        commands = self.commands
        self.commands = {
            name: TyperCommand(name, help=SUMMARIES[name], rich_help_panel=panel)
            if name in SUMMARIES
            else commands[name]
            for name, panel in PANELS.items()
        }
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = commands


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
