"""Commands as a user gives them: in a process of their own, or, to save time, in this one."""

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
SPLITS = ("train", "dev", "test")

# A third of the recipe's epochs, at somewhat higher a rate: it finds much, though less than the recipe promises.
SHORT = ("training.epochs=7", "training.evaluate_every=7", "training.learning_rate=5e-3")
# A moment of training, of a model that is smaller still: weights to hold against others, not to use.
MOMENT = (
    "model.sequence_encoder=srn",
    "model.hidden_width=16",
    "model.matcher_width=16",
    "fresh.width=32",
    "training.epochs=2",
    "training.evaluate_every=2",
    "training.learning_rate=2e-2",
    "training.trackers=[]",
    "training.save_every=0",
)


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def from_readme(command: str) -> list[str]:
    """The arguments of the one line in the README that shows a command."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^cascade-srn {re.escape(command)}.*$", readme, flags=re.MULTILINE)
    return shlex.split(line, comments=True)[1:]


def in_shell(arguments: list[str], folder: Path) -> Outcome:
    """Run a command in a process of its own, on one thread, so that it does not wait for a second core."""
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
    """Run a command in this process, standing in a folder; an exception that it lets through is a defect."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = stopped.code or 0
    return Outcome(int(code), out.getvalue(), err.getvalue())


def succeed(*arguments: object, folder: Path) -> Outcome:
    """The same for a command that has to succeed."""
    outcome = run(*arguments, folder=folder)
    assert outcome.code == 0, outcome.err
    return outcome


def evaluated(model: str, data: object, *, folder: Path) -> dict[str, Any]:
    """The scores of a model on a file, as ``cascade-srn evaluate`` writes them."""
    succeed("evaluate", model, data, "--json", "scores.json", "--device", "cpu", folder=folder)
    (model,) = read_json(folder / "scores.json")["models"]
    return model["scores"]["directed"]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
