"""Twelve annotated sentences that a model can learn by heart, with everything that annotation can contain."""

from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

SCHEMA = Schema(("Organization", "Person", "Place"), ("leads", "located-in", "married-to"), frozenset({"married-to"}))


def _sentence(text: str, entities: list[tuple[int, int, str]], relations: list[tuple[int, str, int]]) -> Sentence:
    spans = [Span(*entity) for entity in entities]
    triples = [Triple(spans[head], label, spans[tail]) for head, label, tail in relations]
    return Sentence.from_words(text.split(), spans, triples)


SENTENCES = (
    # Two subjects with different objects in one sentence: what late fusion cannot tell apart.
    _sentence(
        "Ada Berg leads Norlux in Oslo and Tim Falk leads Rivon in Bergen .",
        [
            (0, 2, "Person"), (3, 4, "Organization"), (5, 6, "Place"), (7, 9, "Person"),
            (10, 11, "Organization"), (12, 13, "Place"),
        ],
        [(0, "leads", 1), (1, "located-in", 2), (3, "leads", 4), (4, "located-in", 5)],
    ),
    _sentence("The weather was mild all week .", [], []),
    # A place inside an organisation's name.
    _sentence(
        "Mona Lind leads the University of Turku .",
        [(0, 2, "Person"), (4, 7, "Organization"), (6, 7, "Place")],
        [(0, "leads", 1), (1, "located-in", 2)],
    ),
    _sentence("Ada Berg is married to Tim Falk .", [(0, 2, "Person"), (5, 7, "Person")], [(0, "married-to", 1)]),
    # Entities without a relation.
    _sentence("Norlux sued Rivon last year .", [(0, 1, "Organization"), (2, 3, "Organization")], []),
    # One subject, two relations.
    _sentence(
        "Tim Falk , husband of Ada Berg , leads Rivon .",
        [(0, 2, "Person"), (5, 7, "Person"), (9, 10, "Organization")],
        [(0, "married-to", 1), (0, "leads", 2)],
    ),
    _sentence("In Bergen it rained .", [(1, 2, "Place")], []),
    # Two types on the same words.
    _sentence("Kiruna wins in Kiruna .", [(0, 1, "Organization"), (0, 1, "Place"), (3, 4, "Place")], []),
    # The object before the subject.
    _sentence("Rivon is led by Mona Lind .", [(0, 1, "Organization"), (4, 6, "Person")], [(1, "leads", 0)]),
    # Three levels: an organisation within an organisation, and a place in both.
    _sentence(
        "The Museum of the University of Turku opened .",
        [(1, 7, "Organization"), (4, 7, "Organization"), (6, 7, "Place")],
        [(0, "located-in", 2), (1, "located-in", 2)],
    ),
    _sentence("Nobody answered .", [], []),
    _sentence("Oslo", [(0, 1, "Place")], []),
)  # fmt: skip

DOCUMENTS = tuple(Document.from_sentences([sentence], id=str(i)) for i, sentence in enumerate(SENTENCES))
WORDS = [word for sentence in SENTENCES for word in sentence.words]
