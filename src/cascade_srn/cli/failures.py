"""Report errors of a command as one line and an exit code instead of a traceback."""

import errno
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from cascade_srn.errors import CascadeError

if TYPE_CHECKING:
    from cascade_srn.formats.reports import ReadReport

USAGE, INTERRUPTED = 2, 130
CLOSED_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1

# Optional dependencies and the extra that installs each.
EXTRAS = {
    "matplotlib": "report",
    "jinja2": "report",
    "duckdb": "graph",
    "fsspec": "corpus",
    "psutil": "corpus",
    "pyarrow": "corpus",
    "ray": "ray",
    "onnx": "train",
    "onnxscript": "train",
    "fastapi": "serve",
    "mcp": "serve",
    "prometheus_client": "serve",
    "uvicorn": "serve",
    "tensorboard": "train",
    "torch": "train",
    "transformers": "train",
    "accelerate": "train",
}
# Parameters whose option has another name.
FLAGS = {
    "allowed_hosts": "--allowed-host",
    "changes": "--set",
    "cors_origins": "--cors-origin",
    "keep_alive_seconds": "--keep-alive",
    "limits.body_bytes": "--max-bytes",
    "limits.characters": "--max-characters",
    "limits.texts": "--max-texts",
    "limits.threshold": "--min-threshold",
    "generic_labels": "--generic-label",
    "max_error_share": "--max-errors",
    "n_resamples": "--resamples",
    "n_seeds": "--seeds",
    "n_tasks": "--tasks",
    "private": "--public",
    "request_seconds": "--timeout",
    "shutdown_seconds": "--shutdown-timeout",
    "thresholds": "--threshold",
}
# The system reports these without a file name.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_REPORTED = "reported"
_NAMES_AND_NUMBERS = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
_closed: set[str] = set()


class ErrorReportingGroup(TyperGroup):
    """A group of commands that prints one line on standard error for each expected failure.

    Exit codes: 2 for errors of the package, unreadable or unwritable files, a full disk, exhausted memory, input that
    is nested too deeply and missing extras; 130 for Ctrl-C; 141 for a closed pipe. Other exceptions are bugs and keep
    their traceback.
    """

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Parse the arguments. This prints the help and the version."""
        with _errors_as_exit():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _errors_as_exit():
            result = super().invoke(ctx)
            # An error in the flush at interpreter exit could not be reported.
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
            return result


def prepare_streams() -> None:
    """Open closed standard streams on the null device, and escape characters that standard output cannot encode.

    The descriptor of a closed stream would be reused by the next file or socket, and messages would be written there.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            _closed.add(name)
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.set_inheritable(number, True)
            stream = os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
            setattr(sys, name, stream)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def was_closed(name: str) -> bool:
    """Return whether ``stdin``, ``stdout`` or ``stderr`` was closed when the command started."""
    return getattr(sys, name) is None or name in _closed


