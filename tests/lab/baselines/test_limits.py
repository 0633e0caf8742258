import itertools
import random
from dataclasses import replace

import pytest

from cascade_srn.config import BaselineSettings, EncoderSettings, ModelSettings
from cascade_srn.inference.decode import find_entity
from cascade_srn.model.build import family_of
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

SHORT, LONG, TYPED, OTHER = Span(0, 1, "A"), Span(0, 3, "A"), Span(0, 1, "B"), Span(4, 5, "A")
WORDS = ["a", "b", "c", "d", "e"]
SCHEMA = Schema(("A", "B"), ("r", "s", "t"))


def _unreachable(method, entities, triples=(), schema=SCHEMA, **baseline):
    settings = ModelSettings(EncoderSettings("e"), method=method, baseline=BaselineSettings(**baseline))
    return list(family_of(settings.method).unreachable(settings, schema, Sentence.from_words(WORDS, entities, triples)))


EVERYTHING = (
    [SHORT, LONG, TYPED, OTHER],
    [
        Triple(SHORT, "r", OTHER),
        Triple(SHORT, "s", OTHER),
        Triple(LONG, "r", OTHER),
        Triple(TYPED, "t", OTHER),
        Triple(OTHER, "r", OTHER),
    ],
)


SAME_WORDS = "relation of a second entity on the same words"
SAME_START = "relation of a second entity with the same first word"


def test_the_cascade_identifies_arguments_by_their_words():
    assert _unreachable("cascade", *EVERYTHING) == [(SAME_WORDS, Triple(TYPED, "t", OTHER))]


@pytest.mark.parametrize("method", ["pfn", "table-srn"])
def test_tables_identify_arguments_by_their_first_words(method):
    assert _unreachable(method, *EVERYTHING) == [
        (SAME_START, Triple(TYPED, "t", OTHER)),
        (SAME_START, Triple(LONG, "r", OTHER)),
    ]


def test_an_entity_on_shared_words_is_never_related_to_itself():
    triples = [Triple(SHORT, "r", SHORT), Triple(SHORT, "s", TYPED), Triple(OTHER, "r", OTHER)]
    assert _unreachable("cascade", [SHORT, TYPED, OTHER], triples) == [(SAME_WORDS, triples[0])]


def _count_reachable(sentence, key):
    """Return how many relations can be predicted at most, over all orders of scores."""
    keys = {key(entity) for entity in sentence.entities}
    most = 0
    for order in itertools.permutations(range(len(sentence.entities))):
        sure = [replace(e, score=1 / (1 + rank)) for e, rank in zip(sentence.entities, order, strict=True)]
        # Entities are decoded by their words.
        by_words = {Span(*at, e.label, e.score): e for e in sure for at in [key(e)]}
        found = set()
        for head, tail in itertools.product(keys, repeat=2):
            subject = find_entity(by_words, *head)
            object_ = find_entity(by_words, *tail, not_this=subject)
            found.add((by_words[subject], by_words[object_]))
        most = max(most, sum((t.head, t.tail) in found for t in set(sentence.triples)))
    return most


@pytest.mark.parametrize("seed", range(20))
def test_unreachable_relations_are_those_that_no_scores_allow(seed):
    rng = random.Random(seed)
    spans = [Span(0, 1, "A"), Span(0, 1, "B"), Span(2, 3, "A"), Span(2, 3, "B"), Span(4, 5, "A")]
    entities = rng.sample(spans, rng.randint(2, 4))
    pairs = [Triple(rng.choice(entities), label, rng.choice(entities)) for label in "rrst"]
    triples = list(dict.fromkeys(pairs[: rng.randint(1, 4)]))
    sentence = Sentence.from_words(WORDS, entities, triples)
    lost = len(_unreachable("cascade", entities, triples))
    most = _count_reachable(sentence, lambda entity: (entity.start, entity.end))
    assert (lost == 0) == (most == len(triples))
    assert most >= len(triples) - lost


def test_the_pipeline_has_one_class_for_a_span_and_for_a_pair():
    assert _unreachable("pipeline", *EVERYTHING) == [
        ("second entity on the same words", TYPED),
        ("second relation between the same entities", Triple(SHORT, "s", OTHER)),
        ("relation of an entity that cannot be predicted", Triple(TYPED, "t", OTHER)),
        ("relation of an entity to itself", Triple(OTHER, "r", OTHER)),
    ]


def test_the_schema_decides_which_class_is_kept():
    triples = [Triple(SHORT, "r", OTHER), Triple(TYPED, "r", OTHER), Triple(TYPED, "s", OTHER)]
    assert _unreachable("pipeline", [SHORT, TYPED, OTHER], triples, Schema(("B", "A"), ("s", "r"))) == [
        ("second entity on the same words", SHORT),
        ("relation of an entity that cannot be predicted", Triple(SHORT, "r", OTHER)),
        ("second relation between the same entities", Triple(TYPED, "r", OTHER)),
    ]


def test_the_pipeline_has_a_maximum_span_length():
    found = _unreachable(
        "pipeline", [LONG, OTHER], [Triple(LONG, "r", OTHER), Triple(OTHER, "r", LONG)], max_span_words=2
    )
    assert found == [
        ("entity of more than 2 words", LONG),
        ("relation of an entity that cannot be predicted", Triple(LONG, "r", OTHER)),
        ("relation of an entity that cannot be predicted", Triple(OTHER, "r", LONG)),
    ]
    assert _unreachable("pipeline", [LONG], max_span_words=3) == []
