"""Report failures of a command as one sentence instead of a traceback."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from cascade_srn.data.reports import OUTWARD, ReadReport, may_be_missed
from cascade_srn.errors import CascadeError


def tell_unread(report: ReadReport) -> None:
    """Say what there is in the data that its format does not read, a misspelt field for one, or reads otherwise."""
    for kind, count in report.noted.items():
        if may_be_missed(kind) or kind == OUTWARD:
            typer.echo(f"Note: {count} x {kind} (first: {report.examples[kind][0]})", err=True)


USAGE, INTERRUPTED = 2, 130
CLOSED_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1

# Which extra brings an optional dependency.
EXTRAS = {
    "matplotlib": "report",
    "jinja2": "report",
    "fastapi": "serve",
    "httptools": "serve",
    "prometheus_client": "serve",
    "uvicorn": "serve",
    "tensorboard": "train",
}
# Errors of a place that cannot take more data, which the system reports without a file name.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_REPORTED = "reported"
_closed: set[str] = set()


class OneSentence(TyperGroup):
    """A group of commands that reports failures as one sentence on stderr and an exit code.

    Errors of the package, files that cannot be read or written, a full disk, exhausted memory, input that is nested
    too deeply and missing optional dependencies exit with 2, Ctrl-C with 130, a closed pipe with 141. Anything else is
    a defect of ours and keeps its traceback.
    """

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Parse the arguments, which can already print something: the help, or the version."""
        with _reported():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with _reported():
            found = super().invoke(ctx)
            # What is still in the buffer would otherwise fail when the interpreter ends, where nothing reports it.
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
            return found


def prepare_streams() -> None:
    """Open standard streams that were closed, and let names that are not UTF-8 be printed.

    A closed stream is None in Python, and its number would go to the next file or socket that is opened, into which
    messages would then be written.
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
    """Tell whether a standard stream (``stdin``, ``stdout``, ``stderr``) was closed when the command started."""
    return getattr(sys, name) is None or name in _closed


def give_up_stdout() -> None:
    """Send what is left for standard output nowhere, lest it fail a second time when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def mark_reported(error: BaseException) -> None:
    """Mark an interruption that a command has reported in its own words, so that it is not reported again."""
    error.add_note(_REPORTED)


@contextmanager
def _reported() -> Iterator[None]:
    """Turn an exception into a sentence and an exit code."""
    try:
        yield
    except CascadeError as error:
        raise _failed(error.message(_flag(error.option))) from error
    except BrokenPipeError as error:
        # The reader has what it wants, as head has, so there is nothing to report.
        _stdout_fails()
        raise typer.Exit(CLOSED_PIPE) from error
    except OSError as error:
        raise _of_system(error) from error
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise _failed(f"{error.name} is not installed; install it by pip install 'cascade-srn[{extra}]'") from error
    except MemoryError as error:
        raise _failed("there is not enough memory; give less input at once, or smaller batches") from error
    except RecursionError as error:
        raise _failed(f"the input is nested too deeply ({error}); check the files that were given") from error
    except KeyboardInterrupt as error:
        if _REPORTED not in getattr(error, "__notes__", ()):
            typer.echo("Stopped by Ctrl-C.", err=True)
        raise typer.Exit(INTERRUPTED) from error


def _flag(option: str) -> str:
    """Return an option as it is given on the command line; settings of a recipe, such as ``training.epochs``, as is."""
    return option if not option or "." in option else f"--{option.replace('_', '-')}"


def _of_system(error: OSError) -> BaseException:
    """Return what to raise for an error of the operating system: itself where it is a defect of ours."""
    where = error.filename
    if _stdout_fails() and where is None:
        where = "standard output"
    if where is None and error.errno not in _FULL:
        return error
    advice = "; make room, or write elsewhere" if error.errno in _FULL else ""
    return _failed(f"{_shown(where) or 'standard output or a file'}: {error.strerror}{advice}")


def _shown(name: Any) -> str:
    return "" if name is None else os.fsdecode(name) if isinstance(name, str | bytes) else str(name)


def _stdout_fails() -> bool:
    """Tell whether standard output holds data that it cannot write; if so, give that up."""
    if sys.stdout is None or sys.stdout.closed:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        give_up_stdout()
        return True
    return False


def one_line(sentence: str) -> str:
    """Return a message without its line breaks; other spaces may be part of a name."""
    return " ".join(stripped for line in sentence.splitlines() if (stripped := line.strip()))


def _failed(sentence: str) -> typer.Exit:
    with suppress(OSError):  # a full standard error leaves nowhere to report to but the exit code
        typer.echo(f"Error: {one_line(sentence)}", err=True)
    return typer.Exit(USAGE)
