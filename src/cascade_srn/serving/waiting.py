"""The queue before the model: bounded, fair to short texts beside long ones, emptied in batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from cascade_srn.data.examples import Example
from cascade_srn.serving.work import Job, Ticket, weight

# However many wait, a request gets this many words of a batch: long texts would fall into single sentences otherwise.
SMALLEST_SHARE = 128


class QueueFull(Exception):
    """There is no room for a request's texts now."""


class RequestTooLarge(Exception):
    """A request that does not fit into the queue even when it is empty."""


class QueueClosed(Exception):
    """Nothing is taken in any more."""


@dataclass(frozen=True)
class Part:
    """The sentences of a text that go into one batch."""

    job: Job
    examples: list[Example]

    @property
    def n_words(self) -> int:
        """The words of the sentences."""
        return sum(len(example.sentence) for example in self.examples)

    @property
    def weight(self) -> int:
        """What the sentences take of a batch."""
        return sum(map(weight, self.examples))


class WaitingRoom:
    """Requests in the order they came; counted in texts and in words, and bounded by both.

    One thread takes batches, any thread puts and drops. A request that is longer than its share of a batch goes back
    to the end of the queue for the rest, so that a short one never waits for a long one to be finished.
    """

    def __init__(self, *, max_texts: int, max_words: int) -> None:
        self.max_texts = max_texts
        self.max_words = max_words
        self.n_texts = 0
        self.n_words = 0
        self._tickets: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._crowded = False

    @property
    def is_full(self) -> bool:
        """Whether any request would be refused now."""
        return self.n_texts >= self.max_texts or self.n_words >= self.max_words

    def put(self, ticket: Ticket) -> None:
        """Let all texts of a request in, or none. An empty queue takes any request."""
        n_words = sum(job.n_words for job in ticket.jobs)
        with self._changed:
            if self._closed:
                raise QueueClosed
            too_many = self.n_texts + len(ticket.jobs) > self.max_texts or self.n_words + n_words > self.max_words
            if self._tickets and too_many:
                raise QueueFull
            if ticket.waiting:
                self._tickets.append(ticket)
            self.n_texts += len(ticket.jobs)
            self.n_words += n_words
            self._changed.notify()

    def take(self, batch_words: int, *, wait: float) -> list[Part]:
        """The next batch, as soon as there is something; empty when the queue is closed and nothing is left.

        Where the last batch held more than one text, many ask at once, and waiting a little makes batches larger.
        A single client never waits.
        """
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._tickets or self._closed)
                if self._tickets and self._crowded and wait:
                    self._changed.wait_for(lambda: self.n_words >= batch_words or self._closed, timeout=wait)
                parts = self._batch(batch_words)
                self._crowded = len(parts) > 1
                # All that waited may have been dropped meanwhile.
                if parts or self._closed:
                    return parts

    def _batch(self, room: int) -> list[Part]:
        parts: list[Part] = []
        unfinished: list[Ticket] = []
        share = max(SMALLEST_SHARE, room // max(1, len(self._tickets)))
        while self._tickets and room > 0:
            ticket = self._tickets.popleft()
            taken = self._take(ticket, min(room, share), longest=room if parts else None)
            if not taken:
                # Its next sentence does not fit any more: first in the next batch.
                self._tickets.appendleft(ticket)
                break
            parts += taken
            room -= sum(part.weight for part in taken)
            if ticket.waiting:
                unfinished.append(ticket)
        self._tickets += unfinished
        return parts

    def _take(self, ticket: Ticket, budget: int, *, longest: int | None) -> list[Part]:
        """The next sentences of a request within a budget of words; see :meth:`Job.take` for ``longest``."""
        parts: list[Part] = []
        while ticket.waiting and budget > 0:
            job = ticket.waiting[0]
            part = Part(job, job.take(budget, longest=budget if parts else longest))
            if not part.examples:
                break
            parts.append(part)
            budget -= part.weight
            self.n_words -= part.n_words
            if not job.is_taken:
                break
            ticket.waiting.popleft()
            self.n_texts -= 1
        return parts

    def drop(self, jobs: Iterable[Job]) -> None:
        """Forget texts, or what is left of them, that nobody waits for any more."""
        with self._changed:
            for job in jobs:
                if job in job.ticket.waiting:
                    job.ticket.waiting.remove(job)
                    self.n_texts -= 1
                    self.n_words -= job.n_words
            self._tickets = deque(ticket for ticket in self._tickets if ticket.waiting)

    def close(self) -> None:
        """Take nothing in any more; what waits is still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
