"""What a method can never find is counted."""

import itertools
import random
from dataclasses import replace

import pytest

from cascade_srn.baselines.limits import beyond
from cascade_srn.config import BaselineSettings, EncoderSettings, ModelSettings
from cascade_srn.inference.decode import entity_at
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

SHORT, LONG, TYPED, OTHER = Span(0, 1, "A"), Span(0, 3, "A"), Span(0, 1, "B"), Span(4, 5, "A")
WORDS = ["a", "b", "c", "d", "e"]


SCHEMA = Schema(("A", "B"), ("r", "s", "t"))


def _beyond(method, entities, triples=(), schema=SCHEMA, **baseline):
    settings = ModelSettings(EncoderSettings("e"), method=method, baseline=BaselineSettings(**baseline))
    return list(beyond(settings, schema, Sentence.from_words(WORDS, entities, triples)))


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


ON_THE_WORDS = "relation of another entity on the same words than the one that stands for them"
FROM_THE_WORD = "relation of another entity with the same first word than the one that stands for it"


def test_the_cascade_tells_arguments_by_their_words():
    assert _beyond("cascade", *EVERYTHING) == [(ON_THE_WORDS, Triple(TYPED, "t", OTHER))]


@pytest.mark.parametrize("method", ["pfn", "table-srn"])
def test_tables_tell_arguments_by_their_first_words(method):
    assert _beyond(method, *EVERYTHING) == [
        (FROM_THE_WORD, Triple(TYPED, "t", OTHER)),
        (FROM_THE_WORD, Triple(LONG, "r", OTHER)),
    ]


def test_an_entity_on_shared_words_is_never_related_to_itself():
    triples = [Triple(SHORT, "r", SHORT), Triple(SHORT, "s", TYPED), Triple(OTHER, "r", OTHER)]
    assert _beyond("cascade", [SHORT, TYPED, OTHER], triples) == [(ON_THE_WORDS, triples[0])]


def _find(sentence, place):
    """The most of its relations that any order of certainty lets be found, with every pair of places related."""
    places = {place(entity) for entity in sentence.entities}
    most = 0
    for order in itertools.permutations(range(len(sentence.entities))):
        sure = [replace(e, score=1 / (1 + rank)) for e, rank in zip(sentence.entities, order, strict=True)]
        # As if the words were those of the place, which is all that is found.
        to_device = {Span(*at, e.label, e.score): e for e in sure for at in [place(e)]}
        found = set()
        for head, tail in itertools.product(places, repeat=2):
            subject = entity_at(to_device, *head)
            object_ = entity_at(to_device, *tail, not_this=subject)
            found.add((to_device[subject], to_device[object_]))
        most = max(most, sum((t.head, t.tail) in found for t in set(sentence.triples)))
    return most


@pytest.mark.parametrize("seed", range(40))
def test_what_is_counted_is_what_cannot_be_found(seed):
    rng = random.Random(seed)
    spans = [Span(0, 1, "A"), Span(0, 1, "B"), Span(2, 3, "A"), Span(2, 3, "B"), Span(4, 5, "A")]
    entities = rng.sample(spans, rng.randint(2, 4))
    pairs = [Triple(rng.choice(entities), label, rng.choice(entities)) for label in "rrst"]
    triples = list(dict.fromkeys(pairs[: rng.randint(1, 4)]))
    sentence = Sentence.from_words(WORDS, entities, triples)
    lost = len(_beyond("cascade", entities, triples))
    most = _find(sentence, lambda entity: (entity.start, entity.end))
    assert (lost == 0) == (most == len(triples))
    assert most >= len(triples) - lost


def test_an_exact_repeat_is_no_other_relation():
    triple = Triple(SHORT, "r", OTHER)
    assert _beyond("pfn", [SHORT, OTHER], [triple, triple]) == []
    assert _beyond("pipeline", [SHORT, OTHER], [triple, triple]) == []


def test_the_pipeline_has_one_class_for_a_span_and_for_a_pair():
    assert _beyond("pipeline", *EVERYTHING) == [
        ("entity on the words of another one", TYPED),
        ("relation between the same entities as another one", Triple(SHORT, "s", OTHER)),
        ("relation of an entity that cannot be found", Triple(TYPED, "t", OTHER)),
        ("relation of an entity to itself", Triple(OTHER, "r", OTHER)),
    ]


def test_which_class_that_is_the_schema_says():
    triples = [Triple(SHORT, "r", OTHER), Triple(TYPED, "r", OTHER), Triple(TYPED, "s", OTHER)]
    assert _beyond("pipeline", [SHORT, TYPED, OTHER], triples, Schema(("B", "A"), ("s", "r"))) == [
        ("entity on the words of another one", SHORT),
        ("relation of an entity that cannot be found", Triple(SHORT, "r", OTHER)),
        ("relation between the same entities as another one", Triple(TYPED, "r", OTHER)),
    ]


def test_and_a_longest_span():
    found = _beyond("pipeline", [LONG, OTHER], [Triple(LONG, "r", OTHER), Triple(OTHER, "r", LONG)], max_span_words=2)
    assert found == [
        ("entity of more than 2 words", LONG),
        ("relation of an entity that cannot be found", Triple(LONG, "r", OTHER)),
        ("relation of an entity that cannot be found", Triple(OTHER, "r", LONG)),
    ]
    assert _beyond("pipeline", [LONG], max_span_words=3) == []
