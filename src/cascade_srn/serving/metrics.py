"""Prometheus metrics of the service."""

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
WORDS = (16, 64, 256, 512, 1024, 2048, 4096)

# Reasons for which the service refuses or closes a connection.
DROP_REASONS = ("refused", "evicted", "silent", "no_files")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Registry(CollectorRegistry):
    """A registry without the ``_created`` series, which would double the number of series."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Metrics:
    """All metrics of one application. Components that know the values add their gauges."""

    def __init__(self) -> None:
        self.registry = _Registry()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter(
            "cascade_srn_requests_total", "Requests answered, by route and status.", ["route", "status"]
        )
        self.latency = histogram(
            "cascade_srn_request_seconds",
            "Time from the first byte of a request to the last byte of its response.",
            ["route"],
            buckets=SECONDS,
        )
        self.refused = counter("cascade_srn_queue_refused_total", "Requests refused because the queue was full.")
        self.dropped = counter(
            "cascade_srn_connections_dropped_total", "Connections refused or closed, by reason.", ["reason"]
        )
        self.texts = counter("cascade_srn_texts_total", "Texts that the model has finished.")
        self.words = counter("cascade_srn_words_total", "Words that the model has processed.")
        self.failures = counter("cascade_srn_text_failures_total", "Texts that the model failed on.")
        self.abandoned = counter("cascade_srn_abandoned_batches_total", "Batches stopped because no client waited.")
        self.limited = counter("cascade_srn_limited_sentences_total", "Sentences with too many candidate spans.")
        self.model_seconds = counter("cascade_srn_model_seconds_total", "Time that the model was busy.")
        self.batch_texts = histogram("cascade_srn_batch_texts", "Texts with sentences in a batch.", buckets=TEXTS)
        self.batch_words = histogram("cascade_srn_batch_words", "Words of a batch.", buckets=WORDS)
        # Series that exist from the start let Prometheus compute the rate of the first event.
        for reason in DROP_REASONS:
            self.dropped.labels(reason)

    def add_gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is read when the metrics are requested."""
        Gauge(name, help, registry=self.registry).set_function(read)

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
