"""What a method can never find is counted."""

import pytest

from cascade_srn.baselines.limits import beyond
from cascade_srn.config import BaselineSettings, EncoderSettings, ModelSettings
from cascade_srn.types import Sentence, Span, Triple

SHORT, LONG, TYPED, OTHER = Span(0, 1, "A"), Span(0, 3, "A"), Span(0, 1, "B"), Span(4, 5, "A")
WORDS = ["a", "b", "c", "d", "e"]


def _beyond(method, entities, triples=(), **baseline):
    settings = ModelSettings(EncoderSettings("e"), method=method, baseline=BaselineSettings(**baseline))
    return list(beyond(settings, Sentence.from_words(WORDS, entities, triples)))


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


def test_the_cascade_is_not_counted_here():
    assert _beyond("cascade", *EVERYTHING) == []


@pytest.mark.parametrize("method", ["pfn", "table-srn"])
def test_tables_tell_arguments_by_their_first_words(method):
    found = _beyond(method, *EVERYTHING)
    assert found == [("relation between the same first words as another one of its type", Triple(LONG, "r", OTHER))]


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


def test_and_a_longest_span():
    found = _beyond("pipeline", [LONG, OTHER], [Triple(LONG, "r", OTHER), Triple(OTHER, "r", LONG)], max_span_words=2)
    assert found == [
        ("entity of more than 2 words", LONG),
        ("relation of an entity that cannot be found", Triple(LONG, "r", OTHER)),
        ("relation of an entity that cannot be found", Triple(OTHER, "r", LONG)),
    ]
    assert _beyond("pipeline", [LONG], max_span_words=3) == []
