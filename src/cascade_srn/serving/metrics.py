"""Figures of the running service in the text format of Prometheus; no dependency, a lock, a few numbers."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
WORDS = (16, 64, 256, 512, 1024, 2048, 4096)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Counter:
    """A number that only rises, for each set of labels."""

    kind = "counter"

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help = name, help
        self._values: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def add(self, amount: float = 1, **labels: str) -> None:
        """Count that many more."""
        key = tuple(labels.items())
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def samples(self) -> Iterator[str]:
        """Its lines."""
        with self._lock:
            values = dict(self._values)
        for labels, value in sorted(values.items()):
            yield _sample(self.name, labels, value)


class Gauge:
    """A number that is read when it is asked for."""

    kind = "gauge"

    def __init__(self, name: str, help: str, read: Callable[[], float]) -> None:
        self.name, self.help, self._read = name, help, read

    def samples(self) -> Iterator[str]:
        """Its line."""
        yield _sample(self.name, (), self._read())


class Histogram:
    """How values are spread, for each set of labels: counts up to each bound, all of them, and their sum."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: Sequence[float]) -> None:
        self.name, self.help, self.bounds = name, help, tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def observe(self, value: float, **labels: str) -> None:
        """Count a value."""
        key = tuple(labels.items())
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(self.bounds) + 1))
            counts[bisect_left(self.bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0) + value

    def samples(self) -> Iterator[str]:
        """Its lines; the counts of the buckets add up, as the format wants them."""
        with self._lock:
            counts = {key: list(found) for key, found in self._counts.items()}
            sums = dict(self._sums)
        for labels, found in sorted(counts.items()):
            total = 0
            for bound, count in zip((*self.bounds, float("inf")), found, strict=True):
                total += count
                yield _sample(f"{self.name}_bucket", (*labels, ("le", _number(bound))), total)
            yield _sample(f"{self.name}_sum", labels, sums[labels])
            yield _sample(f"{self.name}_count", labels, total)


class Metrics:
    """All figures of a service. Gauges are added by those who know the values."""

    def __init__(self) -> None:
        self.requests = Counter("cascade_srn_requests_total", "Requests answered, by route and status.")
        self.latency = Histogram(
            "cascade_srn_request_seconds", "Time from a request's first byte to its answer's last.", SECONDS
        )
        self.refused = Counter("cascade_srn_queue_refused_total", "Requests refused because the queue was full.")
        self.dropped = Counter(
            "cascade_srn_connections_dropped_total", "Connections refused or closed by the service, by reason."
        )
        self.texts = Counter("cascade_srn_texts_total", "Texts that the model has finished.")
        self.words = Counter("cascade_srn_words_total", "Words that went through the model.")
        self.failures = Counter("cascade_srn_text_failures_total", "Texts that the model could not do.")
        self.abandoned = Counter(
            "cascade_srn_abandoned_batches_total", "Batches stopped because nobody waited for them any more."
        )
        self.limited = Counter(
            "cascade_srn_limited_sentences_total", "Sentences with more possible spans than are looked at."
        )
        self.model_seconds = Counter("cascade_srn_model_seconds_total", "Time the model has worked.")
        self.batch_texts = Histogram("cascade_srn_batch_texts", "Texts that a batch holds sentences of.", TEXTS)
        self.batch_words = Histogram("cascade_srn_batch_words", "Words of a batch.", WORDS)
        self._all: list[Counter | Gauge | Histogram] = [
            self.requests,
            self.latency,
            self.refused,
            self.dropped,
            self.texts,
            self.words,
            self.failures,
            self.abandoned,
            self.limited,
            self.model_seconds,
            self.batch_texts,
            self.batch_words,
        ]
        # From the beginning, so that a rate can be taken of the first of them.
        for metric in self._all:
            if isinstance(metric, Counter) and metric not in (self.requests, self.dropped):
                metric.add(0)
        for reason in ("refused", "evicted", "silent", "no_files"):
            self.dropped.add(0, reason=reason)

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Add a number that is read whenever the figures are."""
        self._all.append(Gauge(name, help, read))

    def text(self) -> str:
        """All figures."""
        lines = []
        for metric in self._all:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += metric.samples()
        return "\n".join(lines) + "\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels)
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
