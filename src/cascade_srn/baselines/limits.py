"""Settings of training that mean something to the cascade alone: refused, rather than quietly left aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from cascade_srn.config import ModelSettings
from cascade_srn.data.batch import BatchSettings
from cascade_srn.data.examples import Example
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

Place = tuple[int, ...]


class Limit(NamedTuple):
    """An annotation that a method cannot find, and why."""

    problem: str
    what: Span | Triple


def beyond(settings: ModelSettings, schema: Schema, sentence: Sentence) -> Iterator[Limit]:
    """The annotations of a sentence that a model of these settings cannot find, whatever it has learned.

    The cascade can find all entities, nested ones and several types on the same words included.
    """
    if settings.method == "pipeline":
        yield from _beyond_pipeline(settings.baseline.max_span_words, schema, sentence)
    elif settings.method == "cascade":
        problem = "relation of another entity on the same words than the one that stands for them"
        yield from _beyond_places(problem, lambda entity: (entity.start, entity.end), sentence)
    else:
        problem = "relation of another entity with the same first word than the one that stands for it"
        yield from _beyond_places(problem, lambda entity: (entity.start,), sentence)


def _beyond_places(problem: str, place: Callable[[Span], Place], sentence: Sentence) -> Iterator[Limit]:
    """Relations are found between places, each of which stands for the surest entity there.

    Only as the object of that one it stands for the next. Which entities a model will be surest of is not known: those
    that most relations need are taken.
    """
    triples = sorted(set(sentence.triples))
    within = [triple for triple in triples if place(triple.head) == place(triple.tail)]
    between = [triple for triple in triples if place(triple.head) != place(triple.tail)]
    needed = [*(argument for triple in between for argument in (triple.head, triple.tail)), *(t.head for t in within)]
    surest = _most_needed(needed, place)
    following = _most_needed((t.tail for t in within if t.head == surest[place(t.head)] != t.tail), place)
    shared = {at for at, number in Counter(map(place, set(sentence.entities))).items() if number > 1}
    for triple in triples:
        head, tail = place(triple.head), place(triple.tail)
        objects = following if head == tail and head in shared else surest
        if triple.head != surest[head] or triple.tail != objects.get(tail):
            yield Limit(problem, triple)


def _most_needed(entities: Iterable[Span], place: Callable[[Span], Place]) -> dict[Place, Span]:
    """Of the entities at a place the one that comes most often, of equals the first."""
    found: dict[Place, Span] = {}
    for entity, _ in sorted(Counter(entities).items(), key=lambda item: (-item[1], item[0])):
        found.setdefault(place(entity), entity)
    return found


def _beyond_pipeline(max_words: int, schema: Schema, sentence: Sentence) -> Iterator[Limit]:
    """A span and a pair have one class each, the first of the schema, and spans have a longest length."""
    entity_types, relation_types = schema.entity_types, schema.relation_types
    lost: set[Span] = set()
    typed: set[tuple[int, int]] = set()
    for entity in sorted(sentence.entities, key=lambda e: (e.start, e.end, entity_types.index(e.label))):
        if entity.end - entity.start > max_words:
            lost.add(entity)
            yield Limit(f"entity of more than {max_words} words", entity)
        elif (entity.start, entity.end) in typed:
            lost.add(entity)
            yield Limit("entity on the words of another one", entity)
        typed.add((entity.start, entity.end))
    related: set[tuple[Span, Span]] = set()
    for triple in sorted(set(sentence.triples), key=lambda t: (t.head, t.tail, relation_types.index(t.label))):
        pair = (triple.head, triple.tail)
        if triple.head in lost or triple.tail in lost:
            yield Limit("relation of an entity that cannot be found", triple)
        elif triple.head == triple.tail:
            yield Limit("relation of an entity to itself", triple)
        elif pair in related:
            yield Limit("relation between the same entities as another one", triple)
        related.add(pair)


def refuse_what_the_cascade_learns_from(method: str, examples: Sequence[Example], settings: BatchSettings) -> None:
    """Refuse candidate subjects, sampled negatives and a teacher's labels, which a baseline does not know."""
    if settings.candidates != "entities":
        raise ConfigError(
            f"candidates is {settings.candidates!r}, but the method {method!r} has no turn that is asked about "
            "subjects; leave it at 'entities', or train a cascade"
        )
    if settings.negatives != 1:
        raise ConfigError(
            f"negatives is {settings.negatives:g}, but the method {method!r} learns from all pairs of words; leave it "
            "at 1, or train a cascade"
        )
    if any(example.soft is not None or example.weight != 1 for example in examples):
        raise DataError(
            f"there are sentences with weights or a teacher's labels, but the method {method!r} learns from annotated "
            "sentences alone; leave out data.labels, or train a cascade"
        )
