"""The request queue in front of the model: bounded by cost, and emptied in batches that are fair to short requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from cascade_srn.config import Thresholds
from cascade_srn.data.alignment import Align, WordMap
from cascade_srn.data.examples import Example, examples_of
from cascade_srn.extractor import Extractor
from cascade_srn.types import Document, Entity, Sentence, Span


@dataclass(frozen=True)
class Order:
    """A text in sentences and words, ready for the model.

    Attributes:
        document: The text, with the entities that were given, if any.
        thresholds: The thresholds to apply.
        examples: The sentences with their context.
        costs: What each sentence costs, counted in ordinary words (``WordPieces.cost``).
        given_entities: Whether relations are looked for between the given entities only.
    """

    document: Document
    thresholds: Thresholds
    examples: Sequence[Example]
    costs: Sequence[int]
    given_entities: bool = False


def prepare(
    extractor: Extractor,
    text: str,
    *,
    entities: Sequence[Entity] | None = None,
    thresholds: Thresholds | None = None,
    align: Align = "exact",
) -> Order:
    """Split a text into words, place the given entities on them, and work out what the text costs.

    Raises:
        CascadeError: An entity does not start and end where words do, or has an unknown label.
    """
    chosen = extractor.model.settings.thresholds if thresholds is None else thresholds
    document = Document.from_text(text, segmenter=extractor.segmenter)
    if entities is None:
        return _order(extractor, document, chosen)
    places = WordMap(text, [sentence.offsets for sentence in document.sentences])
    spans: list[list[Span]] = [[] for _ in document.sentences]
    for entity in entities:
        place = places.place(entity.start, entity.end, align=align)
        spans[place.sentence].append(Span(place.start, place.end, entity.label, entity.score))
    if align == "expand":
        # Two that differed may cover the same words now.
        spans = [list(dict.fromkeys(there)) for there in spans]
    given = [sentence.annotated(there, ()) for sentence, there in zip(document.sentences, spans, strict=True)]
    for number, sentence in enumerate(given):
        extractor.schema.check(sentence, f"sentence {number}")
    return _order(extractor, Document(text, tuple(given)), chosen, given_entities=True)


def _order(extractor: Extractor, document: Document, thresholds: Thresholds, *, given_entities: bool = False) -> Order:
    examples = examples_of([document], extractor.model.settings.encoder.context_words)
    # Every given entity is compared with all others of its sentence.
    costs = [max(1, extractor.model.cost(example), len(example.sentence.entities)) for example in examples]
    return Order(document, thresholds, examples, costs, given_entities)


class Ticket:
    """The texts of one request on their way through the model; ``future`` has their documents when all are done.

    A text that failed has its exception in place of a document.
    """

    def __init__(self, orders: Sequence[Order]) -> None:
        self.future: Future[list[Document | Exception]] = Future()
        self.outcomes: list[Document | Exception | None] = [None] * len(orders)
        self.jobs: list[Job] = []
        for position, order in enumerate(orders):
            if any(len(sentence) for sentence in order.document.sentences):
                self.jobs.append(Job(self, position, order))
            else:
                self.outcomes[position] = order.document
        # Those of which sentences are still to be taken, in order; kept by the queue.
        self.waiting = deque(self.jobs)
        self._resolve()

    @property
    def remaining(self) -> int:
        """Cost of all sentences that are still to be taken."""
        return sum(job.remaining for job in self.jobs)

    @property
    def longest(self) -> int:
        """Cost of the longest sentence."""
        return max((cost for job in self.jobs for cost in job.order.costs), default=0)

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits for the result any more: its time is over or the client is gone."""
        return self.future.cancelled()

    def settle(self, position: int, outcome: Document | Exception) -> None:
        """Note what became of a text; called by the one thread that runs the model."""
        self.outcomes[position] = outcome
        self._resolve()

    def _resolve(self) -> None:
        done = [outcome for outcome in self.outcomes if outcome is not None]
        # A request that was given up has cancelled its future.
        if len(done) == len(self.outcomes) and self.future.set_running_or_notify_cancel():
            self.future.set_result(done)


@dataclass(eq=False)
class Job:
    """One text of a ticket. Its sentences go through the model a few at a time, so that others get their turn."""

    ticket: Ticket
    position: int
    order: Order
    n_taken: int = 0
    found: list[Sentence] = field(default_factory=list)

    @property
    def remaining(self) -> int:
        """Cost of the sentences that are still to be taken."""
        return sum(self.order.costs[self.n_taken :])

    def take(self, budget: int, *, over_budget: bool) -> tuple[list[Example], int]:
        """Take the next sentences within a budget, and return them with their cost.

        With ``over_budget`` the first sentence is taken whatever it costs.
        """
        begin, cost = self.n_taken, 0
        for each in self.order.costs[begin:]:
            if cost + each > budget and not (over_budget and self.n_taken == begin):
                break
            cost += each
            self.n_taken += 1
        return list(self.order.examples[begin : self.n_taken]), cost

    @property
    def is_taken(self) -> bool:
        """Whether no sentence is left to take."""
        return self.n_taken == len(self.order.examples)

    @property
    def is_done(self) -> bool:
        """Whether the model has been through all sentences."""
        return len(self.found) == len(self.order.examples)

    def finish(self) -> None:
        """Hand the document over."""
        document = self.order.document
        self.ticket.settle(self.position, Document(document.text, tuple(self.found), document.id))

    def fail(self, error: Exception) -> None:
        """Give this text up."""
        self.ticket.settle(self.position, error)


