"""The command line as a whole: versions, failures, and nothing imported in vain."""

from importlib.metadata import entry_points

import pytest
import typer
from tests.cli.conftest import output_and_modules, run

import cascade_srn
from cascade_srn.cli import app, main
from cascade_srn.cli.failures import OneSentence
from cascade_srn.errors import ModelError


def _raising(error):
    """A command line with one command, which raises."""
    broken = typer.Typer(cls=OneSentence, pretty_exceptions_enable=False)

    @broken.callback()
    def _group():
        pass

    @broken.command()
    def fail():
        raise error

    return lambda arguments: broken(args=arguments)


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"cascade-srn {cascade_srn.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["benchmark", "--help"], ["benchmark", "extract", "--help"]])
def test_help_imports_no_torch(arguments):
    text, modules = output_and_modules(*arguments)
    assert "Usage" in text
    assert not modules & {"torch", "transformers", "numpy", "matplotlib"}


def test_the_command_is_installed():
    (script,) = entry_points(name="cascade-srn")
    assert script.load() is main


def test_errors_of_the_package_are_one_sentence(capsys):
    assert run("fail", command=_raising(ModelError("there is no model\nin 'x'; give a folder"))) == 2
    assert capsys.readouterr().err == "Error: there is no model in 'x'; give a folder\n"


def test_files_that_cannot_be_written(capsys):
    assert run("fail", command=_raising(PermissionError(13, "Permission denied", "out.json"))) == 2
    assert capsys.readouterr().err == "Error: out.json: Permission denied\n"


def test_a_missing_optional_dependency_names_the_extra(capsys):
    assert run("fail", command=_raising(ModuleNotFoundError("No module", name="matplotlib.figure"))) == 2
    told = "Error: matplotlib.figure is not installed; install it by pip install 'cascade-srn[report]'\n"
    assert capsys.readouterr().err == told


def test_an_interrupt_exits_as_shells_expect(capsys):
    assert run("fail", command=_raising(KeyboardInterrupt())) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), ModuleNotFoundError("x", name="x"), OSError("no file")])
def test_our_own_defects_keep_their_traceback(error):
    with pytest.raises(type(error)):
        _raising(error)(["fail"])


def test_an_unknown_option_is_refused(capsys):
    assert run("convert", "a", "b", "--form", "x") == 2
    assert "No such option" in capsys.readouterr().err


def test_every_command_has_a_sentence_of_help():
    assert {command.callback.__name__ for command in app.registered_commands} == {
        "adapt",
        "calibrate",
        "convert",
        "distil",
        "download",
        "evaluate",
        "extract",
        "reproduce",
        "serve",
        "train",
    }
    for group in [app, *(added.typer_instance for added in app.registered_groups)]:
        assert all(command.callback.__doc__ for command in group.registered_commands)
