"""The one thread that runs the model: loads it, warms it up, and takes batches of what many requests wait for."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cascade_srn.config import Thresholds
from cascade_srn.errors import CascadeError
from cascade_srn.extractor import Extractor
from cascade_srn.inference.batching import give_back_freed
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.queue import Batch, Order, Part, Ticket, WaitingRoom
from cascade_srn.serving.settings import ServeSettings
from cascade_srn.types import Sentence

logger = logging.getLogger("cascade_srn.serving")

WARM_UP = "We train a tagger for named entity recognition. It finds names of people, places and tools in short texts."
# A slice of a large request takes about this long, and so does the wait of a small one behind it.
SLICE_SECONDS = 0.05
# However slow the machine is, a slice costs at least this many words.
SMALLEST_SLICE = 64
# Freed memory goes back to the system this often, if there was work since the last time.
SWEEP_SECONDS = 5.0


class NotReady(Exception):
    """The model is not loaded yet."""


class Engine:
    """Runs a model for all requests, in a thread of its own.

    ``source`` is an extractor, or a function that loads one. Texts with the same thresholds and the same kind of
    work go through the model together, up to ``batch_words`` at a time. Slices of large requests take about
    ``SLICE_SECONDS``. One sentence can be much longer than that: between its encoder passes, small requests that
    arrived meanwhile are worked on. Work for requests that were given up is stopped.
    """

    def __init__(
        self, source: Extractor | Callable[[], Extractor], settings: ServeSettings, metrics: Metrics | None = None
    ) -> None:
        self.settings = settings
        self.metrics = Metrics() if metrics is None else metrics
        self.waiting = WaitingRoom(
            max_texts=settings.queue_texts, max_words=settings.queue_words, batch_words=settings.batch_words
        )
        self.failure: Exception | None = None
        self.on_loaded: Callable[[], None] | None = None
        self._source = source
        self._extractor: Extractor | None = None
        self._is_stopping = False
        self._speed = 0.0
        self._seconds_in_between = 0.0
        self._n_batches = 0
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cascade-srn-model", daemon=True)

    @property
    def extractor(self) -> Extractor:
        """The model, once it is loaded and warm."""
        if self._extractor is None:
            raise NotReady
        return self._extractor

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded and warm."""
        return self._extractor is not None

    @property
    def is_running(self) -> bool:
        """Whether the thread lives: loads the model, waits for texts or works on them."""
        return self._thread.is_alive()

    @property
    def is_stopping(self) -> bool:
        """Whether requests that come from now on are to be refused."""
        return self._is_stopping

    def start(self) -> None:
        """Begin to load the model."""
        self._thread.start()

    def submit(self, orders: Sequence[Order]) -> Ticket:
        """Queue the texts of one request. It is refused as a whole if there is no room for all of them."""
        if not self.is_ready:
            raise NotReady
        ticket = Ticket(orders)
        self.waiting.put(ticket)
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """Give a request up: what of it has not begun will not."""
        ticket.future.cancel()
        self.waiting.drop(ticket.jobs)

    def refuse_new(self) -> None:
        """Let it be known that the end is near. Requests that were there before may still submit their texts."""
        self._is_stopping = True

    def close(self) -> None:
        """Finish what was taken, and end the thread; it still runs where that took longer than there is time."""
        self.refuse_new()
        self.waiting.close()
        if self.is_running:
            self._thread.join(self.settings.shutdown_seconds)

    def _run(self) -> None:
        try:
            extractor = self._source if isinstance(self._source, Extractor) else self._source()
            extractor.extract(WARM_UP)
            started = time.perf_counter()
            extractor.extract(WARM_UP)
            self._note_speed(len(WARM_UP.split()), time.perf_counter() - started)
            self._extractor = extractor
        except Exception as error:
            # No text has been seen yet that the message could quote.
            logger.error("the model could not be loaded: %s: %s", type(error).__name__, error)
            self.failure = error
        finally:
            if self.on_loaded is not None:
                self.on_loaded()
        if self.failure is not None:
            return
        threading.Thread(target=self._sweep, name="cascade-srn-sweep", daemon=True).start()
        while batch := self.waiting.take(wait=self.settings.batch_wait):
            self._do(extractor, batch)
            self._n_batches += 1
        self._has_ended.set()

    def _sweep(self) -> None:
        """Give freed memory back to the system while there is work, and once after it.

        Batches of many shapes leave gaps, which the C library would keep: hundreds of megabytes after hours.
        """
        n_before = 0
        while not self._has_ended.wait(SWEEP_SECONDS):
            if self._n_batches != n_before:
                n_before = self._n_batches
                give_back_freed()

    def _do(self, extractor: Extractor, batch: Batch) -> None:
        """Run the model over a batch; texts of one kind go together."""
        self.metrics.batch_texts.observe(len(batch.parts))
        self.metrics.batch_words.observe(sum(part.n_words for part in batch.parts))
        started, in_between = time.perf_counter(), self._seconds_in_between
        alike: dict[_Kind, list[Part]] = {}
        for part in batch.parts:
            alike.setdefault(_kind(part.job.order), []).append(part)
        for group in alike.values():
            self._do_alike(extractor, group, is_large=batch.is_large)
        seconds = time.perf_counter() - started - (self._seconds_in_between - in_between)
        self.metrics.model_seconds.add(seconds)
        self._note_speed(sum(part.cost for part in batch.parts), seconds)

    def _note_speed(self, cost: int, seconds: float) -> None:
        """Set the size of slices by how fast the model has been lately."""
        self._speed += 0.2 * (cost / max(seconds, 1e-6) - self._speed) if self._speed else cost / max(seconds, 1e-6)
        at_most = self.settings.batch_words
        self.waiting.slice_words = min(at_most, max(SMALLEST_SLICE, int(self._speed * SLICE_SECONDS)))

    def _do_alike(self, extractor: Extractor, parts: Sequence[Part], *, is_large: bool) -> None:
        parts = [part for part in parts if not part.job.ticket.is_abandoned]
        if not parts:
            return
        try:
            found = self._predict(extractor, parts, is_large=is_large)
        except _Abandoned:
            self.metrics.abandoned.add()
            return
        except Exception as error:
            if len(parts) > 1:
                # One of them is bad, or all of them were too much together: try each alone.
                for part in parts:
                    self._do_alike(extractor, [part], is_large=is_large)
                return
            self.metrics.failures.add()
            report(error)
            self.waiting.drop([parts[0].job])
            parts[0].job.fail(error)
            return
        for part, sentences in zip(parts, found, strict=True):
            part.job.found += sentences
            self.metrics.words.add(part.n_words)
            if part.job.is_done:
                self.metrics.texts.add()
                part.job.finish()

    def _predict(self, extractor: Extractor, parts: Sequence[Part], *, is_large: bool) -> list[list[Sentence]]:
        order = parts[0].job.order

        def check() -> None:
            if all(part.job.ticket.is_abandoned for part in parts):
                raise _Abandoned
            if is_large:
                self._do_small_in_between(extractor)

        predictor = extractor.model.predictor(
            thresholds=order.thresholds,
            batch_words=self.waiting.slice_words if is_large else self.settings.batch_words,
            precision=extractor.precision,
            check=check,
        )
        examples = [example for part in parts for example in part.examples]
        found = iter(predictor.predict(examples, given_entities=order.given_entities))
        self.metrics.limited.add(predictor.n_limited)
        return [[next(found) for _ in part.examples] for part in parts]

    def _do_small_in_between(self, extractor: Extractor) -> None:
        """Work on small requests that arrived while a large one is in the model."""
        started = time.perf_counter()
        if batch := self.waiting.take_small():
            self._do(extractor, batch)
            self._seconds_in_between += time.perf_counter() - started


class _Abandoned(Exception):
    """Nobody waits for any part of a batch, so its work is stopped."""


class _Kind(NamedTuple):
    """What texts must have in common to go through the model in one call."""

    given_entities: bool
    turns: tuple[float | None, ...]
    entity_types: frozenset[tuple[str, float]]
    relation_types: frozenset[tuple[str, float]]


def _kind(order: Order) -> _Kind:
    chosen: Thresholds = order.thresholds
    return _Kind(
        order.given_entities,
        (chosen.entity, chosen.subject, chosen.object, chosen.related, chosen.relation),
        frozenset(chosen.entity_types.items()),
        frozenset(chosen.relation_types.items()),
    )


def report(error: BaseException) -> None:
    """Log what failed and where, without the message, which may quote a text."""
    if isinstance(error, CascadeError):
        return
    frames = traceback.extract_tb(error.__traceback__)
    place = " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames[-4:]))
    logger.error("%s at %s", type(error).__name__, place or "an unknown place")
