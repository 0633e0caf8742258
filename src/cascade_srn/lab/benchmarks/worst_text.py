"""Search for the text that costs the most CPU time or memory per character, relative to ordinary text.

Built-in patterns are measured at several lengths, shortest first. Random changes and combinations of the most expensive
ones follow until the time budget is used up. Ctrl-C ends the search and keeps what was measured.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from cascade_srn.extractor import find_model
from cascade_srn.lab.benchmarks.measuring import (
    Result,
    ResultColumn,
    ResultRow,
    environment,
    number,
    plain_settings,
    text,
)
from cascade_srn.lab.benchmarks.options import WorstTextOptions
from cascade_srn.lab.benchmarks.progress import BenchmarkRun
from cascade_srn.lab.benchmarks.worst_text_patterns import Pattern, mutate, ordinary, seed_patterns
from cascade_srn.lab.benchmarks.worst_text_worker import Cost, Worker, WorkerError

SIZES = (500, 2_000, 10_000, 100_000)
# The resident set varies by a few MiB without a cause in the text, so ordinary text counts as at least this much.
MEMORY_FLOOR = 8 << 20
N_WORST = 10
# Patterns of the list that may come from the same built-in pattern.
_PER_FAMILY = 3
# Shares of the budget that have passed when the built-in patterns and the changes end; the rest confirms the worst.
_SEED_SHARE, _SEARCH_SHARE = 0.55, 0.85
# Patterns from which changes are made, and the changes of one round before the best are tried at the next length.
_PARENTS = 6
_ROUND = 12
# Shown of a text in the results.
_EXCERPT = 60


@dataclass(frozen=True)
class Measurement:
    """What a pattern costs at one length, and the ratios to ordinary text of that length.

    ``confirmed`` says that the text and ordinary text were measured a second time, one after the other.
    """

    pattern: Pattern
    n_characters: int
    cost: Cost
    cpu_ratio: float
    memory_ratio: float
    confirmed: bool = False

    @property
    def score(self) -> float:
        """The larger of the two ratios, by which texts are ranked."""
        return max(self.cpu_ratio, self.memory_ratio)

    def row(self) -> ResultRow:
        """Return plain values for JSON. ``parts`` is enough to build the text again."""
        return {
            "pattern": self.pattern.name,
            "characters": self.n_characters,
            "cpu_ratio": self.cpu_ratio,
            "memory_ratio": self.memory_ratio,
            "confirmed": self.confirmed,
            "cpu_us_per_character": 1e6 * self.cost.cpu_seconds / self.n_characters,
            "extra_bytes_per_character": self.cost.extra_bytes / self.n_characters,
            **asdict(self.cost),
            "start": self.pattern.text(min(_EXCERPT, self.n_characters)),
            "parts": [asdict(part) for part in self.pattern.parts],
        }

    def describe(self) -> str:
        """Return one line for the progress display."""
        more = "more than " if self.cost.is_bound else ""
        return (
            f"{self.pattern.name}, {self.n_characters:,} characters: CPU {more}{self.cost.cpu_seconds:.2f} s "
            f"({self.cpu_ratio:.1f}x), memory {more}{self.cost.extra_bytes / 2**20:,.0f} MiB ({self.memory_ratio:.1f}x)"
        ) + ("" if self.cost.outcome == "done" else f", {self.cost.outcome}")


class WorstTextSearch:
    """The state of a search: ordinary costs by length, measurements so far, and the time that is left."""

    def __init__(self, options: WorstTextOptions, worker: Worker, run: BenchmarkRun) -> None:
        self.options = options
        self.sizes = [*(size for size in SIZES if size < options.characters), options.characters]
        self.ordinary: dict[int, Cost] = {}
        self.measurements: list[Measurement] = []
        self.notes: list[str] = []
        self._worker = worker
        self._run = run
        self._seen: set[tuple[str, int]] = set()
        self._started = run.seconds

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the search began."""
        return self._run.seconds - self._started

    def run(self) -> None:
        """Measure ordinary text, the built-in patterns and changes of the worst, and confirm the worst."""
        seeds = seed_patterns(self.options.patterns)
        self._measure_ordinary()
        self._measure_seeds(seeds)
        if self.measurements:
            self._mutate(random.Random(self.options.seed))
            self._confirm()

    def worst(self) -> list[Measurement]:
        """Return the measurements with the largest ratios, worst first.

        A pattern is listed at its worst length only, and with at most ``_PER_FAMILY`` of its changes: otherwise the
        changes of a single pattern would fill the list.
        """
        found: dict[Pattern, Measurement] = {}
        families: Counter[str] = Counter()
        for one in sorted(self.measurements, key=lambda one: -one.score):
            if one.pattern not in found and families[one.pattern.family] < _PER_FAMILY:
                found[one.pattern] = one
                families[one.pattern.family] += 1
        return list(found.values())[:N_WORST]

    def _measure_ordinary(self) -> None:
        for size in self.sizes:
            self._run.step("ordinary text", candidate=f"{size:,} characters")
            cost = self._worker.measure(ordinary().text(size))
            if cost.outcome != "done":
                reason = cost.error or cost.outcome
                self.notes.append(
                    f"ordinary text of {size:,} characters was given up ({reason}); this length and longer ones are "
                    "left out, raise the limits to include them"
                )
                break
            self.ordinary[size] = cost
            self._run.log(
                f"ordinary text, {size:,} characters: CPU {cost.cpu_seconds:.2f} s, "
                f"memory {cost.extra_bytes / 2**20:,.0f} MiB"
            )
        if not self.ordinary:
            raise WorkerError(f"{self.notes[0]}, and no other length can be compared")
        self.sizes = list(self.ordinary)

    def _measure_seeds(self, seeds: Sequence[Pattern]) -> None:
        """Measure at each length in turn, and from the second length on the worst patterns first.

        A pattern that was given up is not measured at longer lengths: it would only be given up again.
        """
        order, left_out = list(seeds), 0
        given_up: set[Pattern] = set()
        for size in self.sizes:
            for pattern in order:
                # The first length is always measured, so that there is a result.
                if size > self.sizes[0] and self.seconds > _SEED_SHARE * self.options.seconds:
                    left_out += 1
                    continue
                found = self._measure(pattern, size)
                if found is not None and found.cost.is_bound:
                    given_up.add(pattern)
            scores = {one.pattern: one.score for one in sorted(self.measurements, key=lambda one: one.score)}
            order = [pattern for pattern in order if pattern not in given_up]
            order.sort(key=lambda pattern: -scores.get(pattern, 0.0))
        if left_out:
            self.notes.append(
                f"{left_out} of {len(seeds) * len(self.sizes)} built-in texts were left out for lack of time; "
                "raise seconds to measure them"
            )

    def _mutate(self, rng: random.Random) -> None:
        """Change the worst patterns at a short length, and measure the worst results at the longer ones."""
        size = self.sizes[min(1, len(self.sizes) - 1)]
        longer = [other for other in self.sizes if other > size]
        while self._has_time():
            parents = [one.pattern for one in self.worst()[:_PARENTS]]
            best: Measurement | None = None
            for _ in range(_ROUND):
                if not self._has_time():
                    return
                found = self._measure(mutate(rng.choice(parents), rng.choice(parents), rng), size)
                if found is not None and (best is None or found.score > best.score):
                    best = found
            for other in longer:
                if best is None or best.cost.is_bound or not self._has_time():
                    break
                best = self._measure(best.pattern, other)

    def _confirm(self) -> None:
        """Measure the worst texts again beside ordinary text, and keep the smaller ratios.

        Other work on the machine makes CPU time dearer for a while, which is not due to the text.
        """
        while self.seconds < self.options.seconds:
            left = [one for one in self.worst() if not one.confirmed and not one.cost.is_bound]
            if not left:
                return
            first = left[0]
            self._run.step("worst texts again", candidate=first.pattern.name)
            reference = self._worker.measure(ordinary().text(first.n_characters))
            cost = self._worker.measure(first.pattern.text(first.n_characters))
            again = _compare(first.pattern, first.n_characters, cost, reference)
            kept = replace(
                first if first.cpu_ratio <= again.cpu_ratio else again,
                cpu_ratio=min(first.cpu_ratio, again.cpu_ratio),
                memory_ratio=min(first.memory_ratio, again.memory_ratio),
                confirmed=True,
            )
            self.measurements[self.measurements.index(first)] = kept
            self._run.log(f"[{self.seconds:,.0f} s] confirmed: {kept.describe()}")

    def _measure(self, pattern: Pattern, size: int) -> Measurement | None:
        """Measure one text; None if the same text was measured before."""
        given = pattern.text(size)
        if (given, size) in self._seen:
            return None
        self._seen.add((given, size))
        self._run.step(f"texts of {size:,} characters", candidate=pattern.name)
        found = _compare(pattern, size, self._worker.measure(given), self.ordinary[size])
        self.measurements.append(found)
        self._run.log(f"[{self.seconds:,.0f} s] {found.describe()}")
        return found

    def _has_time(self) -> bool:
        return self.seconds < _SEARCH_SHARE * self.options.seconds


