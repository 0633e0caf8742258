"""What the model is asked about: one text, prepared so that only the model is left to run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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
