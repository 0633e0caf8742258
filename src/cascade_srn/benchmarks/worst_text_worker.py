"""Measure texts in a child process that is killed when a text costs too much.

The parent sends one JSON object a line, ``{"text": …}``, and the child answers each with one line. The child loads the
model once; after a kill a new child is started for the next text.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

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
    """What one text costs.

    Attributes:
        outcome: "done", "failed", or why the text was given up: "time limit", "memory limit", "process died".
        cpu_seconds: CPU time of all threads; a lower bound if the text was given up.
        extra_bytes: Peak resident set above that before the text; a lower bound if the text was given up.
        segment_seconds: CPU time of the split into sentences and words; None if the text was given up.
        counts: Words, sentences, entities and relations of the document.
        error: Error message of a text that failed.
    """

    outcome: str
    cpu_seconds: float
    extra_bytes: int
    segment_seconds: float | None = None
    counts: dict[str, int] | None = None
    error: str | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the figures are lower bounds because the text was given up."""
        return self.outcome not in ("done", "failed")


class Worker:
    """A child process that measures texts within limits.

    Args:
        folder: Model folder.
        threads: Threads of torch in the child.
        limit_seconds: CPU seconds after which a text is given up.
        limit_bytes: Resident set at which a text is given up. Enforced on Linux only.
    """

    def __init__(self, folder: Path, *, threads: int, limit_seconds: float, limit_bytes: int) -> None:
        self._folder = folder
        self._threads = threads
        self._limit_seconds = limit_seconds
        self._limit_bytes = limit_bytes
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors: IO[str] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the child and wait until its model is loaded, unless it runs already.

        Raises:
            WorkerError: If the model cannot be loaded.
        """
        if self._process is not None:
            return
        command = [sys.executable, "-m", __name__, str(self._folder), str(self._threads)]
        # Waiting threads that spin would count as CPU time of the text.
        fixed = {"OMP_NUM_THREADS": str(self._threads), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            env={**os.environ, **fixed},
            start_new_session=True,  # Ctrl-C is handled by the parent, which keeps the results
        )
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_read_lines, args=(self._process.stdout, self._lines), daemon=True).start()
        try:
            ready = self._lines.get(timeout=_LOADING_SECONDS)
        except queue.Empty:
            ready = None
        if ready is None:
            reason = self._last_error()
            self.stop()
            raise WorkerError(
                f"the measuring process could not load the model ({reason})", "Check the model folder", option="model"
            )

    def measure(self, text: str) -> Cost:
        """Measure one text. The child is killed if the text exceeds a limit."""
        self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        before = _usage(process.pid)
        started, peak, used = time.monotonic(), before, before
        try:
            process.stdin.write(json.dumps({"text": text}) + "\n")
            process.stdin.flush()
        except OSError:
            return self._given_up("process died", before, peak, started)
        while True:
            try:
                line = self._lines.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                used = _usage(process.pid) or used
                peak = _higher(peak, used)
                exceeded = self._exceeded(before, used, time.monotonic() - started)
                if exceeded is None:
                    continue
                return self._given_up(exceeded, before, peak, started)
            if line is None:
                return self._given_up("process died", before, peak, started)
            found: dict[str, Any] = json.loads(line)
            return Cost(**found)

    def stop(self) -> None:
        """Kill the child, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._errors):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:  # what was still buffered for the killed child
                    continue
        self._errors = None

    def _exceeded(self, before: Usage | None, used: Usage | None, seconds: float) -> str | None:
        if used is not None and before is not None:
            if used.resident > self._limit_bytes:
                return "memory limit"
            if used.cpu_seconds - before.cpu_seconds > self._limit_seconds:
                return "time limit"
        limit = self._limit_seconds * (_WALL_FACTOR if used is not None else 1)
        return "time limit" if seconds > limit else None

    def _given_up(self, reason: str, before: Usage | None, peak: Usage | None, started: float) -> Cost:
        self.stop()
        if before is None or peak is None:
            return Cost(reason, time.monotonic() - started, 0)
        return Cost(reason, peak.cpu_seconds - before.cpu_seconds, max(0, peak.resident - before.resident))

    def _last_error(self) -> str:
        """Return the last line that the child wrote to standard error."""
        if self._errors is None:
            return "no message"
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1] if lines else "no message"


@dataclass(frozen=True)
class Usage:
    """CPU time and resident set of a process."""

    cpu_seconds: float
    resident: int


def _usage(pid: int) -> Usage | None:
    """Return what a process uses, or None where the system does not tell (not Linux, or the process has ended)."""
    try:
        # The name in parentheses may hold anything; the fields after it are numbers.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Usage(cpu, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        return None


def _higher(one: Usage | None, two: Usage | None) -> Usage | None:
    if one is None or two is None:
        return one or two
    return Usage(max(one.cpu_seconds, two.cpu_seconds), max(one.resident, two.resident))


def _read_lines(stream: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Pass lines of the child on; None marks the end."""
    try:
        for line in stream:
            lines.put(line)
    except ValueError:  # closed while it was read
        pass
    lines.put(None)


def _serve(folder: str, threads: int, answers: IO[str]) -> None:
    """Load the model, then measure one text for each line of standard input. Runs in the child."""
    import torch

    from cascade_srn.extractor import Extractor

    torch.set_num_threads(threads)
    extractor = Extractor.from_pretrained(folder)
    for n_sentences in (1, 20):
        extractor.extract(_WARM_UP * n_sentences)
    parent = os.getppid()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(_measure_row(extractor, json.loads(line)["text"])) + "\n")
        answers.flush()


def _measure_row(extractor: Any, text: str) -> dict[str, Any]:
    """Extract from a text and return the fields of :class:`Cost`."""
    import torch

    from cascade_srn.benchmarks.measuring import peak_memory
    from cascade_srn.types import Document

    totals: list[float] = []
    documents: list[Document] = []

    def extract() -> None:
        started = time.process_time()
        try:
            documents.append(extractor.extract(text))
        finally:
            totals.append(time.process_time() - started)

    extra, split, error = 0, None, None
    try:
        memory = peak_memory(extract, torch.device("cpu"))
        extra = max(0, memory.peak - memory.before)
        while totals[0] < _SHORT_SECONDS and len(totals) < _SHORT_RUNS:
            extract()
        started = time.process_time()
        extractor.segmenter(text)
        split = time.process_time() - started
    except Exception as failure:
        # Any failure is a result of the measurement; the parent reports it with the text.
        error = f"{type(failure).__name__}: {str(failure)[:300]}"
    found: dict[str, Any] = {
        "outcome": "done" if error is None else "failed",
        "cpu_seconds": min(totals),
        "extra_bytes": extra,
        "segment_seconds": split,
        "error": error,
    }
    if documents:
        found["counts"] = {
            "words": sum(len(sentence) for sentence in documents[0].sentences),
            "sentences": len(documents[0].sentences),
            "entities": len(documents[0].entities),
            "relations": len(documents[0].relations),
        }
    return found


def _end_with_parent(parent: int) -> None:
    """End the child when its parent is gone: it may be in the middle of a text that takes hours."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    # Libraries may write to standard output, which carries the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as channel:
        os.dup2(2, 1)
        _serve(sys.argv[1], int(sys.argv[2]), channel)
