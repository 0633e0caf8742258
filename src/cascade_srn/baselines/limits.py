"""What the form of a baseline cannot hold: gold annotation that it can never find, counted before training.

All of it counts in the scores, as missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cascade_srn.config import ModelSettings
from cascade_srn.types import Sentence, Span, Triple


class Limit(NamedTuple):
    """An annotation that a method cannot find, and why."""

    problem: str
    what: Span | Triple


def beyond(settings: ModelSettings, sentence: Sentence) -> Iterator[Limit]:
    """The annotations of a sentence that a model of these settings cannot find, whatever it has learned.

    The cascade can find all entities, nested ones and several types on the same words included; what its later turns
    cannot tell apart is counted with the other checks of the data.
    """
    if settings.method == "pipeline":
        yield from _beyond_pipeline(settings.baseline.max_span_words, sentence)
    elif settings.method != "cascade":
        yield from _beyond_tables(sentence)


def _beyond_tables(sentence: Sentence) -> Iterator[Limit]:
    """Arguments are told by their first words: of relations that agree in them, one can be found."""
    problem = "relation between the same first words as another one of its type"
    seen: set[tuple[int, str, int]] = set()
    for triple in sorted(set(sentence.triples)):
        cell = (triple.head.start, triple.label, triple.tail.start)
        if cell in seen:
            yield Limit(problem, triple)
        seen.add(cell)


def _beyond_pipeline(max_words: int, sentence: Sentence) -> Iterator[Limit]:
    """A span and a pair have one class each, and spans have a longest length."""
    lost: set[Span] = set()
    typed: set[tuple[int, int]] = set()
    for entity in sorted(sentence.entities):
        if entity.end - entity.start > max_words:
            lost.add(entity)
            yield Limit(f"entity of more than {max_words} words", entity)
        elif (entity.start, entity.end) in typed:
            lost.add(entity)
            yield Limit("entity on the words of another one", entity)
        typed.add((entity.start, entity.end))
    related: set[tuple[Span, Span]] = set()
    for triple in sorted(set(sentence.triples)):
        pair = (triple.head, triple.tail)
        if triple.head in lost or triple.tail in lost:
            yield Limit("relation of an entity that cannot be found", triple)
        elif triple.head == triple.tail:
            yield Limit("relation of an entity to itself", triple)
        elif pair in related:
            yield Limit("relation between the same entities as another one", triple)
        related.add(pair)
