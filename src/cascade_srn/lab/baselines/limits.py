"""Limits of the baselines: annotations that they cannot predict, and settings that apply to the cascade only."""

from collections.abc import Iterator, Sequence

from cascade_srn.config import ModelSettings
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.model.build import Unreachable, unreachable_by_key
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.examples import Example
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span


def unreachable_in_tables(settings: ModelSettings, schema: Schema, sentence: Sentence) -> Iterator[Unreachable]:
    """Yield the relations that tables of first words cannot predict."""
    problem = "relation of a second entity with the same first word"
    return unreachable_by_key(problem, lambda entity: (entity.start,), sentence)


def unreachable_in_pipeline(settings: ModelSettings, schema: Schema, sentence: Sentence) -> Iterator[Unreachable]:
    """Yield long entities, all but the first class of a span or pair, and relations of such entities."""
    max_words = settings.baseline.max_span_words
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
