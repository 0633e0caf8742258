"""Failures that belong to no command in particular."""

import errno
import os
import signal
import subprocess
import sys

import pytest
import typer
from tests.cli.conftest import COMMAND, run

from cascade_srn import read_documents
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
    command = [*COMMAND, *arguments]
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
    command = [*COMMAND, "--version"]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    told = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writing)
    assert (told.returncode, told.stderr) == (128 + signal.SIGPIPE, "")


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
    assert run("fail", command=app_that_raises(error)) == 2
    assert capsys.readouterr().err == f"Error: {sentence}\n"


def test_a_defect_keeps_its_traceback():
    with pytest.raises(OSError, match="Bad file descriptor"):
        app_that_raises(OSError(errno.EBADF, "Bad file descriptor"))(["fail"])


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (MemoryError(), 2, "Error: there is not enough memory; give less input at once, or smaller batches\n"),
        (RecursionError("too deep"), 2, "Error: the input is nested too deeply (too deep); check the files that were"),
        (KeyboardInterrupt(), 130, "Stopped by Ctrl-C.\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 128 + signal.SIGPIPE, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe", "standard output"), 128 + signal.SIGPIPE, ""),
    ],
)
def test_exit_codes_of_what_no_command_handles(capsys, error, code, sentence):
    assert run("fail", command=app_that_raises(error)) == code
    told = capsys.readouterr().err
    assert told.startswith(sentence)
    assert told.count("\n") <= 1


def with_closed(arguments, *numbers):
    """Run a command with some of its standard streams closed, in a shell, since Python opens all of them."""
    closed = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in numbers)
    command = f'exec "$0" -m cascade_srn "$@" {closed}'
    told = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return told.returncode, told.stdout, told.stderr


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell")
@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams(tmp_path, numbers):
    (tmp_path / "a.jsonl").write_text('{"text": "A b."}\n')
    code, out, err = with_closed(["convert", tmp_path / "a.jsonl", tmp_path / "b.jsonl"], *numbers)
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    # A message in the file would mean that it was opened in place of a closed stream.
    assert [document.text for document in read_documents(tmp_path / "b.jsonl")] == ["A b."]
    code, _, err = with_closed(["convert", tmp_path / "nowhere", tmp_path / "c.jsonl"], *numbers)
    assert code == 2
    assert err.startswith("" if 2 in numbers else "Error: ")


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell")
@pytest.mark.parametrize(
    ("arguments", "number", "sentence"),
    [
        (["--text", "A b."], 1, "standard output is closed; name a file for the results by --output"),
        (["-"], 0, "standard input is closed, but - was given; pipe a text in, or name a file"),
        ([], 0, "there is nothing to extract from; give files, folders, - for standard input, or --text"),
    ],
)
def test_extract_with_a_closed_stream(arguments, number, sentence):
    assert with_closed(["extract", *arguments], number) == (2, "", f"Error: {sentence}\n")


@pytest.mark.skipif(os.name != "posix", reason="names of files are of another kind here")
def test_a_name_that_is_not_utf8_can_be_told(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n.jsonl")
    code, _, err = with_closed(["convert", name, tmp_path / "b.jsonl"])
    assert code == 2
    assert err.startswith("Error: ")
    assert err.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_standard_error_keeps_the_exit_code(tmp_path):
    command = [*COMMAND, "convert", str(tmp_path / "nowhere"), str(tmp_path / "b.jsonl")]
    with open("/dev/full", "wb") as full:
        assert subprocess.run(command, stderr=full, check=False).returncode == 2
