"""Command line: one module per command, each a thin layer over a library function.

A command is imported when it is used, and heavy libraries inside it, so that the start is fast.
"""

import os
import warnings
from collections import UserDict
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from cascade_srn.cli.failures import ErrorReportingGroup, join_lines, prepare_streams
from cascade_srn.runs.resources import count_cores
from cascade_srn.version import __version__

_EXTRACT, _ANNOTATE, _TRAIN, _EVALUATE, _FILES = "Extract", "Annotate", "Train", "Evaluate", "Data and models"
# Name of each command or group, its panel in the help, and what the help says of it without importing it.
COMMANDS = {
    "extract": (_EXTRACT, "Extract entities and relations from raw text."),
    "serve": (_EXTRACT, "Serve a model over HTTP, with a page to try it at /."),
    "mcp": (_EXTRACT, "Offer extraction, and questions to a graph, as tools to agents (Model Context Protocol)."),
    "select": (_ANNOTATE, "Select the sentences or documents that help most when they are annotated, best first."),
    "teach": (
        _ANNOTATE,
        "Label some hundred sentences with a language model, and write an annotation project to check them in.",
    ),
    "annotate": (_ANNOTATE, "Annotate entities and relations in a browser, with suggestions of a model."),
    "init": (_TRAIN, "Write a recipe for annotated documents, with comments, to train with or to edit."),
    "train": (_TRAIN, "Train a model from a recipe and score it on dev and test."),
    "adapt": (_TRAIN, "Adapt an encoder to a field by masked language modelling on raw text."),
    "distil": (_TRAIN, "Label raw text with one or more models, and train a student on the labels and on gold data."),
    "calibrate": (
        _TRAIN,
        "Choose thresholds, temperatures and the treatment of overlapping entities on annotated documents.",
    ),
    "evaluate": (_EVALUATE, "Score models on annotated data: NER, RE boundaries and RE strict."),
    "reproduce": (
        _EVALUATE,
        "Reproduce tables of the paper: train missing models, measure, and compare with the paper.",
    ),
    "convert": (_FILES, "Convert annotated documents from one format to another."),
    "download": (_FILES, "Download a published corpus from the site of its authors."),
    "export": (_FILES, "Export a model for the light runtime: ONNX Runtime and NumPy, without torch."),
    "info": (_FILES, "Describe a model: family, labels, thresholds, size, checksum, scores, data and place."),
    "models": (_FILES, "List the models on this machine: bundled ones, and those in the cache of the hub."),
    "push": (_FILES, "Upload a model to the Hugging Face hub, with its card."),
    "corpus": (_EXTRACT, "Extract from large corpora: jobs that can be killed and resumed."),
    "graph": (_EXTRACT, "Build, change, ask, export and explore knowledge graphs."),
    "project": (_ANNOTATE, "Create annotation projects, train with them, and exchange and compare annotations."),
    "benchmark": (
        _EVALUATE,
        "Measure speed, memory and correctness under load. Ctrl-C keeps what was measured so far.",
    ),
}
# Commands that are in the module of another one.
_MODULES = {"models": "info"}


class LazyCommands(UserDict[str, Any]):
    """Commands and groups by name, in the order of the help. Each is imported when it is used.

    Typer builds a validator for each option, and building all commands takes longer than extracting from a sentence.

    The module ``cascade_srn.cli.NAME`` has a function of that name, or the group as ``app``.
    """

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _load(name)
        return self.data[name]


