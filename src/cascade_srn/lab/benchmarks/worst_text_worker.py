"""Measure texts in a child process that is killed when a text costs too much.

The child loads the model once. After a kill, a new child is started for the next text.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from cascade_srn.errors import CascadeError

# A text that takes less CPU time than this is measured again: short times vary most.
_SHORT_SECONDS = 0.3
_SHORT_RUNS = 3
# How often the parent looks at the CPU time and the memory of the child.
_POLL_SECONDS = 0.02
# Wall-clock limit as a multiple of the CPU limit, for a child that waits or a machine that is busy.
_WALL_FACTOR = 5
_LOADING_SECONDS = 300.0
_WARM_UP = "We train a tagger for named entity recognition. It finds names of people and places in short texts. "


class WorkerError(CascadeError):
    """The measuring process cannot be used: the model does not load, or the process ends by itself."""


@dataclass(frozen=True)
class Cost:
    """What one text costs."""

    outcome: str  # "done", "failed", or why the text was given up: "time limit", "memory limit", "process died"
    cpu_seconds: float  # CPU time of all threads; a lower bound if the text was given up
    extra_bytes: int  # Peak resident set above that before the text; a lower bound if the text was given up
    # CPU time of the split into sentences and words; None if the text was given up.
    segment_seconds: float | None = None
    counts: dict[str, int] | None = None  # Words, sentences, entities and relations of the document
    error: str | None = None  # Error message of a text that failed

    @property
    def is_bound(self) -> bool:
        """Whether the figures are lower bounds because the text was given up."""
        return self.outcome not in ("done", "failed")


class Usage(NamedTuple):
    """CPU time and resident set of a process."""

    cpu_seconds: float
    resident: int


class Worker:
    """A child process that measures texts within limits. The memory limit is enforced on Linux only."""

    def __init__(self, folder: Path, *, threads: int, limit_seconds: float, limit_bytes: int) -> None:
        self._arguments = folder, threads
        self._limit_seconds = limit_seconds
        self._limit_bytes = limit_bytes
        self._process: Any = None
        self._connection: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the child and wait until its model is loaded, unless it runs already."""
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, *self._arguments), daemon=True)
        self._process.start()
        other.close()
        problem = "no answer"
        try:
            if self._connection.poll(_LOADING_SECONDS):
                problem = self._connection.recv()
        except EOFError:
            problem = "the process ended"
        if problem:
            self.stop()
            raise WorkerError(
                f"the measuring process could not load the model ({problem})", "Check the model folder", option="model"
            )

    def measure(self, text: str) -> Cost:
        """Measure one text. The child is killed if the text exceeds a limit."""
        self.start()
        before = used = _usage(self._process.pid)
        started, peak = time.monotonic(), 0
        try:
            self._connection.send(text)
            while not self._connection.poll(_POLL_SECONDS):
                used = _usage(self._process.pid) or used
                peak = max(peak, used.resident if used else 0)
                if exceeded := self._exceeded(before, used, time.monotonic() - started):
                    break
            else:
                cost: Cost = self._connection.recv()
                return cost
        except (OSError, EOFError):
            exceeded = "process died"
        self.stop()
        if before is None or used is None:
            return Cost(exceeded, time.monotonic() - started, 0)
        return Cost(exceeded, used.cpu_seconds - before.cpu_seconds, max(0, peak - before.resident))

    def stop(self) -> None:
        """Kill the child, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _exceeded(self, before: Usage | None, used: Usage | None, seconds: float) -> str | None:
        if used is not None and before is not None:
            if used.resident > self._limit_bytes:
                return "memory limit"
            if used.cpu_seconds - before.cpu_seconds > self._limit_seconds:
                return "time limit"
        limit = self._limit_seconds * (_WALL_FACTOR if used is not None else 1)
        return "time limit" if seconds > limit else None


def _usage(pid: int) -> Usage | None:
    """Return what a process uses, or None where the system does not tell (not Linux, or the process has ended)."""
    try:
        # The name in parentheses may hold anything; the fields after it are numbers.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Usage(cpu, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        return None


def _serve(connection: Connection, folder: Path, threads: int) -> None:
    """Load the model, send an empty string or what is wrong, and then measure each text. Runs in the child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which keeps the results
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Waiting threads that spin would count as CPU time of the text.
    os.environ |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    for stream in (1, 2):  # messages of libraries
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    import torch

    from cascade_srn.extractor import Extractor

    torch.set_num_threads(threads)
    try:
        extractor = Extractor.from_pretrained(folder)
    except CascadeError as error:
        connection.send(str(error))
        return
    for n_sentences in (1, 20):
        extractor.extract(_WARM_UP * n_sentences)
    connection.send("")
    while True:
        connection.send(_measure(extractor, connection.recv()))


def _measure(extractor: Any, text: str) -> Cost:
    import torch

    from cascade_srn.lab.benchmarks.measuring import peak_memory
    from cascade_srn.types import Document

    totals: list[float] = []
    documents: list[Document] = []

    def extract() -> None:
        started = time.process_time()
        try:
            documents.append(extractor.extract(text))
        finally:
            totals.append(time.process_time() - started)

    try:
        memory = peak_memory(extract, torch.device("cpu"))
        while totals[0] < _SHORT_SECONDS and len(totals) < _SHORT_RUNS:
            extract()
        started = time.process_time()
        extractor.segmenter(text)
        split = time.process_time() - started
    except Exception as failure:
        # Any failure is a result of the measurement; the parent reports it with the text.
        return Cost("failed", min(totals), 0, error=f"{type(failure).__name__}: {str(failure)[:300]}")
    found = documents[0]
    counts = {
        "words": sum(len(sentence) for sentence in found.sentences),
        "sentences": len(found.sentences),
        "entities": len(found.entities),
        "relations": len(found.relations),
    }
    return Cost("done", min(totals), max(0, memory.peak - memory.before), split, counts)


def _end_with_parent() -> None:
    """End the child when its parent is gone: it may be in the middle of a text that takes hours."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
