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
    """A text in words, with the entities it was given, if any, and the thresholds to take."""

    document: Document
    thresholds: Thresholds
    given_entities: bool = False

    @property
    def n_words(self) -> int:
        """The words of the text."""
        return sum(len(sentence) for sentence in self.document.sentences)


def prepare(
    extractor: Extractor,
    text: str,
    *,
    entities: Sequence[Entity] | None = None,
    thresholds: Thresholds | None = None,
    align: Align = "exact",
) -> Order:
    """Split a text into words, and put given entities on them; what does not fit is refused."""
    chosen = extractor.model.settings.thresholds if thresholds is None else thresholds
    document = Document.from_text(text, segmenter=extractor.segmenter)
    if entities is None:
        return Order(document, chosen)
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
    return Order(Document(text, tuple(given)), chosen, given_entities=True)


class Ticket:
    """The texts of one request on their way through the model; ``future`` has their documents when all are done.

    A text that failed has its exception in place of a document.
    """

    def __init__(self, orders: Sequence[Order], context_words: int) -> None:
        self.future: Future[list[Document | Exception]] = Future()
        self.outcomes: list[Document | Exception | None] = [None] * len(orders)
        self.jobs: list[Job] = []
        for position, order in enumerate(orders):
            if order.n_words:
                self.jobs.append(Job(self, position, order, examples_of([order.document], context_words)))
            else:
                self.outcomes[position] = order.document
        # Those of which sentences are still to be taken, in order; kept by the queue.
        self.waiting = deque(self.jobs)
        self._resolve()

    def settle(self, position: int, outcome: Document | Exception) -> None:
        """Note what became of a text; called by the one thread that runs the model."""
        self.outcomes[position] = outcome
        self._resolve()

    def _resolve(self) -> None:
        done = [outcome for outcome in self.outcomes if outcome is not None]
        # A request that was given up has cancelled its future.
        if len(done) == len(self.outcomes) and self.future.set_running_or_notify_cancel():
            self.future.set_result(done)


def weight(example: Example) -> int:
    """What a sentence takes of a batch: its words, or the entities given with it where these are more."""
    return max(len(example.sentence), len(example.sentence.entities))


@dataclass(eq=False)
class Job:
    """One text of a ticket: sentences go through the model a few at a time, so that others get their turn."""

    ticket: Ticket
    position: int
    order: Order
    examples: list[Example]
    n_taken: int = 0
    found: list[Sentence] = field(default_factory=list)

    @property
    def n_words(self) -> int:
        """The words that are still to be taken."""
        return sum(len(example.sentence) for example in self.examples[self.n_taken :])

    def take(self, budget: int, *, longest: int | None) -> list[Example]:
        """The next sentences within a budget of words, by their :func:`weight`.

        The first is taken past the budget too, unless it weighs more than ``longest``: then there is none.
        """
        taken: list[Example] = []
        for example in self.examples[self.n_taken :]:
            weighs = weight(example)
            budget -= weighs
            if (budget < 0 and taken) or (longest is not None and weighs > longest):
                break
            taken.append(example)
        self.n_taken += len(taken)
        return taken

    @property
    def is_taken(self) -> bool:
        """Whether no sentence is left to take."""
        return self.n_taken == len(self.examples)

    @property
    def is_done(self) -> bool:
        """Whether the model has been through all sentences."""
        return len(self.found) == len(self.examples)

    def finish(self) -> None:
        """Hand the document over."""
        document = self.order.document
        self.ticket.settle(self.position, Document(document.text, tuple(self.found), document.id))

    def fail(self, error: Exception) -> None:
        """Give this text up."""
        self.ticket.settle(self.position, error)
