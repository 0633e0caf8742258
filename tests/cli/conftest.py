"""Helpers and fixtures that the tests of the commands share. Test modules import the helpers by name."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer
from tests.small_models import small_model
from tests.training.runs import write_recipe

from cascade_srn.cli import main
from cascade_srn.cli.failures import ErrorReportingGroup

COMMAND = (sys.executable, "-m", "cascade_srn")

_RUN_AND_LIST_MODULES = """
import json, sys
from cascade_srn.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stopped:
    assert not stopped.code, stopped.code
print("\\n" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.fixture
def recipe(tmp_path):
    """A recipe of three epochs over twelve sentences, with its output in ``tmp_path / "run"``."""
    return write_recipe(tmp_path, training={"epochs": 3})


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory):
    """A saved model with random weights."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    small_model().save(folder)
    return folder


def run(*arguments: object, command: Callable[[list[str]], object] = main) -> int:
    """Run a command in this process.

    Args:
        *arguments: Arguments of ``cascade-srn``, converted to strings.
        command: Entry point to call instead of that of ``cascade-srn``.

    Returns:
        The exit code.
    """
    with pytest.raises(SystemExit) as stopped:
        command([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that fails, and check that it prints one line on standard error and nothing else.

    Returns:
        The line, which starts with ``Error:``.
    """
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Error: ")
    assert printed.err.count("\n") == 1
    return printed.err


def raising(error: BaseException) -> Callable[[list[str]], object]:
    """Return a command line with the command ``fail``, which raises an error."""
    app = typer.Typer(cls=ErrorReportingGroup, pretty_exceptions_enable=False)

    @app.callback()
    def _group() -> None:
        pass

    @app.command()
    def fail() -> None:
        raise error

    return lambda arguments: app(args=arguments)


def start(*arguments: object, **options: Any) -> subprocess.Popen[Any]:
    """Start a command in a new process.

    Args:
        *arguments: Arguments of ``cascade-srn``, converted to strings.
        **options: Passed to :class:`subprocess.Popen`.
    """
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **options)


def restore_sigint() -> None:
    """Restore the default handler of SIGINT in a child process, as ``preexec_fn``.

    SIGINT is ignored if the tests run in the background, and child processes inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def output_and_modules(*arguments: str) -> tuple[str, set[str]]:
    """Run a command that succeeds in a new process.

    Returns:
        The output of the command, and the names of the top-level modules that are loaded when it ends.
    """
    command = [sys.executable, "-c", _RUN_AND_LIST_MODULES, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    output, _, modules = printed.rstrip("\n").rpartition("\n")
    return output, set(json.loads(modules))