# Sentences longer than this are mostly lists and tables, which cost several times more than their length suggests.
# The longest sentence of SciERC has 101 words.
LONG_SENTENCE = 128


class QueueFull(Exception):
    """There is no room for a request's texts at present."""


class RequestTooLarge(Exception):
    """A request costs more than the whole queue holds, so it can never be taken."""


class QueueClosed(Exception):
    """The queue accepts no more requests."""


@dataclass(frozen=True)
class Part:
    """The sentences of one text that go into one batch."""

    job: Job
    examples: list[Example]
    cost: int

    @property
    def n_words(self) -> int:
        """Number of words in the sentences."""
        return sum(len(example.sentence) for example in self.examples)


@dataclass(frozen=True)
class Batch:
    """What the model works on next. ``is_large`` marks a slice of a request that does not fit into one batch."""

    parts: list[Part]
    is_large: bool = False

    def __bool__(self) -> bool:
        return bool(self.parts)


class WaitingRoom:
    """Requests that wait for the model, bounded by the number of their texts and by their cost.

    Costs are counted in ordinary words (``WordPieces.cost``). A request that fits into one batch and has no sentence
    longer than ``LONG_SENTENCE`` is *small*, any other is *large*. Small requests are taken in the order they came.
    Large requests are worked on in slices of ``slice_words``, and batches alternate between the two kinds. So a small
    request waits for one slice at most, and a large one is never starved.

    One thread takes batches. Any thread puts and drops.
    """

    def __init__(self, *, max_texts: int, max_words: int, batch_words: int) -> None:
        self.max_texts = max_texts
        self.max_words = max_words
        self.batch_words = batch_words
        self.slice_words = batch_words
        self.n_texts = 0
        self.n_words = 0
        self._small: deque[Ticket] = deque()
        self._large: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._crowded = False
        self._was_large = False

    @property
    def is_full(self) -> bool:
        """Whether any request would be refused at present."""
        return self.n_texts >= self.max_texts or self.n_words >= self.max_words

    def put(self, ticket: Ticket) -> None:
        """Add all texts of a request, or none.

        Raises:
            RequestTooLarge: The request does not even fit into an empty queue.
            QueueFull: It does not fit beside what waits already.
            QueueClosed: The service is stopping.
        """
        cost = ticket.remaining
        with self._changed:
            if self._closed:
                raise QueueClosed
            if len(ticket.jobs) > self.max_texts or cost > self.max_words:
                raise RequestTooLarge
            if self.n_texts + len(ticket.jobs) > self.max_texts or self.n_words + cost > self.max_words:
                raise QueueFull
            if ticket.waiting:
                is_small = cost <= self.batch_words and ticket.longest <= LONG_SENTENCE
                (self._small if is_small else self._large).append(ticket)
            self.n_texts += len(ticket.jobs)
            self.n_words += cost
            self._changed.notify()

    def take(self, *, wait: float) -> Batch:
        """Wait for the next batch. It is empty once the queue is closed and nothing is left.

        If the last batch held several texts, many clients are active, and up to ``wait`` seconds are spent to fill the
        next one. A single client never waits.
        """
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._small or self._large or self._closed)
                if self._small and not self._large and self._crowded and wait:
                    self._changed.wait_for(lambda: self.n_words >= self.batch_words or self._closed, timeout=wait)
                batch = self._next()
                self._crowded = len(batch.parts) > 1
                # Everything that waited may have been dropped in the meantime.
                if batch or self._closed:
                    return batch

    def take_small(self) -> Batch:
        """Take a batch of small requests without waiting. It is empty if there are none."""
        with self._changed:
            return Batch(self._take_small())

    def _next(self) -> Batch:
        if self._small and (self._was_large or not self._large):
            self._was_large = False
            return Batch(self._take_small())
        self._was_large = True
        return Batch(self._take_large(), is_large=True)

    def _take_small(self) -> list[Part]:
        parts: list[Part] = []
        room = self.batch_words
        while self._small and room > 0:
            ticket = self._small[0]
            taken = self._take(ticket, room, over_budget=not parts)
            parts += taken
            room -= sum(part.cost for part in taken)
            if ticket.waiting:
                break  # Its next sentence does not fit: it is first in the next batch.
            self._small.popleft()
        return parts

    def _take_large(self) -> list[Part]:
        if not self._large:
            return []
        ticket = self._large.popleft()
        parts = self._take(ticket, self.slice_words, over_budget=True)
        if ticket.waiting:
            self._large.append(ticket)
        return parts

    def _take(self, ticket: Ticket, budget: int, *, over_budget: bool) -> list[Part]:
        """Take the next sentences of a request within a budget; the first one also if it exceeds the budget."""
        parts: list[Part] = []
        while ticket.waiting:
            job = ticket.waiting[0]
            part = Part(job, *job.take(budget, over_budget=over_budget and not parts))
            if not part.examples:
                break
            parts.append(part)
            budget -= part.cost
            self.n_words -= part.cost
            if not job.is_taken:
                break
            ticket.waiting.popleft()
            self.n_texts -= 1
        return parts

    def drop(self, jobs: Iterable[Job]) -> None:
        """Remove texts, or what is left of them, that nobody waits for any more."""
        with self._changed:
            for job in jobs:
                if job in job.ticket.waiting:
                    job.ticket.waiting.remove(job)
                    self.n_texts -= 1
                    self.n_words -= job.remaining
            self._small = deque(ticket for ticket in self._small if ticket.waiting)
            self._large = deque(ticket for ticket in self._large if ticket.waiting)

    def close(self) -> None:
        """Accept no more requests. What waits is still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
