"""How far a corpus job has come: reports while it runs, and the status of an output folder."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.engine import COUNT_SECONDS
from cascade_srn.apps.corpus.manifest import RECORDS, SCRATCH, JobFolder
from cascade_srn.apps.corpus.shards import Shard, Totals
from cascade_srn.runs.display import ProgressRow, duration
from cascade_srn.storage.lock import LOCK, lock_holder

# Number of latest reports that rates are computed from.
_N_REPORTS = 200
# Number of reasons that a report names.
_N_NAMED = 5
# Number of latest shards that the rate is computed from, and seconds without a shard that are a pause.
_N_LATEST, _PAUSE = 50, 60.0
# Seconds of work from which the time left is estimated.
_STEADY_SECONDS = 20.0
_SUFFIX = ".progress"


@dataclass(frozen=True)
class RunningCount:
    """How far workers are in shards that they have not finished."""

    n_rows: float = 0.0  # a long document counts by its sentences
    n_words: int = 0
    documents_per_second: float = 0.0


class ShardProgress:
    """Counts the rows of a running shard in a small file, for the driver and for :func:`status`."""

    def __init__(self, scratch: Path, shard: str) -> None:
        self._path = scratch / f"{shard}{_SUFFIX}"
        self._started = self._written = time.monotonic()
        # Rows, words and sentences of the parts that are done, and of the part that is running.
        self._done, self._part = (0, 0, 0), (0, 0, 0)

    def begin(self, n_rows: int, n_words: int, n_sentences: int) -> None:
        """Begin a part of the shard. The parts before it are done."""
        rows, words, sentences = (a + b for a, b in zip(self._done, self._part, strict=True))
        self._done, self._part = (rows, words, sentences), (n_rows, n_words, n_sentences)

    def update(self, n_sentences: int) -> None:
        """Tell how many sentences of the shard are done. The file is written about once a second.

        Documents end in any order, so their number is estimated by that of their sentences.
        """
        now = time.monotonic()
        if now - self._written < COUNT_SECONDS:
            return
        self._written = now
        share = min(1.0, max(0, n_sentences - self._done[2]) / max(1, self._part[2]))
        rows, words, _ = (a + share * b for a, b in zip(self._done, self._part, strict=True))
        # A driver that has ended has removed the folder.
        with suppress(OSError):
            self._path.write_text(json.dumps([rows, int(words), now - self._started]), encoding="utf-8")


def count_running(output: Path, shards: Collection[str]) -> RunningCount:
    """Return how far workers are in the shards with these ids."""
    n_rows, n_words, rate = 0.0, 0, 0.0
    for path in output.glob(f"{SCRATCH}*/*{_SUFFIX}"):
        if path.stem in shards:
            with suppress(OSError, ValueError):  # it is being written
                rows, words, seconds = json.loads(path.read_text(encoding="utf-8"))
                n_rows, n_words, rate = n_rows + rows, n_words + words, rate + rows / max(seconds, COUNT_SECONDS)
    return RunningCount(n_rows, n_words, rate)


@dataclass(frozen=True)
class JobProgress:
    """Progress report of a corpus job.

    A resumed job starts with finished documents.
    """

    n_shards: int  # Number of shards of the job
    n_shards_done: int  # Number of shards that are finished, those of earlier processes included
    n_documents: int  # Number of rows of the input
    # Number of rows that are in ``documents`` or ``errors``, those of earlier processes included, and about that of the
    # rows that workers have finished in running shards
    n_documents_done: int
    n_words: int  # Number of words processed since this process started
    n_sentences: int  # Number of sentences processed since this process started
    n_errors: int  # Number of rows in ``errors``, those of earlier processes included
    n_workers: int  # Number of workers that are alive
    seconds: float  # Time since the first worker started
    n_documents_before: int = 0  # Number of rows that were done when this process started
    n_part: float = 0.0  # What running documents are done in addition, by their sentences, below 1

    @property
    def n_done(self) -> float:
        """Number of rows that are done, with the part of those that are running."""
        return self.n_documents_done + self.n_part


@dataclass(frozen=True)
class Rates:
    """Speed of a job, and the time that it still needs."""

    documents_per_second: float  # Documents per second
    words_per_second: float  # Words per second
    seconds_left: float | None  # Estimated time of the remaining documents; None while it is not known


class ProgressView:
    """Makes the lines of a display from the reports of a job.

    Rates are those of the latest reports. In the first seconds, unless each worker has finished two shards, they
    include the start of the workers, and no time is estimated.
    """

    def __init__(self) -> None:
        self._reports: deque[JobProgress] = deque(maxlen=_N_REPORTS)

    def add(self, progress: JobProgress) -> ProgressRow:
        """Add a report, and return the row that a display shows: a bar on a terminal, or a line in a log."""
        is_first = not self._reports
        if is_first or progress.n_done > self._reports[-1].n_done:
            self._reports.append(progress)
        figures = self._format(progress)
        line = (
            f"{progress.n_documents_done:,} of {progress.n_documents:,} documents "
            f"({progress.n_done / max(1, progress.n_documents):.0%})  "
            f"{progress.n_shards_done:,} of {progress.n_shards:,} shards  {figures}"
        )
        # A log says at once what is to be done, and that it is finished.
        to_file = is_first or progress.n_shards_done == progress.n_shards
        title, done, total = "documents", progress.n_documents_done, progress.n_documents
        return ProgressRow(title, done, total, figures, line=line, to_file=to_file)

    def rates(self, progress: JobProgress) -> Rates:
        """Return the speed up to a report."""
        # The first report comes before the workers start, and the second when they have done something.
        first = self._reports[min(1, len(self._reports) - 1)] if len(self._reports) < _N_REPORTS else self._reports[0]
        n_shards = progress.n_shards_done - first.n_shards_done
        is_steady = progress.seconds - first.seconds >= _STEADY_SECONDS or n_shards >= 2 * max(1, progress.n_workers)
        if not is_steady:
            first = self._reports[0]
        seconds = progress.seconds - first.seconds
        if seconds <= 0:
            return Rates(0.0, 0.0, None)
        documents = (progress.n_done - first.n_done) / seconds
        left = progress.n_documents - progress.n_done
        known = is_steady and documents > 0
        words = (progress.n_words - first.n_words) / seconds
        return Rates(documents, words, left / documents if known else None)

    def _format(self, progress: JobProgress) -> str:
        rates = self.rates(progress)
        if not rates.documents_per_second:
            return "starting"
        parts = [format_rate(rates.documents_per_second), f"{rates.words_per_second:,.0f} words/s"]
        if rates.seconds_left is not None:
            parts.append(f"{duration(rates.seconds_left)} left")
        parts.append(with_number(progress.n_errors, "error"))
        parts.append(with_number(progress.n_workers, "worker"))
        return "  ".join(parts)


def format_rate(rate: float) -> str:
    """Return documents per second as text, or per minute if there are few."""
    return f"{rate:,.1f} documents/s" if rate >= 1 else f"{60 * rate:.2g} documents/min"


def with_number(number: int, noun: str) -> str:
    """Return a number with a noun, such as ``1 error`` or ``1,200 errors``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True)