def discard_stdout() -> None:
    """Redirect standard output to the null device, so that the flush at interpreter exit does not fail."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


def mark_reported(error: BaseException) -> None:
    """Mark an interruption that the command has already reported."""
    error.add_note(_REPORTED)


def print_note(message: str) -> None:
    """Print a line that starts with ``Note:`` on standard error."""
    typer.echo(f"Note: {join_lines(message)}", err=True)


class FoldedNotes:
    """Prints notes, and on a terminal only the first of those that differ in numbers and names alone.

    A file or pipe gets all notes, so that it names everything that was skipped.
    """

    def __init__(self) -> None:
        self._folds = sys.stderr.isatty()
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def tell(self, message: str) -> None:
        """Print a note, or count it."""
        key = _NAMES_AND_NUMBERS.sub("", message.partition(": ")[2] or message)
        self._counts[key] += 1
        if self._first.setdefault(key, message) is message or not self._folds:
            print_note(message)

    def finish(self) -> None:
        """Print the numbers of the notes that were only counted."""
        for key, first in self._first.items():
            if self._folds and self._counts[key] > 1:
                print_note(f"{self._counts[key] - 1} more like this: {first}")
        self._counts.clear()
        self._first.clear()


def print_read_notes(report: "ReadReport") -> None:
    """Print notes on skipped data, on fields that are not read, expanded offsets, and escaped tokens."""
    from cascade_srn.formats.reports import (
        ESCAPES,
        EXPANDED,
        EXPANDED_MENTION,
        LONG_SENTENCE,
        WITHOUT_ENTITY,
        may_be_missed,
    )

    for kind, count in report.skipped.items():
        print_note(f"skipped {count} x {kind} (first: {report.examples[kind][0]})")
    for kind, count in report.noted.items():
        if (
            may_be_missed(kind)
            or kind.endswith(" left out")
            or kind in (EXPANDED, EXPANDED_MENTION, ESCAPES, LONG_SENTENCE, WITHOUT_ENTITY)
        ):
            print_note(f"{count} x {kind} (first: {report.examples[kind][0]})")


@contextmanager
def format_option(name: str, *, skips: bool = False) -> Iterator[None]:
    """Name the option of a command, such as ``from``, in errors about a format.

    With ``skips``, the command has ``--skip-malformed``, which errors about a part of the data suggest.
    """
    try:
        yield
    except CascadeError as error:
        error.option = name if error.option == "format" else error.option
        if skips and error.can_skip:
            if "skip" not in error.hint.lower():
                error.hint = f"{error.hint}, or skip malformed data" if error.hint else "Skip malformed data"
            error.option = ",".join(filter(None, (error.option, "skip_malformed")))
        raise


def join_lines(message: str) -> str:
    """Join the lines of a message. Other spaces are kept, since they may be part of a name."""
    return " ".join(stripped for line in message.splitlines() if (stripped := line.strip()))


@contextmanager
def _errors_as_exit() -> Iterator[None]:
    """Print an expected exception as one line and raise ``typer.Exit``."""
    try:
        yield
    except CascadeError as error:
        raise _fail(error.message(_flag(error.option))) from error
    except BrokenPipeError as error:
        # The reader has closed the pipe deliberately, as head does.
        _discard_failing_stdout()
        raise typer.Exit(CLOSED_PIPE) from error
    except OSError as error:
        raise _system_failure(error) from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(missing)
        if extra is None:
            raise
        raise _fail(f"{error.name} is not installed. Run pip install 'cascade-srn[{extra}]'.") from error
    except MemoryError as error:
        raise _fail("Not enough memory. Use less input or smaller batches.") from error
    except RecursionError as error:
        raise _fail(f"The input is nested too deeply ({error}). Check the input files.") from error
    except KeyboardInterrupt as error:
        if _REPORTED not in getattr(error, "__notes__", ()):
            typer.echo("Stopped by Ctrl-C.", err=True)
        raise typer.Exit(INTERRUPTED) from error


def _flag(option: str) -> str:
    """Return the command-line form of parameters. Recipe settings such as ``training.epochs`` stay unchanged."""
    if "," in option:
        return ", ".join(map(_flag, option.split(",")))
    if not option or option in FLAGS:
        return FLAGS.get(option, "")
    return option if "." in option else f"--{option.replace('_', '-')}"


def _system_failure(error: OSError) -> BaseException:
    """Return the exception to raise for an error of the operating system; the error itself if it is a bug."""
    path = error.filename
    if _discard_failing_stdout() and path is None:
        path = "standard output"
    if path is None and error.errno not in _DISK_ERRORS:
        return error
    hint = ". Free some space, or write elsewhere." if error.errno in _DISK_ERRORS else ""
    name = "standard output or a file" if path is None else os.fsdecode(path) if isinstance(path, bytes) else str(path)
    return _fail(f"{name}: {error.strerror}{hint}")


def _discard_failing_stdout() -> bool:
    """Discard standard output if it cannot be flushed, and return whether that was the case."""
    if sys.stdout is None or sys.stdout.closed:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()
        return True
    return False


def _fail(message: str) -> typer.Exit:
    with suppress(OSError):  # standard error may be full or closed
        typer.echo(f"Error: {join_lines(message)}", err=True)
    return typer.Exit(USAGE)
