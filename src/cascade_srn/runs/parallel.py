"""Several runs at once, each in a process of its own: one training alone seldom keeps a GPU busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cascade_srn.runs.process import sigterm_as_exit

# How long a process may take to end when it is asked to, in seconds, and how often one looks.
_PATIENCE, _INTERVAL = 10.0, 0.1


@dataclass(frozen=True)
class Ended:
    """A run that has ended: its name, exit code, how long it took in seconds, and where it told of it."""

    name: str
    code: int
    seconds: float
    log: Path

    @property
    def last_words(self) -> str:
        """The last line of its log that is not blank."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run_parallel(commands: Mapping[str, Sequence[str]], n_jobs: int, folder: Path) -> Iterator[Ended]:
    """Run commands of ``cascade-srn``, so many at a time, each telling its log ``NAME.log``; yields as they end.

    Processor cores are shared out among them. Whoever stops listening, is interrupted or told to
    terminate ends them all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting = list(commands.items())
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    threads = max(1, (os.cpu_count() or 1) // max(1, min(n_jobs, len(waiting))))
    environment = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", **os.environ}
    with ExitStack() as logs, sigterm_as_exit() as termination:
        try:
            while waiting or running:
                while waiting and len(running) < n_jobs:
                    name, arguments = waiting.pop(0)
                    log = logs.enter_context((folder / f"{name}.log").open("wb"))
                    command = [sys.executable, "-m", "cascade_srn", *arguments]
                    # A process that has started but is not listed yet would be left running.
                    with termination.postponed():
                        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
                        running[name] = process, time.monotonic()
                for name, (process, started) in list(running.items()):
                    code = process.poll()
                    if code is not None:
                        del running[name]
                        yield Ended(name, code, time.monotonic() - started, folder / f"{name}.log")
                time.sleep(_INTERVAL)
        finally:
            _end([process for process, _ in running.values()])


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to end, and make those that do not."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