class StatusReport:
    """Result of :func:`status`."""

    state: str  # "finished", "running" or "stopped"
    holder: str  # The process that runs the job on this or another machine; empty if there is none
    n_shards: int  # Number of shards of the job
    n_shards_done: int  # Number of shards whose record exists
    n_rows: int  # Number of rows of the input
    n_rows_done: int  # Number of rows in ``documents`` or ``errors``, and about that of the rows of running shards
    n_errors: int  # Number of rows in ``errors``
    n_words: int  # Number of words of these rows
    n_sentences: int  # Number of sentences of the finished documents
    reasons: tuple[tuple[str, int], ...]  # The most frequent reasons of errors, with their numbers
    documents_per_second: float | None  # Rate of the latest shards; None if it is not known
    seconds_left: float | None  # Estimated time of the remaining documents; None if it is not known
    share_done: float  # Share of the rows that is done, with the part of long documents that are running

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def status(output: str | Path) -> StatusReport:
    """Report how far a job has come, from the records of its shards. The job may be running.

    Args:
        output: Output folder of a job.

    Raises:
        DataError: If the folder holds no job, or its manifest is damaged.
    """
    folder = JobFolder(output)
    manifest, holder = folder.read_manifest(), find_holder(folder)
    totals = Totals()
    reasons: Counter[str] = Counter()
    times: list[tuple[float, float, int]] = []
    done: set[str] = set()
    for shard, record in folder.finished(manifest.shards):
        done.add(shard.id)
        totals.add(record)
        times.append((_modified(folder.path / RECORDS / f"{shard.id}.json"), record.seconds, shard.n_rows))
        if record.rows["errors"]:
            _count_reasons(folder.path, shard, manifest.settings["format"], reasons)
    running = RunningCount()
    if holder:
        running = count_running(folder.path, {shard.id for shard in manifest.shards} - done)
    rate = _rate(times) or running.documents_per_second or None
    is_done = totals.n_shards == len(manifest.shards)
    n_done = totals.n_rows + running.n_rows
    left = 0.0 if is_done else None if rate is None else (manifest.n_rows - n_done) / rate
    return StatusReport(
        state="running" if holder else "finished" if is_done else "stopped",
        holder=holder,
        n_shards=len(manifest.shards),
        n_shards_done=totals.n_shards,
        n_rows=manifest.n_rows,
        n_rows_done=int(n_done),
        share_done=n_done / max(1, manifest.n_rows),
        n_errors=totals.rows["errors"],
        n_words=totals.n_words + running.n_words,
        n_sentences=totals.n_sentences,
        reasons=tuple(reasons.most_common(_N_NAMED)),
        documents_per_second=rate,
        seconds_left=left,
    )


def find_holder(folder: JobFolder) -> str:
    """Return the processes that write to the folder: that of the job, or those of the tasks of an array."""
    locked = [folder.path, *(member for member in folder.members() if (member / LOCK).is_file())]
    return "; ".join(holder for path in locked if (holder := lock_holder(path)) is not None)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed in between
        return time.time()


def _count_reasons(folder: Path, shard: Shard, format: str, reasons: Counter[str]) -> None:
    """Count the reasons of a shard. Reasons that differ only by numbers, such as that of a line, are the same."""
    path = folder / f"errors/{shard.id}.{format}"
    try:
        if format == "jsonl":
            found = [str(json.loads(line)["reason"]) for line in path.read_text(encoding="utf-8").splitlines()]
        else:
            import pyarrow.parquet as pq

            found = pq.read_table(path, columns=["reason"])["reason"].to_pylist()
    except (OSError, ValueError, KeyError):  # a damaged file is the subject of verify
        found = ["the errors cannot be read"]
    for reason in found:
        reasons[re.sub(r"\d+", "N", reason)] += 1


def _rate(times: list[tuple[float, float, int]]) -> float | None:
    """Return the documents per second of the latest shards, up to the last pause of the job.

    Args:
        times: For each shard: the time of its end, its seconds and its number of documents.
    """
    n_rows, start, end = 0, 0.0, 0.0
    for finished, seconds, rows in sorted(times, reverse=True)[:_N_LATEST]:
        if n_rows and finished < start - _PAUSE:
            break
        start, end = (min(start, finished - seconds), end) if n_rows else (finished - seconds, finished)
        n_rows += rows
    return n_rows / (end - start) if end > start else None
