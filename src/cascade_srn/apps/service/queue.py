"""Request queue in front of the model: bounded by cost, and emptied in batches that are fair to short requests."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from cascade_srn.config import Thresholds
from cascade_srn.inference.precision import MinScores
from cascade_srn.network.examples import Example
from cascade_srn.types import Document, Sentence

# Longer sentences are mostly lists and tables, which cost several times more than their length suggests. The longest
# sentence of SciERC has 101 words.
LONG_SENTENCE = 128


class QueueFull(Exception):
    """The queue has no room for the texts of a request at present."""


class RequestTooLarge(Exception):
    """A request costs more than the whole queue holds, so it can never be accepted."""


class QueueClosed(Exception):
    """The queue accepts no more requests."""


@dataclass(eq=False)
class ExtractionItem:
    """One text of a request. Its sentences go through the model in slices, so that other requests get their turn."""

    document: Document  # The text in sentences and words, with the given entities, if any
    thresholds: Thresholds  # The thresholds to apply
    examples: Sequence[Example]  # The sentences with their context
    costs: Sequence[int]  # Cost of each sentence, counted in ordinary words (``WordPieces.cost``)
    given_entities: bool = False  # Whether the model only looks for relations between the given entities
    overlaps: str = "flat"  # Treatment of entities that share words
    min_scores: MinScores | None = None  # Scores that promise the precision that the request asks for
    # The request that the item belongs to; set by :class:`QueuedRequest`.
    request: QueuedRequest = field(init=False, repr=False)
    n_taken: int = 0  # Number of sentences that were handed to the model
    found: list[Sentence] = field(default_factory=list)  # Sentences with the annotations of the model
    # The annotated document, or the exception that the model raised; None while it is in progress.
    outcome: Document | Exception | None = None

    @property
    def remaining_cost(self) -> int:
        """Cost of the sentences that were not taken yet."""
        return sum(self.costs[self.n_taken :])

    def take(self, budget: int, *, over_budget: bool) -> ItemSlice:
        """Take the next sentences within a budget, and the first one even over budget if ``over_budget`` is True."""
        begin, cost = self.n_taken, 0
        for each in self.costs[begin:]:
            if cost + each > budget and not (over_budget and self.n_taken == begin):
                break
            cost += each
            self.n_taken += 1
        return ItemSlice(self, list(self.examples[begin : self.n_taken]), cost)

    @property
    def is_done(self) -> bool:
        """Whether the model has processed all sentences."""
        return len(self.found) == len(self.examples)

    def finish(self, error: Exception | None = None) -> None:
        """Set the outcome: the annotated document, or an error. Called by the thread that runs the model."""
        self.outcome = error or Document(self.document.text, tuple(self.found), self.document.id)
        if self.min_scores is not None and isinstance(self.outcome, Document):
            self.outcome = self.min_scores.filter(self.outcome)
        self.request.resolve()


class QueuedRequest:
    """The texts of one request on their way through the model.

    ``future`` gets one outcome per text: a document, or the exception that the model raised on it.
    """

    def __init__(self, items: Sequence[ExtractionItem]) -> None:
        self.future: Future[list[Document | Exception]] = Future()
        self.items = items
        # Time of the last progress of the model with this request, by time.monotonic(); set by the model's thread.
        self.progressed = time.monotonic()
        for item in items:
            item.request = self
            if not any(len(sentence) for sentence in item.document.sentences):
                item.outcome = item.document
        # Items with sentences that were not taken yet, in order; changed by the queue.
        self.waiting = deque(item for item in items if item.outcome is None)
        self.resolve()

    @property
    def is_abandoned(self) -> bool:
        """Whether the client is gone or the request has timed out."""
        return self.future.cancelled()

    def resolve(self) -> None:
        """Set the result of the future if all texts are finished."""
        outcomes = [item.outcome for item in self.items if item.outcome is not None]
        # An abandoned request has cancelled its future.
        if len(outcomes) == len(self.items) and self.future.set_running_or_notify_cancel():
            self.future.set_result(outcomes)


@dataclass(frozen=True)
class ItemSlice:
    """Sentences of one text that go into one batch."""

    item: ExtractionItem
    examples: list[Example]
    cost: int

    @property
    def n_words(self) -> int:
        """Number of words in the sentences."""
        return sum(len(example.sentence) for example in self.examples)


@dataclass(frozen=True)
class RequestBatch:
    """What the model processes next. ``is_large`` marks a slice of a request that does not fit into one batch."""

    slices: list[ItemSlice]
    is_large: bool = False

    def __bool__(self) -> bool:
        return bool(self.slices)


class RequestQueue:
    """Requests that wait for the model, bounded by the number of their texts and by their cost.

    Costs are counted in ordinary words (``WordPieces.cost``). A request is *small* if it fits into one batch and has no
    sentence longer than ``LONG_SENTENCE``; any other is *large*. Small requests are taken in order of arrival. Large
    requests are taken in slices of ``slice_words``. Batches alternate between small and large requests, so a small
    request waits for at most one slice, and a large request is never starved.

    One thread takes batches. Any thread can put and drop requests.
    """

    def __init__(self, *, max_texts: int, max_words: int, batch_words: int) -> None:
        self.max_texts = max_texts
        self.max_words = max_words
        self.batch_words = batch_words
        self.slice_words = batch_words
        self.n_texts = 0
        self.n_words = 0
        self._small: deque[QueuedRequest] = deque()
        self._large: deque[QueuedRequest] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._crowded = False
        self._was_large = False

    @property
    def is_full(self) -> bool:
        """Whether any request would be refused at present."""
        return self.n_texts >= self.max_texts or self.n_words >= self.max_words

    def put(self, request: QueuedRequest) -> None:
        """Add all texts of a request, or none.

        Raises:
            RequestTooLarge: The request does not fit into an empty queue.
            QueueFull: The request does not fit at present.
        """
        n_texts, cost = len(request.waiting), sum(item.remaining_cost for item in request.waiting)
        longest = max((max(item.costs) for item in request.waiting), default=0)
        with self._changed:
            if self._closed:
                raise QueueClosed
            if n_texts > self.max_texts or cost > self.max_words:
                raise RequestTooLarge
            if self.n_texts + n_texts > self.max_texts or self.n_words + cost > self.max_words:
                raise QueueFull
            if request.waiting:
                is_small = cost <= self.batch_words and longest <= LONG_SENTENCE
                (self._small if is_small else self._large).append(request)
            self.n_texts += n_texts
            self.n_words += cost
            self._changed.notify()

    def take(self, *, wait: float) -> RequestBatch:
        """Wait for the next batch. It is empty once the queue is closed and nothing is left.

        If the last batch had several texts, many clients are active, and the next batch waits up to ``wait`` seconds to
        fill. A single client never waits.
        """
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._small or self._large or self._closed)
                if self._small and not self._large and self._crowded and wait:
                    self._changed.wait_for(lambda: self.n_words >= self.batch_words or self._closed, timeout=wait)
                batch = self._next_batch()
                self._crowded = len(batch.slices) > 1
                # Everything that waited may have been dropped in the meantime.
                if batch or self._closed:
                    return batch

    def take_small(self) -> RequestBatch:
        """Take a batch of small requests without waiting. It is empty if there are none."""
        with self._changed:
            return RequestBatch(self._take_small())

    def _next_batch(self) -> RequestBatch:
        if self._small and (self._was_large or not self._large):
            self._was_large = False
            return RequestBatch(self._take_small())
        self._was_large = True
        return RequestBatch(self._take_large(), is_large=True)

    def _take_small(self) -> list[ItemSlice]:
        slices: list[ItemSlice] = []
        budget = self.batch_words
        while self._small and budget > 0:
            request = self._small[0]
            taken = self._take_slices(request, budget, over_budget=not slices)
            slices += taken
            budget -= sum(one.cost for one in taken)
            if request.waiting:
                break  # Its next sentence does not fit, so it is first in the next batch.
            self._small.popleft()
        return slices

    def _take_large(self) -> list[ItemSlice]:
        if not self._large:
            return []
        request = self._large.popleft()
        slices = self._take_slices(request, self.slice_words, over_budget=True)
        if request.waiting:
            self._large.append(request)
        return slices

    def _take_slices(self, request: QueuedRequest, budget: int, *, over_budget: bool) -> list[ItemSlice]:
        """Take the next sentences of a request; the first one can exceed the budget if ``over_budget`` is True."""
        slices: list[ItemSlice] = []
        while request.waiting:
            item = request.waiting[0]
            taken = item.take(budget, over_budget=over_budget and not slices)
            if not taken.examples:
                break
            slices.append(taken)
            budget -= taken.cost
            self.n_words -= taken.cost
            if item.n_taken < len(item.examples):
                break
            request.waiting.popleft()
            self.n_texts -= 1
        return slices

    def drop(self, items: Iterable[ExtractionItem]) -> None:
        """Remove the remaining sentences of texts that no client waits for any more."""
        with self._changed:
            for item in items:
                if item in item.request.waiting:
                    item.request.waiting.remove(item)
                    self.n_texts -= 1
                    self.n_words -= item.remaining_cost
            self._small = deque(request for request in self._small if request.waiting)
            self._large = deque(request for request in self._large if request.waiting)

    def close(self) -> None:
        """Accept no more requests. Waiting requests are still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
