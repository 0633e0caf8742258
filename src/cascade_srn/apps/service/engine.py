"""The thread that runs the model: it loads the model, warms it up and processes batches of queued requests."""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence

from cascade_srn.apps.service.queue import (
    ExtractionItem,
    ItemSlice,
    QueuedRequest,
    RequestBatch,
    RequestQueue,
)
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.middleware import log_failure
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.extractor import Extractor
from cascade_srn.inference.batching import release_freed_memory
from cascade_srn.types import Sentence

logger = logging.getLogger("cascade_srn.apps.service")

WARM_UP = "We train a tagger for named entity recognition. It finds names of people, places and tools in short texts."
N_WARM_UP = 8
# Duration of a slice of a large request, and so the longest wait of a small request behind it.
SLICE_SECONDS = 0.05
# Smallest cost of a slice in words, however slow the machine is.
MIN_SLICE_WORDS = 64
# Seconds between two returns of freed memory to the system, if the model was used in between.
SWEEP_SECONDS = 5.0


TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
WORDS = (16, 64, 256, 512, 1024, 2048, 4096)


class EngineMetrics:
    """Metrics of the model."""

    def __init__(self, metrics: Metrics) -> None:
        counter = metrics.counter
        self.refused = counter("cascade_srn_queue_refused_total", "Requests refused because the queue was full.")
        self.texts = counter("cascade_srn_texts_total", "Texts that the model has finished.")
        self.words = counter("cascade_srn_words_total", "Words that the model has processed.")
        self.failures = counter("cascade_srn_text_failures_total", "Texts that the model failed on.")
        self.abandoned = counter("cascade_srn_abandoned_batches_total", "Batches stopped because no client waited.")
        self.limited = counter("cascade_srn_limited_sentences_total", "Sentences with too many candidate spans.")
        self.model_seconds = counter("cascade_srn_model_seconds_total", "Time that the model was busy.")
        self.batch_texts = metrics.histogram("cascade_srn_batch_texts", "Texts with sentences in a batch.", TEXTS)
        self.batch_words = metrics.histogram("cascade_srn_batch_words", "Words of a batch.", WORDS)


