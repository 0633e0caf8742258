"""Check the tables of a corpus job against its records."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.manifest import MANIFEST, RECORDS, JobFolder, Manifest
from cascade_srn.apps.corpus.progress import find_holder
from cascade_srn.apps.corpus.shards import Shard, ShardResult, Totals
from cascade_srn.apps.corpus.tables import TABLES
from cascade_srn.errors import describe_error
from cascade_srn.storage.files import checksum

# Number of repeated ids, problems and notes that a report names. All ids and problems are counted.
_N_NAMED, _N_PROBLEMS = 5, 100


@dataclass(frozen=True)
class VerifyReport:
    """Result of :func:`verify`."""

    n_shards: int  # Number of shards of the job
    n_shards_done: int  # Number of shards whose record exists
    n_rows: int  # Number of rows of the input
    rows: Mapping[str, int]  # Number of rows of each table, in the finished shards
    n_repeated_ids: int  # Number of document ids that occur more than once, as they do in the input
    repeated_ids: tuple[str, ...]  # Some of them
    n_problems: int  # Number of files and shards that are wrong
    problems: tuple[str, ...]  # The first of them
    notes: tuple[str, ...] = ()  # Files that do no harm, such as leftovers of a killed worker

    @property
    def is_complete(self) -> bool:
        """Whether all shards are done."""
        return self.n_shards_done == self.n_shards

    @property
    def is_correct(self) -> bool:
        """Whether the job is complete and nothing is wrong."""
        return self.is_complete and not self.n_problems

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"is_correct": self.is_correct, "is_complete": self.is_complete, **asdict(self)}


def verify(output: str | Path, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
    """Check that a job is complete, that no document is lost or repeated, and that no file has changed.

    All files are read. Memory is bounded by the largest shard, and some bytes per document.

    Args:
        output: Output folder of a job.
        progress: Called after each shard with the number of shards checked and their total.

    Raises:
        DataError: If the folder holds no job, or its manifest is damaged.
    """
    folder = JobFolder(output)
    manifest = folder.read_manifest()
    check = _Verification(folder, manifest)
    for number, shard in enumerate(manifest.shards, start=1):
        check.check_shard(shard)
        if progress is not None:
            progress(number, len(manifest.shards))
    return check.report()


class _Verification:
    """What :func:`verify` has found so far."""

    def __init__(self, folder: JobFolder, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.format = str(manifest.settings["format"])
        self.totals = Totals()
        self.n_problems = 0
        self.finished: set[str] = set()
        self._problems: list[str] = []
        self._digests = bytearray()

    def check_shard(self, shard: Shard) -> None:
        """Check the record and the files of a shard."""
        record = self.folder.read_record(shard.id)
        if record is None:
            if (self.folder.path / RECORDS / f"{shard.id}.json").exists():
                self._add_problem(f"{RECORDS}/{shard.id}.json is damaged")
            return
        self.finished.add(shard.id)
        self.totals.add(record)
        names = _file_names(shard.id, self.format)
        if record.shard != shard.id or set(record.sha256) != set(names.values()):
            self._add_problem(f"{RECORDS}/{shard.id}.json is the record of another shard")
            return
        n_problems = self.n_problems
        for name in names.values():
            self._check_file(name, record.sha256[name])
        if self.n_problems > n_problems:
            return
        try:
            self._check_rows(shard, record)
        except (OSError, ValueError, KeyError) as error:  # the record has the checksum of a file that is no table
            self._add_problem(f"the tables of shard {shard.id} cannot be read ({describe_error(error)})")

    def _check_file(self, name: str, expected: str) -> None:
        try:
            if checksum(self.folder.path / name) != expected:
                self._add_problem(f"{name} has changed since it was written")
        except OSError as error:
            self._add_problem(f"{name} cannot be read ({error.strerror})")

    def _check_rows(self, shard: Shard, record: ShardResult) -> None:
        """Compare the rows of the tables with the record, and with the rows of the input."""
        places: list[tuple[str, int]] = []
        for table in ("documents", "errors"):
            for id, place in _read_places(self.folder.path, shard, table, self.format):
                self._digests += _digest(id)
                if place is not None:
                    places.append(place)
        known = {**record.rows, "words": record.n_words, "sentences": record.n_sentences}
        for name, number in self.folder.count_rows(record.sha256).items():
            if number != known[name]:
                table, what = (name, "rows") if name in TABLES else ("documents", name)
                self._add_problem(f"{table} has {number} {what} of shard {shard.id}, but its record {known[name]}")
        n_rows = record.rows["documents"] + record.rows["errors"]
        if n_rows != shard.n_rows:
            self._add_problem(f"shard {shard.id} has {n_rows} documents and errors, but {shard.n_rows} rows of input")
        elif self.format == "parquet" and not _is_each_row_once(places, shard):
            self._add_problem(f"rows of the input are missing or repeated in shard {shard.id}")

    def report(self) -> VerifyReport:
        """Check the folder as a whole, and return the report."""
        counts = self.manifest.counts
        if counts is not None and counts != self.totals.counts() and len(self.finished) == len(self.manifest.shards):
            self._add_problem(f"{MANIFEST} has other counts than the records of the shards")
        notes = self._check_names()
        n_repeated, digests = _find_repeats(self._digests)
        return VerifyReport(
            n_shards=len(self.manifest.shards),
            n_shards_done=len(self.finished),
            n_rows=self.manifest.n_rows,
            rows=self.totals.rows,
            n_repeated_ids=n_repeated,
            repeated_ids=self._find_ids(digests),
            n_problems=self.n_problems,
            problems=tuple(self._problems),
            notes=tuple(notes[:_N_PROBLEMS]),
        )

    def _check_names(self) -> list[str]:
        """Find files that do not belong to a finished shard. Readers would take them for part of a table."""
        notes = []
        is_running = bool(find_holder(self.folder))
        shards = {shard.id for shard in self.manifest.shards}
        for member in self.folder.members():
            if member.name not in (MANIFEST, RECORDS, *TABLES):
                kind = "a leftover of a stopped process" if member.name.startswith(".") else "not part of the job"
                if not (is_running and member.name.startswith(".")):
                    notes.append(f"{member.name} is {kind}")
        for table in (RECORDS, *TABLES):
            for path in sorted((self.folder.path / table).glob("*")):
                if path.name.startswith((".", "_")):
                    notes.append(f"{table}/{path.name} is hidden, and readers skip it")
                    continue
                suffix = "json" if table == RECORDS else self.format
                is_ours = path.suffix == f".{suffix}" and path.stem in shards
                if is_ours and path.stem not in self.finished and table != RECORDS:
                    message = f"{table}/{path.name} belongs to a shard that is not finished"
                    notes.append(message) if is_running else self._add_problem(message)
                elif not is_ours:
                    self._add_problem(f"{table}/{path.name} is not part of the job")
        return notes

    def _find_ids(self, digests: set[bytes]) -> tuple[str, ...]:
        """Return the ids with these digests, in the order of the input."""
        found: dict[str, None] = {}
        for shard in self.manifest.shards if digests else ():
            for table in ("documents", "errors") if shard.id in self.finished else ():
                for id, _ in _read_places(self.folder.path, shard, table, self.format):
                    if _digest(id) in digests:
                        found.setdefault(id)
            if len(found) == len(digests):
                break
        return tuple(found)

    def _add_problem(self, text: str) -> None:
        self.n_problems += 1
        if len(self._problems) < _N_PROBLEMS:
            self._problems.append(text)


def _file_names(shard: str, format: str) -> dict[str, str]:
    """Return the names of the files of a shard by table, relative to the output folder."""
    tables = TABLES if format == "parquet" else ("documents", "errors")
    return {table: f"{table}/{shard}.{format}" for table in tables}


def _read_places(folder: Path, shard: Shard, table: str, format: str) -> Iterator[tuple[str, tuple[str, int] | None]]:
    """Yield the id of each row of a table, and its place in the input where the format has it."""
    path = folder / _file_names(shard.id, format)[table]
    if format == "jsonl":
        key = "id" if table == "documents" else "document_id"
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield str(json.loads(line)[key]), None
        return
    import pyarrow.parquet as pq

    columns = pq.read_table(path, columns=["document_id", "input", "row"]).to_pydict()
    for id, input, row in zip(columns["document_id"], columns["input"], columns["row"], strict=True):
        yield id, (input, row)


def _is_each_row_once(places: list[tuple[str, int]], shard: Shard) -> bool:
    expected = Counter(row for _, first, stop in shard.parts for row in range(first, stop))
    return len(set(places)) == len(places) and Counter(row for _, row in places) == expected


def _digest(id: str) -> bytes:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _find_repeats(digests: bytes | bytearray) -> tuple[int, set[bytes]]:
    """Return how many digests occur more than once, and some of them."""
    import numpy as np

    found, counts = np.unique(np.frombuffer(digests, dtype=np.uint64), return_counts=True)
    repeated = found[counts > 1]
    return len(repeated), {digest.tobytes() for digest in repeated[:_N_NAMED]}
