"""Failures that no single command handles: one line on standard error and an exit code."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from tests.cli.conftest import COMMAND, raising, run

from cascade_srn import read_documents
from cascade_srn.cli.failures import FoldedNotes
from cascade_srn.errors import ConfigError, DataError, ModelError

pytestmark = pytest.mark.slow

FULL = "No space left on device"


def run_with_full_stdout(arguments, *, unbuffered):
    command = [*COMMAND, *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    return ended.returncode, ended.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["convert", "--help"]])
def test_a_full_standard_output(arguments):
    code, printed = run_with_full_stdout(arguments, unbuffered="")
    assert code == 2
    assert printed.startswith(f"Error: standard output: {FULL}")
    assert printed.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_standard_output_without_a_buffer():
    code, printed = run_with_full_stdout(["--version"], unbuffered="1")
    assert code == 2
    assert printed.startswith(f"Error: standard output or a file: {FULL}")


def test_a_closed_pipe_prints_nothing():
    """As in ``cascade-srn --version | true``."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "--version"]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOENT, "No such file", "a.txt"), "a.txt: No such file"),
        (PermissionError(13, "Permission denied", b"out.json"), "out.json: Permission denied"),
        (DataError("two  spaces\n  and a line\r\n\nmore"), "two  spaces and a line more"),
        (
            ConfigError("epochs is 0", "Set at least 1", option="training.epochs"),
            "epochs is 0. Set at least 1 (training.epochs).",
        ),
        (ConfigError("floor is 2", "Set at most 1", option="floor"), "floor is 2. Set at most 1 (--floor)."),
        (ConfigError("x is 2", "Set 1", option="batch_words"), "x is 2. Set 1 (--batch-words)."),
        (ConfigError("x is 2", "Set 1", option="request_seconds"), "x is 2. Set 1 (--timeout)."),
        (ModelError("no model", "Pass a folder"), "no model. Pass a folder."),
    ],
)
def test_expected_errors_are_one_line(capsys, error, line):
    assert run("fail", command=raising(error)) == 2
    assert capsys.readouterr().err == f"Error: {line}\n"


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), f"standard output or a file: {FULL}"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), f"a.txt: {FULL}"),
    ],
)
def test_a_full_disk_is_one_line(capsys, error, start):
    assert run("fail", command=raising(error)) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"Error: {start}")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "extra"), [("matplotlib.figure", "report"), ("torch", "train"), ("accelerate", "train")]
)
def test_a_missing_optional_dependency_names_the_extra(capsys, name, extra):
    assert run("fail", command=raising(ModuleNotFoundError("No module", name=name))) == 2
    assert f"'cascade-srn[{extra}]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("ours"),
        ModuleNotFoundError("x", name="x"),
        OSError("no file"),
        OSError(errno.EBADF, "Bad file descriptor"),
    ],
)
def test_bugs_keep_their_traceback(error):
    with pytest.raises(type(error)):
        raising(error)(["fail"])


@pytest.mark.parametrize(
    ("error", "code", "start"),
    [
        (MemoryError(), 2, "Error: "),
        (RecursionError("too deep"), 2, "Error: "),
        (KeyboardInterrupt(), 130, "Stopped by Ctrl-C.\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 128 + signal.SIGPIPE, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe", "standard output"), 128 + signal.SIGPIPE, ""),
    ],
)
def test_exit_codes(capsys, error, code, start):
    assert run("fail", command=raising(error)) == code
    printed = capsys.readouterr().err
    assert printed.startswith(start)
    assert printed.count("\n") == bool(start)


def with_closed(arguments, *numbers):
    """Run a command with some of its standard streams closed, in a shell, since Python opens all of them."""
    return with_python(["-m", "cascade_srn", *arguments], *numbers)


def with_python(arguments, *numbers):
    closed = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in numbers)
    command = f'exec "$0" "$@" {closed}'
    ended = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


# One process for two commands.
_CONVERT_TWICE = """
import sys
from cascade_srn.cli import main
source, target, missing = sys.argv[1:]
try:
    main(["convert", source, target])
except SystemExit as stopped:
    assert not stopped.code
main(["convert", missing, target + ".other.jsonl"])
"""


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell")
@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams(tmp_path, numbers):
    (tmp_path / "a.jsonl").write_text('{"text": "A b."}\n')
    paths = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "nowhere"
    code, out, err = with_python(["-c", _CONVERT_TWICE, *paths], *numbers)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert ("Error: " in err) == (2 not in numbers)
    # A message in the file would mean that it was opened in place of a closed stream.
    assert [document.text for document in read_documents(tmp_path / "b.jsonl")] == ["A b."]


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell")
@pytest.mark.parametrize(
    ("arguments", "number", "data"),
    [(["--text", "A b."], 1, "standard output"), (["-"], 0, "standard input"), ([], 0, "--text")],
)
def test_extract_with_a_closed_stream(arguments, number, data):
    code, out, err = with_closed(["extract", *arguments], number)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert data in err
    assert err.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="names of files are of another kind here")
def test_a_file_name_that_is_not_utf8_is_printed(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n.jsonl")
    code, _, err = with_closed(["convert", name, tmp_path / "b.jsonl"])
    assert code == 2
    assert err.startswith("Error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_repeated_notes_are_folded_on_a_terminal(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    notes = FoldedNotes()
    for line in range(3):
        notes.tell(f"a.jsonl, line {line}: the record has no field 'text'")
    notes.tell("b.jsonl, line 7: the line is empty")
    notes.finish()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (3 if terminal else 4)
    assert ("2 more" in lines[-1]) is terminal
    assert all(line.startswith("Note: ") for line in lines)
