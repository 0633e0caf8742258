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
from cascade_srn.memory import give_back_freed
from cascade_srn.serving.metrics import Metrics
from cascade_srn.serving.settings import ServeSettings
from cascade_srn.serving.waiting import Part, WaitingRoom
from cascade_srn.serving.work import Order, Ticket
from cascade_srn.types import Sentence

logger = logging.getLogger("cascade_srn.serving")

WARM_UP = "We train a tagger for named entity recognition. It finds names of people, places and tools in short texts."
# Batches after which freed memory goes back to the system.
BATCHES_BETWEEN_SWEEPS = 64


class NotReady(Exception):
    """The model is not loaded yet."""


class Engine:
    """Runs a model for everyone, in a thread of its own.

    ``source`` is an extractor, or a function that loads one. Texts with the same thresholds and the same kind of
    work go through the model together, up to ``batch_words`` words at a time.
    """

    def __init__(
        self, source: Extractor | Callable[[], Extractor], settings: ServeSettings, metrics: Metrics | None = None
    ) -> None:
        self.settings = settings
        self.metrics = Metrics() if metrics is None else metrics
        self.waiting = WaitingRoom(max_texts=settings.queue_texts, max_words=settings.queue_words)
        self.failure: Exception | None = None
        self.on_loaded: Callable[[], None] | None = None
        self._source = source
        self._extractor: Extractor | None = None
        self._is_stopping = False
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
        """Queue the texts of one request; refused as a whole where there is no room for all of them."""
        ticket = Ticket(orders, self.extractor.model.settings.encoder.context_words)
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
        n_batches = 0
        while parts := self.waiting.take(self.settings.batch_words, wait=self.settings.batch_wait):
            self._do(extractor, parts)
            n_batches += 1
            if n_batches % BATCHES_BETWEEN_SWEEPS == 0:
                give_back_freed()

    def _do(self, extractor: Extractor, parts: Sequence[Part]) -> None:
        """One batch: together by what can go together."""
        self.metrics.batch_texts.observe(len(parts))
        self.metrics.batch_words.observe(sum(part.n_words for part in parts))
        started = time.perf_counter()
        alike: dict[_Kind, list[Part]] = {}
        for part in parts:
            alike.setdefault(_kind(part.job.order), []).append(part)
        for group in alike.values():
            self._do_alike(extractor, group)
        self.metrics.model_seconds.add(time.perf_counter() - started)

    def _do_alike(self, extractor: Extractor, parts: Sequence[Part]) -> None:
        try:
            found = self._predict(extractor, parts)
        except Exception as error:
            if len(parts) > 1:
                # One of them is bad, or all of them were too much together: each for itself.
                for part in parts:
                    self._do_alike(extractor, [part])
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

    def _predict(self, extractor: Extractor, parts: Sequence[Part]) -> list[list[Sentence]]:
        order = parts[0].job.order
        predictor = extractor.model.predictor(
            thresholds=order.thresholds, batch_words=self.settings.batch_words, precision=extractor.precision
        )
        examples = [example for part in parts for example in part.examples]
        found = iter(predictor.predict(examples, given_entities=order.given_entities))
        return [[next(found) for _ in part.examples] for part in parts]


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