def _compare(pattern: Pattern, size: int, cost: Cost, reference: Cost) -> Measurement:
    """Return what a text costs in relation to ordinary text of the same length."""
    return Measurement(
        pattern,
        size,
        cost,
        cost.cpu_seconds / max(reference.cpu_seconds, 1e-6),
        cost.extra_bytes / max(reference.extra_bytes, MEMORY_FLOOR),
    )


def measure(options: WorstTextOptions, run: BenchmarkRun | None = None) -> Result:
    """Search for the most expensive text within the time budget."""
    run = BenchmarkRun() if run is None else run
    seed_patterns(options.patterns)  # unknown names are refused before the model is loaded
    folder = find_model(options.model)
    with Worker(
        folder, threads=options.threads, limit_seconds=options.limit_seconds, limit_bytes=options.limit_megabytes << 20
    ) as worker:
        worker.start()
        search = WorstTextSearch(options, worker, run)
        with run.collecting(search.measurements):
            search.run()
    return _result(search, run.is_partial)


def is_acceptable(result: Result) -> bool:
    """Return whether no ratio is above ``--max-ratio``; True if there is no such limit."""
    most = result.settings["max_ratio"]
    return most is None or result.summary["worst_ratio"] <= most


def _result(search: WorstTextSearch, is_partial: bool) -> Result:
    worst = search.worst()
    device = torch.device("cpu")
    used = environment(device, "float32")
    used["threads"] = search.options.threads
    return Result(
        name="worst-text",
        device=device.type,
        settings=plain_settings(search.options),
        environment=used,
        rows=[one.row() for one in worst],
        columns=_COLUMNS,
        notes=tuple(_notes(search)),
        summary={
            "interrupted": is_partial,
            "seconds": search.seconds,
            "worst_ratio": worst[0].score if worst else None,
            "worst_cpu_ratio": max((one.cpu_ratio for one in search.measurements), default=None),
            "worst_memory_ratio": max((one.memory_ratio for one in search.measurements), default=None),
            "ordinary": {str(size): asdict(cost) for size, cost in search.ordinary.items()},
            "measurements": [
                {key: value for key, value in one.row().items() if key not in ("parts", "counts")}
                for one in search.measurements
            ],
        },
        partial=is_partial,
    )