class ModelEngine:
    """Runs a model for all requests in its own thread.

    Texts with the same settings go through the model together, up to ``batch_words`` at a time. A slice of a large
    request takes about ``SLICE_SECONDS``. A single sentence can take much longer: between its encoder passes, small
    requests that arrived in the meantime are processed. Work for abandoned requests is stopped.

    Attributes:
        extractor: The model; None until it is loaded and warm.
        failure: The error of a model that could not be loaded.
        loaded: Set when the model is loaded or has failed.
        on_loaded: Called then.
    """

    def __init__(
        self, source: Extractor | Callable[[], Extractor], settings: ServeSettings, metrics: Metrics | None = None
    ) -> None:
        self.settings = settings
        self.metrics = Metrics() if metrics is None else metrics
        self.queue = RequestQueue(
            max_texts=settings.queue_texts, max_words=settings.queue_words, batch_words=settings.batch_words
        )
        self.extractor: Extractor | None = None
        self.failure: Exception | None = None
        self.loaded = threading.Event()
        self.on_loaded: Callable[[], object] = lambda: None
        self._source = source
        self._words_per_second = 0.0
        self._interleaved_seconds = 0.0
        self._n_batches = 0
        self._has_ended = threading.Event()
        self.counted = EngineMetrics(self.metrics)
        self.metrics.add_gauge("cascade_srn_queue_texts", "Texts that wait for the model.", lambda: self.queue.n_texts)
        self.metrics.add_gauge("cascade_srn_queue_words", "Words that wait for the model.", lambda: self.queue.n_words)
        self.metrics.add_gauge(
            "cascade_srn_ready", "1 if the model is loaded and warm, else 0.", lambda: self.extractor is not None
        )
        self._thread = threading.Thread(target=self._run, name="cascade-srn-model", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded and warm."""
        return self.extractor is not None

    @property
    def is_running(self) -> bool:
        """Whether the thread of the model is alive."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, which loads the model first, unless it was started before."""
        if self._thread.ident is None:
            self._thread.start()

    def submit(self, items: Sequence[ExtractionItem]) -> QueuedRequest:
        """Queue the texts of one request, all or none."""
        request = QueuedRequest(items)
        self.queue.put(request)
        return request

    def drop(self, request: QueuedRequest) -> None:
        """Abandon a request: sentences that have not started are removed from the queue."""
        request.future.cancel()
        self.queue.drop(request.items)

    def close(self) -> None:
        """Finish queued requests and end the thread, within ``shutdown_seconds``. A model that loads is abandoned."""
        self.queue.close()
        if self.is_running and self.loaded.is_set():
            self._thread.join(self.settings.shutdown_seconds)

    def _run(self) -> None:
        try:
            extractor = self._source if isinstance(self._source, Extractor) else self._source()
            extractor.warm_up()
            # A batch and a single text, so that the first requests of either kind are as fast as later ones.
            extractor.extract(" ".join([WARM_UP] * N_WARM_UP))
            extractor.extract(WARM_UP)
            started = time.perf_counter()
            extractor.extract(WARM_UP)
            self._update_slice_size(len(WARM_UP.split()), time.perf_counter() - started)
            self.extractor = extractor
        except Exception as error:
            # The message cannot quote a client's text, because none was received yet.
            logger.error("the model could not be loaded: %s: %s", type(error).__name__, error)
            self.failure = error
        finally:
            self.loaded.set()
            self.on_loaded()
        if self.failure is not None:
            return
        threading.Thread(target=self._sweep_memory, name="cascade-srn-sweep", daemon=True).start()
        while batch := self.queue.take(wait=self.settings.batch_wait):
            self._process(extractor, batch)
            self._n_batches += 1
        self._has_ended.set()

    def _sweep_memory(self) -> None:
        """Return freed memory to the system while the model is in use, and once afterwards.

        Batches of many shapes leave gaps that the C library would keep: hundreds of megabytes after hours.
        """
        n_before = 0
        while not self._has_ended.wait(SWEEP_SECONDS):
            if self._n_batches != n_before:
                n_before = self._n_batches
                release_freed_memory()

    def _process(self, extractor: Extractor, batch: RequestBatch) -> None:
        self.counted.batch_texts.observe(len(batch.slices))
        self.counted.batch_words.observe(sum(one.n_words for one in batch.slices))
        started, interleaved = time.perf_counter(), self._interleaved_seconds
        groups: dict[Hashable, list[ItemSlice]] = {}
        for one in batch.slices:
            groups.setdefault(_group_key(one.item), []).append(one)
        for group in groups.values():
            self._process_group(extractor, group, is_large=batch.is_large)
        seconds = time.perf_counter() - started - (self._interleaved_seconds - interleaved)
        self.counted.model_seconds.inc(seconds)
        self._update_slice_size(sum(one.cost for one in batch.slices), seconds)

    def _update_slice_size(self, cost: int, seconds: float) -> None:
        """Adapt the size of slices to a moving average of the model's speed."""
        speed = cost / max(seconds, 1e-6)
        self._words_per_second += 0.2 * (speed - self._words_per_second) if self._words_per_second else speed
        words = max(MIN_SLICE_WORDS, int(self._words_per_second * SLICE_SECONDS))
        self.queue.slice_words = min(self.settings.batch_words, words)

    def _process_group(self, extractor: Extractor, slices: Sequence[ItemSlice], *, is_large: bool) -> None:
        """Run the model on slices with the same settings, one by one if it fails on all of them together."""
        slices = [one for one in slices if not one.item.request.is_abandoned]
        if not slices:
            return
        try:
            found = self._predict(extractor, slices, is_large=is_large)
        except _Abandoned:
            self.counted.abandoned.inc()
            return
        except Exception as error:
            if len(slices) > 1:
                for one in slices:
                    self._process_group(extractor, [one], is_large=is_large)
                return
            self.counted.failures.inc()
            log_failure(error)
            self.queue.drop([slices[0].item])
            slices[0].item.finish(error)
            return
        now = time.monotonic()
        for one, sentences in zip(slices, found, strict=True):
            one.item.request.progressed = now
            one.item.found += sentences
            self.counted.words.inc(one.n_words)
            if one.item.is_done:
                self.counted.texts.inc()
                one.item.finish()

    def _predict(self, extractor: Extractor, slices: Sequence[ItemSlice], *, is_large: bool) -> list[list[Sentence]]:
        item = slices[0].item

        def check() -> None:
            if all(one.item.request.is_abandoned for one in slices):
                raise _Abandoned
            now = time.monotonic()
            for one in slices:
                one.item.request.progressed = now
            if is_large:
                self._process_small(extractor)

        predictor = extractor.predictor(
            item.thresholds,
            self.queue.slice_words if is_large else self.settings.batch_words,
            overlaps=item.overlaps,
            check=check,
        )
        examples = [example for one in slices for example in one.examples]
        found = iter(predictor.predict(examples, given_entities=item.given_entities))
        self.counted.limited.inc(predictor.n_limited)
        return [[next(found) for _ in one.examples] for one in slices]

    def _process_small(self, extractor: Extractor) -> None:
        """Process small requests that arrived while a large one is in the model."""
        started = time.perf_counter()
        if batch := self.queue.take_small():
            self._process(extractor, batch)
            self._interleaved_seconds += time.perf_counter() - started


class _Abandoned(Exception):
    """All requests of a group are abandoned."""


def _group_key(item: ExtractionItem) -> Hashable:
    """Return a key that is equal for items that can go through the model in one call."""
    chosen = item.thresholds
    return (
        item.given_entities,
        item.overlaps,
        (chosen.entity, chosen.subject, chosen.object, chosen.related, chosen.relation),
        frozenset(chosen.entity_types.items()),
        frozenset(chosen.relation_types.items()),
    )
