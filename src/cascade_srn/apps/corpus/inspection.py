"""How far a corpus job has come."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.manifest import RECORDS, JobFolder
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.apps.corpus.tables import TABLES
from cascade_srn.storage.lock import LOCK, lock_holder

# Number of reasons that a report names.
_N_NAMED = 5
# Different reasons that are counted, so that memory is bounded.
_MAX_REASONS = 10_000
# Number of latest shards that the rate is computed from, and seconds without a shard that are a pause.
_N_LATEST, _PAUSE = 50, 60.0


@dataclass(frozen=True)
class StatusReport:
    """Result of :func:`status`.

    Attributes:
        state: "finished", "running" or "stopped".
        holder: The process that runs the job on this or another machine; empty if there is none.
        n_shards: Number of shards of the job.
        n_shards_done: Number of shards whose record exists.
        n_rows: Number of rows of the input.
        n_rows_done: Number of rows in ``documents`` or ``errors``.
        n_errors: Number of rows in ``errors``.
        n_words: Number of words of the finished documents.
        n_sentences: Number of sentences of the finished documents.
        reasons: The most frequent reasons of errors, with their numbers.
        documents_per_second: Rate of the latest shards; None if it is not known.
        seconds_left: Estimated time of the remaining documents; None if it is not known.
    """

    state: str
    holder: str
    n_shards: int
    n_shards_done: int
    n_rows: int
    n_rows_done: int
    n_errors: int
    n_words: int
    n_sentences: int
    reasons: tuple[tuple[str, int], ...]
    documents_per_second: float | None
    seconds_left: float | None

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
    n_shards = n_rows = n_errors = n_words = n_sentences = 0
    reasons: Counter[str] = Counter()
    times: list[tuple[float, float, int]] = []
    for shard, record in folder.finished(manifest.shards):
        if not is_plausible(record):
            continue
        n_shards += 1
        n_rows += shard.n_rows
        n_errors += record.rows["errors"]
        n_words += record.n_words
        n_sentences += record.n_sentences
        times.append((_modified(folder.path / RECORDS / f"{shard.id}.json"), record.seconds, shard.n_rows))
        if record.rows["errors"]:
            _count_reasons(folder.path, shard, manifest.settings["format"], reasons)
    rate = _rate(times)
    is_done = n_shards == len(manifest.shards)
    left = 0.0 if is_done else None if rate is None else (manifest.n_rows - n_rows) / rate
    return StatusReport(
        state="running" if holder else "finished" if is_done else "stopped",
        holder=holder,
        n_shards=len(manifest.shards),
        n_shards_done=n_shards,
        n_rows=manifest.n_rows,
        n_rows_done=n_rows,
        n_errors=n_errors,
        n_words=n_words,
        n_sentences=n_sentences,
        reasons=tuple(reasons.most_common(_N_NAMED)),
        documents_per_second=rate,
        seconds_left=left,
    )


def is_plausible(record: ShardResult) -> bool:
    """Return whether a record has values of the right types. A damaged file may have any."""
    numbers = (record.n_words, record.n_sentences)
    return (
        isinstance(record.rows, dict)
        and all(type(record.rows.get(table)) is int for table in TABLES)
        and isinstance(record.sha256, dict)
        and all(type(number) is int for number in numbers)
        and isinstance(record.seconds, int | float)
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
        key = re.sub(r"\d+", "N", reason)
        if key in reasons or len(reasons) < _MAX_REASONS:
            reasons[key] += 1


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
