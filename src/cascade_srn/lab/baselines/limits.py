"""Limits of the model families: annotations that they cannot predict, and settings that apply to the cascade only."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from cascade_srn.config import ModelSettings
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.examples import Example
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# Identifies the argument of a relation: all words of an entity, or its first word.
WordKey = tuple[int, ...]


class Unreachable(NamedTuple):
    """An annotation that a model family cannot predict, and why."""

    problem: str
    annotation: Span | Triple


def find_unreachable(settings: ModelSettings, schema: Schema, sentence: Sentence) -> Iterator[Unreachable]:
    """Yield the annotations of a sentence that no model of these settings can predict, however it is trained.

    The cascade can predict all entities, including nested ones and several types on the same words.
    """
    if settings.method == "pipeline":
        yield from _unreachable_in_pipeline(settings.baseline.max_span_words, schema, sentence)
    elif settings.method == "cascade":
        problem = "relation of a second entity on the same words"
        yield from _unreachable_by_key(problem, lambda entity: (entity.start, entity.end), sentence)
    else:
        problem = "relation of a second entity with the same first word"
        yield from _unreachable_by_key(problem, lambda entity: (entity.start,), sentence)


def _unreachable_by_key(problem: str, key: Callable[[Span], WordKey], sentence: Sentence) -> Iterator[Unreachable]:
    """Yield the relations of entities that share their key with another entity and are not chosen for it.

    A key is decoded as the entity with the highest score. Only as the object of that entity, it is decoded as the one
    with the next score. The scores are unknown here: the choice that keeps most relations is assumed.
    """
    triples = sorted(set(sentence.triples))
    within = [triple for triple in triples if key(triple.head) == key(triple.tail)]
    between = [triple for triple in triples if key(triple.head) != key(triple.tail)]
    arguments = [*(argument for t in between for argument in (t.head, t.tail)), *(t.head for t in within)]
    first = _most_frequent(arguments, key)
    second = _most_frequent((t.tail for t in within if t.head == first[key(t.head)] != t.tail), key)
    shared = {words for words, number in Counter(map(key, set(sentence.entities))).items() if number > 1}
    for triple in triples:
        head, tail = key(triple.head), key(triple.tail)
        objects = second if head == tail and head in shared else first
        if triple.head != first[head] or triple.tail != objects.get(tail):
            yield Unreachable(problem, triple)


def _most_frequent(entities: Iterable[Span], key: Callable[[Span], WordKey]) -> dict[WordKey, Span]:
    """Return the most frequent entity of each key, the first of equals."""
    chosen: dict[WordKey, Span] = {}
    for entity, _ in sorted(Counter(entities).items(), key=lambda item: (-item[1], item[0])):
        chosen.setdefault(key(entity), entity)
    return chosen


def _unreachable_in_pipeline(max_words: int, schema: Schema, sentence: Sentence) -> Iterator[Unreachable]:
    """Yield long entities, all but the first class of a span or pair, and relations of such entities."""
    entity_types, relation_types = schema.entity_types, schema.relation_types
    lost: set[Span] = set()
    typed: set[tuple[int, int]] = set()
    for entity in sorted(sentence.entities, key=lambda e: (e.start, e.end, entity_types.index(e.label))):
        if entity.end - entity.start > max_words:
            lost.add(entity)
            yield Unreachable(f"entity of more than {max_words} words", entity)
        elif (entity.start, entity.end) in typed:
            lost.add(entity)
            yield Unreachable("second entity on the same words", entity)
        typed.add((entity.start, entity.end))
    related: set[tuple[Span, Span]] = set()
    for triple in sorted(set(sentence.triples), key=lambda t: (t.head, t.tail, relation_types.index(t.label))):
        pair = (triple.head, triple.tail)
        if triple.head in lost or triple.tail in lost:
            yield Unreachable("relation of an entity that cannot be predicted", triple)
        elif triple.head == triple.tail:
            yield Unreachable("relation of an entity to itself", triple)
        elif pair in related:
            yield Unreachable("second relation between the same entities", triple)
        related.add(pair)


def refuse_cascade_settings(method: str, examples: Sequence[Example], settings: BatchSettings) -> None:
    """Refuse candidate subjects, sampled negatives and soft labels, which baselines do not support."""
    if settings.candidates != "entities":
        raise ConfigError(
            f"candidates is {settings.candidates!r}, but the method {method!r} has no object turn",
            "Use 'entities', or train a cascade",
            option="candidates",
        )
    if settings.negatives != 1:
        raise ConfigError(
            f"negatives is {settings.negatives:g}, but the method {method!r} learns from all pairs of words",
            "Use 1, or train a cascade",
            option="negatives",
        )
    if any(example.soft is not None or example.weight != 1 for example in examples):
        raise DataError(
            f"sentences have weights or labels of a teacher, but the method {method!r} learns from annotated sentences "
            "only",
            "Remove data.labels, or train a cascade",
        )
