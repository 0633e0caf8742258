import os
import shlex
import subprocess
import sys
from importlib.metadata import entry_points, metadata

import pytest
from tests.cli.conftest import output_and_modules, run
from typer.main import get_command

import cascade_srn
from cascade_srn import cli
from cascade_srn.__main__ import main as run_and_exit
from cascade_srn.cli import app
from cascade_srn.cli.failures import EXTRAS, FLAGS

HEAVY = {"torch", "transformers", "numpy", "accelerate", "matplotlib", "jinja2", "fastapi", "starlette", "uvicorn"}


def _commands(group=None, prefix=()):
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*prefix, name))
        else:
            yield (*prefix, name), command


COMMANDS = dict(_commands())


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(capsys, flag):
    assert run(flag) == 0
    assert capsys.readouterr().out == f"cascade-srn {cascade_srn.__version__}\n"


@pytest.mark.parametrize("module", ["cascade_srn", "cascade_srn.cli"])
def test_as_a_module(module):
    shown = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("cascade-srn ")


@pytest.mark.parametrize("arguments", [("--help",), ("reproduce", "list")])
def test_help_imports_nothing_heavy(arguments):
    text, modules = output_and_modules(*arguments)
    assert text
    assert not modules & HEAVY


def test_extraction_does_not_import_what_it_does_not_need():
    text, modules = output_and_modules("extract", "--text", "We train a CRF.", "--format", "jsonl")
    assert text
    assert not modules & {"torch", "transformers", "huggingface_hub", "pyarrow", "requests", "yaml"}


def test_commands_import_nothing_heavy():
    code = "import sys; from cascade_srn.cli import LazyCommands; dict(LazyCommands().items())"
    code += f"; sys.exit(bool({HEAVY!r} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_help_has_the_summary_of_each_command(name):
    """The help does not import the commands."""
    command = get_command(app).commands[name]
    assert " ".join(command.help.partition("\n\n")[0].split()) == cli.COMMANDS[name][1]


def test_only_the_command_that_is_used_is_built():
    group = get_command(app)
    context = group.make_context("cascade-srn", ["info", "model"])
    assert group.resolve_command(context, ["info", "model"])[1].name == "info"
    assert group.list_commands(context) == list(cli.COMMANDS)
    assert [name for name, command in group.commands.data.items() if command is not None] == ["info"]


def test_a_misspelled_command(capsys):
    assert run("exprt") == 2
    assert "'export'" in capsys.readouterr().err


def test_the_command_is_installed():
    (script,) = entry_points(name="cascade-srn")
    assert script.load() is run_and_exit


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_help_is_complete_and_refers_to_no_file_outside_the_wheel(name):
    command = COMMANDS[name]
    texts = [command.help, *(parameter.help for parameter in command.params)]
    assert all(texts)
    assert not [text for text in texts if any(part in text for part in ("docs/", "recipes/", ".md"))]


def test_every_flag_in_messages_is_an_option():
    known = {option for command in COMMANDS.values() for parameter in command.params for option in parameter.opts}
    assert set(FLAGS.values()) <= known


@pytest.mark.parametrize("arguments", [(), ("extract",), ("graph",), ("graph", "build")])
def test_short_help(capsys, arguments):
    assert run(*arguments, "-h") == 0
    short = capsys.readouterr().out
    assert run(*arguments, "--help") == 0
    assert capsys.readouterr().out == short
    assert "Usage: " in short


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_examples_have_options_that_exist(name):
    command = COMMANDS[name]
    text = f"{command.help}\n{command.epilog or ''}"
    start = " ".join(("cascade-srn", *name))
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith(start)]
    assert lines
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for line in lines:
        assert {word for word in shlex.split(line) if word.startswith("-") and word != "-"} <= options


@pytest.mark.slow
@pytest.mark.parametrize(("words", "expected"), [("cascade-srn ev", "evaluate"), ("cascade-srn graph ex", "explain")])
def test_shell_completion(words, expected):
    variables = {"_CASCADE_SRN_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    shown = subprocess.run(
        [sys.executable, "-m", "cascade_srn"], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    assert expected in shown.stdout


def test_missing_libraries_name_an_extra_that_there_is():
    assert set(EXTRAS.values()) <= set(metadata("cascade-srn").get_all("Provides-Extra"))
