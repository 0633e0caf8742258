"""Run several commands in parallel, each in its own process. A single training rarely uses a whole GPU."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.runs.process import sigterm_as_exit

# Seconds that a process has to end after SIGTERM, and between two looks at the processes.
_PATIENCE, _INTERVAL = 10.0, 0.1


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its name, exit code, duration in seconds and log file."""

    name: str
    code: int
    seconds: float
    log: Path

    @property
    def last_words(self) -> str:
        """Last line of the log that is not blank."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run_parallel(commands: Mapping[str, Sequence[str]], n_jobs: int, folder: Path) -> Iterator[Ended]:
    """Run commands of ``cascade-srn``, given as arguments by name, in parallel. Their logs are ``NAME.log``.

    CPU cores are divided among the processes. All processes are ended if the caller stops iterating, or on Ctrl-C or
    SIGTERM.
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
                    # A process that is started but not yet listed would not be ended.
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
    """Terminate processes, and kill those that do not end."""
    for process in processes:
        process.terminate()
    for process in processes:
        end_process(process, _PATIENCE)


def end_process(process: subprocess.Popen[Any], seconds: float) -> None:
    """Terminate a process, and kill it if it does not end in time. Nothing happens if it has ended."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