def _load(name: str) -> Any:
    """Import and build a command or group."""
    panel, _ = COMMANDS[name]
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
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help, without importing the commands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help. Importing and building all commands for it took half of the time."""
        commands = self.commands
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=panel) for name, (panel, summary) in COMMANDS.items()
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


# Examples at the end of the help of each command.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "adapt": (
        "cascade-srn adapt abstracts.jsonl.gz --encoder allenai/scibert_scivocab_uncased --output adapted",
        "cascade-srn adapt papers/ --holdout test.json --output adapted --resume",
    ),
    "annotate": (
        "cascade-srn annotate project --texts abstracts/ --labels labels.yaml --model scierc-small --open",
        "cascade-srn annotate project",
    ),
    "benchmark corpus": ("cascade-srn benchmark corpus --device cpu",),
    "benchmark extract": ("cascade-srn benchmark extract --model runs/example --data test.jsonl",),
    "benchmark few-shot": (
        "cascade-srn benchmark few-shot --data crossre/politics,scierc/dygie --seeds 3",
        "cascade-srn benchmark few-shot --data mycorpus --sizes 50,100,200,all --encoders encoders/mine",
    ),
    "benchmark precision": ("cascade-srn benchmark precision --data dev.json,test.json",),
    "benchmark growth": ("cascade-srn benchmark growth --no-plot",),
    "benchmark runtimes": ("cascade-srn benchmark runtimes --models scierc-small,light --data dev.json",),
    "benchmark serve": ("cascade-srn benchmark serve --device cpu",),
    "benchmark srn": ("cascade-srn benchmark srn --device cuda",),
    "benchmark teach": (
        "cascade-srn benchmark teach --data crossre/politics,crossre/science --sizes 50,100",
        "cascade-srn benchmark teach --data scierc/dygie --starts '' --encoders encoders/all-MiniLM-L6-v2",
    ),
    "benchmark train": ("cascade-srn benchmark train --device cuda",),
    "calibrate": ("cascade-srn calibrate runs/example/best dev.jsonl --output calibrated --by-label",),
    "corpus status": ("cascade-srn corpus status out",),
    "corpus verify": ("cascade-srn corpus verify out --json",),
    "distil": (
        "cascade-srn distil runs/large/best --text abstracts.jsonl --recipe student.yaml --output runs/student",
    ),
    "download": ("cascade-srn download scierc --output data/scierc",),
    "evaluate": (
        "cascade-srn evaluate runs/example test.jsonl --per-label",
        "cascade-srn evaluate seed-0 seed-1 seed-2 test.jsonl --report report",
        "cascade-srn evaluate test.json --predictions pure.json --against spert.json",
    ),
    "export": (
        "cascade-srn export runs/example/best --output light",
        "cascade-srn export runs/example/best --output light-int8 --int8 --dev dev.jsonl",
    ),
    "extract": (
        'cascade-srn extract --text "We train a CRF for named entity recognition."',
        "cascade-srn extract papers/ --output found.jsonl",
        "cascade-srn extract papers.csv --field abstract --id-field doi --keep title,year --output found.csv",
        "cascade-srn extract paper.pdf --model runs/example --format html --output paper.html",
    ),
    "graph build": ("cascade-srn graph build found.jsonl --output graph",),
    "graph explain": ('cascade-srn graph explain graph "conditional random field"',),
    "graph export": ("cascade-srn graph export graph --output graph.graphml --min-count 2",),
    "graph neighbours": ('cascade-srn graph neighbours graph "named entity recognition" --type Material',),
    "graph path": ('cascade-srn graph path graph BERT "question answering"',),
    "graph remove": ("cascade-srn graph remove graph --ids 2020.b",),
    "graph serve": ("cascade-srn graph serve graph --open",),
    "graph sync": ("cascade-srn graph sync graph papers",),
    "graph trends": ("cascade-srn graph trends graph BERT LSTM --plot trends.svg",),
    "graph triples": (
        "cascade-srn graph triples graph --head Method --relation USED-FOR --tail Task --by year --top 3",
        'cascade-srn graph triples graph --tail "*entity recognition*" --evidence 1 --format csv',
    ),
    "graph update": ("cascade-srn graph update graph new.jsonl",),
    "info": ("cascade-srn info scierc-small", "cascade-srn info runs/example --json"),
    "mcp": ("cascade-srn mcp --graph graph", "cascade-srn mcp --graph graph --http --port 8002"),
    "models": ("cascade-srn models", "cascade-srn models --json"),
    "push": ("cascade-srn push runs/example/best me/my-model",),
    "project add": ("cascade-srn project add project more.jsonl",),
    "project agreement": ("cascade-srn project agreement project anna ben",),
    "project create": (
        "cascade-srn project create project abstracts/ --labels labels.yaml --model scierc-small",
        "cascade-srn project create project --data train.json --guidelines guidelines.md",
    ),
    "project export": ("cascade-srn project export project corpus.jsonl",),
    "project import": ("cascade-srn project import project tasks.json --from label-studio --annotator anna",),
    "project status": ("cascade-srn project status project",),
    "project train": ("cascade-srn project train project",),
    "reproduce": ("cascade-srn reproduce list", "cascade-srn reproduce main --quick"),
    "select": (
        "cascade-srn select papers/ --model scierc-small --n 200 --output next.jsonl",
        "cascade-srn select abstracts.csv --field abstract --strategy diversity --output tasks.json",
    ),
    "serve": ("cascade-srn serve --port 8000", "cascade-srn serve --model runs/example --host 0.0.0.0"),
    "teach": (
        "cascade-srn teach labels.yaml texts/ --endpoint http://localhost:8000/v1 --model NAME --output project",
        "cascade-srn teach labels.yaml notes.csv --endpoint URL --model NAME --budget 5 --price 0.15,0.60 -o project",
    ),
    "train": (
        "cascade-srn train recipe.yaml training.epochs=5",
        "cascade-srn train recipe.yaml --seeds 5 --jobs 2",
        "cascade-srn train recipe.yaml --raw texts/",
    ),
}


def add_examples(app: typer.Typer, prefix: str = "") -> None:
    """Add the examples to all commands that have no text of their own at the end of their help."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        if lines := EXAMPLES.get(f"{prefix}{name}"):
            # Paragraphs, because the lines of a paragraph are joined.
            text = "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])
            command.epilog = command.epilog or text
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{prefix}{group.name} ")
