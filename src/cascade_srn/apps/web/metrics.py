"""Prometheus metrics of the web applications."""

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Registry(CollectorRegistry):
    """A registry without the ``_created`` series, which would double the number of series.

    ``labels`` are added to all series.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._added = dict(labels)

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [
                sample._replace(labels={**sample.labels, **self._added})
                for sample in metric.samples
                if not sample.name.endswith("_created")
            ]
            yield metric


class Metrics:
    """All metrics of one application. Components add those that they know the values of."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self.registry = _Registry(labels or {})
        self.requests = self.counter(
            "cascade_srn_requests_total", "Requests answered, by route and status.", ["route", "status"]
        )
        self.latency = self.histogram(
            "cascade_srn_request_seconds",
            "Time from the first byte of a request to the last byte of its response.",
            SECONDS,
            ["route"],
        )

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """Add a counter."""
        return Counter(name, help, labels, registry=self.registry)

    def histogram(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        """Add a histogram."""
        return Histogram(name, help, labels, registry=self.registry, buckets=buckets)

    def add_gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read when the metrics are requested."""
        Gauge(name, help, registry=self.registry).set_function(read)

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


# Seconds between two writes of the metrics of a worker.
WRITE_SECONDS = 1.0
_FAMILY = re.compile(r"^# HELP (\S+)", flags=re.MULTILINE)


class WorkerMetrics(Metrics):
    """Metrics of one of several worker processes, any of which may answer a request for the metrics of all.

    Series have the label ``worker``: the counters of a worker that was replaced start again at zero, which Prometheus
    handles for a series, but not for a sum. Each worker writes its metrics to ``NUMBER.prom`` in a folder that all of
    them read, so that no worker waits for another one.
    """

    def __init__(self, number: int, folder: Path) -> None:
        super().__init__({"worker": str(number)})
        self._path = folder / f"{number}.prom"

    def start(self) -> None:
        """Write the metrics every second in a background thread."""
        threading.Thread(target=self._keep_writing, name="cascade-srn-metrics", daemon=True).start()

    def write(self) -> None:
        """Write the metrics of this worker."""
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_bytes(super().render())
        os.replace(unfinished, self._path)

    def render(self) -> bytes:
        """Return the metrics of all workers. Those of the others are up to a second old."""
        texts = [super().render().decode()]
        for path in sorted(self._path.parent.glob("*.prom")):
            if path != self._path:
                with suppress(OSError):  # the worker has died
                    texts.append(path.read_text("utf-8"))
        return merge_metrics(texts).encode()

    def _keep_writing(self) -> None:
        waiting = threading.Event()
        with suppress(OSError):  # the parent has removed the folder
            while True:
                self.write()
                waiting.wait(WRITE_SECONDS)


def merge_metrics(texts: Iterable[str]) -> str:
    """Merge texts in the Prometheus format. The series of a metric have to follow each other."""
    families: dict[str, list[str]] = {}
    for text in texts:
        starts = [*_FAMILY.finditer(text)]
        for found, end in zip(starts, [*(each.start() for each in starts[1:]), len(text)], strict=True):
            block = text[found.start() : end]
            if found[1] in families:  # description and type are written once
                block = "".join(line for line in block.splitlines(keepends=True) if not line.startswith("#"))
            families.setdefault(found[1], []).append(block)
    return "".join(block for blocks in families.values() for block in blocks)
