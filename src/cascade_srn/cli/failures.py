"""What goes wrong, told in one sentence instead of a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from cascade_srn.errors import CascadeError

USAGE, INTERRUPTED = 2, 130

# Which extra brings an optional dependency.
EXTRAS = {
    "matplotlib": "report",
    "jinja2": "report",
    "fastapi": "serve",
    "httptools": "serve",
    "uvicorn": "serve",
    "tensorboard": "train",
}
# What a place that is written to has against more, which the system tells without its name.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class OneSentence(TyperGroup):
    """A group of commands whose failures are the user's to read: what is wrong on stderr, and an exit code.

    Errors of the package, files that cannot be read or written, a full disk behind standard output and missing
    optional dependencies exit with 2, Ctrl-C with 130. Anything else is a defect of ours and keeps its traceback.
    """

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Read the arguments, which can already show something: the help, or the version."""
        with _told():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong in here becomes a sentence and an exit code."""
    try:
        yield
    except CascadeError as error:
        raise _failed(str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename
        if _standard_output_fails() and where is None:
            where = "standard output"
        if where is None and error.errno not in _FULL:
            raise
        advice = "; make room, or write elsewhere" if error.errno in _FULL else ""
        raise _failed(f"{where or 'standard output or a file'}: {error.strerror}{advice}") from error
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise _failed(f"{error.name} is not installed; install it by pip install 'cascade-srn[{extra}]'") from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error


def _standard_output_fails() -> bool:
    """Whether standard output has something left that it cannot write; then that is given up.

    It would fail a second time when the process ends, past everything that could tell of it.
    """
    if sys.stdout is None or sys.stdout.closed:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def one_line(sentence: str) -> str:
    """A message without its line breaks; other spaces may be part of a name."""
    return " ".join(stripped for line in sentence.splitlines() if (stripped := line.strip()))


def _failed(sentence: str) -> typer.Exit:
    typer.echo(f"Error: {one_line(sentence)}", err=True)
    return typer.Exit(USAGE)