def _notes(search: WorstTextSearch) -> Iterator[str]:
    yield (
        f"{len(search.measurements):,} texts in {search.seconds:,.0f} s; ratios are to ordinary text of the same "
        f"length; > marks texts that were given up; memory ratios count ordinary text as at least "
        f"{MEMORY_FLOOR >> 20} MiB"
    )
    for size, cost in search.ordinary.items():
        yield (
            f"ordinary text of {size:,} characters: CPU {cost.cpu_seconds:.2f} s, "
            f"memory {cost.extra_bytes / 2**20:,.0f} MiB"
        )
    yield from search.notes


def _figure(heading: str, value: Callable[[ResultRow], float], form: str) -> ResultColumn:
    """Return a column of numbers that marks lower bounds."""

    def show(row: ResultRow) -> str:
        given_up = row["outcome"] not in ("done", "failed")
        return ("> " if given_up else "") + form.format(value(row))

    return ResultColumn(heading, show)


def _count(name: str) -> ResultColumn:
    return number(name, lambda row: row["counts"] and row["counts"][name])


_COLUMNS = (
    text("pattern", "pattern"),
    number("characters", lambda row: row["characters"]),
    _figure("CPU ratio", lambda row: row["cpu_ratio"], "{:.1f}"),
    _figure("memory ratio", lambda row: row["memory_ratio"], "{:.1f}"),
    _figure("CPU, s", lambda row: row["cpu_seconds"], "{:.2f}"),
    number("of it segmentation, s", lambda row: row["segment_seconds"], "{:.2f}"),
    _figure("memory, MiB", lambda row: row["extra_bytes"] / 2**20, "{:,.0f}"),
    _count("words"),
    _count("entities"),
    _count("relations"),
    text("outcome", "outcome"),
    ResultColumn("start of the text", lambda row: repr(row["start"][:20])),
)
