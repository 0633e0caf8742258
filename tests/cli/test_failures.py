"""Failures that belong to no command in particular."""

import errno
import os
import subprocess
import sys

import pytest
import typer

from cascade_srn.cli.failures import OneSentence
from cascade_srn.errors import DataError

FULL = "No space left on device; make room, or write elsewhere"


def app_that_raises(error):
    app = typer.Typer(cls=OneSentence, pretty_exceptions_enable=False)

    @app.command()
    def fail() -> None:
        raise error

    @app.command()
    def other() -> None:
        pass

    return app


def at_a_full_device(arguments, *, unbuffered):
    command = [sys.executable, "-m", "cascade_srn.cli", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    return told.returncode, told.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["convert", "--help"]])
def test_a_full_standard_output(arguments):
    assert at_a_full_device(arguments, unbuffered="") == (2, f"Error: standard output: {FULL}\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_standard_output_that_keeps_nothing_back():
    assert at_a_full_device(["--version"], unbuffered="1") == (2, f"Error: standard output or a file: {FULL}\n")


def test_a_reader_that_went_away_is_told_nothing():
    """As in ``cascade-srn --version | true``."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "cascade_srn.cli", "--version"]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    told = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writing)
    assert (told.returncode, told.stderr) == (1, "")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), f"standard output or a file: {FULL}"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), f"a.txt: {FULL}"),
        (OSError(errno.ENOENT, "No such file", "a.txt"), "a.txt: No such file"),
        (DataError("two  spaces\n  and a line\r\n\nmore"), "two  spaces and a line more"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(capsys, error, sentence):
    with pytest.raises(SystemExit) as stopped:
        app_that_raises(error)(["fail"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"Error: {sentence}\n"


def test_a_defect_keeps_its_traceback():
    with pytest.raises(OSError, match="Bad file descriptor"):
        app_that_raises(OSError(errno.EBADF, "Bad file descriptor"))(["fail"])
