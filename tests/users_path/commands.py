"""Run commands as a user does: in a new process, or in this process to save time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.cli import main

ROOT = Path(__file__).parents[2]
NEWS = "examples/news"

# A third of the epochs of the recipe, with a higher learning rate.
SHORT = ("training.epochs=7", "training.evaluate_every=7", "training.learning_rate=5e-3")


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def from_readme(command: str) -> list[str]:
    """Return the arguments of a command as the README shows it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^cascade-srn {re.escape(command)}.*$", readme, flags=re.MULTILINE)
    return shlex.split(line, comments=True)[1:]


def in_shell(arguments: list[str], folder: Path) -> Outcome:
    """Run a command in a new process with one thread."""
    done = subprocess.run(
        [sys.executable, "-m", "cascade_srn", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def run(*arguments: object, folder: Path) -> Outcome:
    """Run a command in this process, with a working folder."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = stopped.code or 0
    return Outcome(int(code), out.getvalue(), err.getvalue())


def succeed(*arguments: object, folder: Path) -> Outcome:
    """Run a command in this process, and check that it succeeds."""
    outcome = run(*arguments, folder=folder)
    assert outcome.code == 0, outcome.err
    return outcome


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
