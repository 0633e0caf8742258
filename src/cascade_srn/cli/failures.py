"""What goes wrong, told in one sentence instead of a traceback."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from cascade_srn.errors import CascadeError

USAGE, INTERRUPTED = 2, 130

# Which extra brings an optional dependency.
EXTRAS = {"matplotlib": "report", "jinja2": "report", "fastapi": "serve", "uvicorn": "serve", "tensorboard": "train"}


class OneSentence(TyperGroup):
    """A group of commands whose failures are the user's to read: what is wrong on stderr, and an exit code.

    Errors of the package, files that cannot be read or written and missing optional dependencies exit with 2,
    Ctrl-C with 130. Anything else is a defect of ours and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except CascadeError as error:
            raise _failed(str(error)) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None:
                raise
            raise _failed(f"{error.filename}: {error.strerror}") from error
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise _failed(f"{error.name} is not installed; install it by pip install 'cascade-srn[{extra}]'") from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


def _failed(sentence: str) -> typer.Exit:
    typer.echo(f"Error: {' '.join(sentence.split())}", err=True)
    return typer.Exit(USAGE)
