"""Where lines may be broken."""

import pytest
from hypothesis import given
from tests.drawing.sentences import EMPTY, LONG_ENTITY, MIXED, NESTED, RIGHT_TO_LEFT, sentences

from cascade_srn.drawing.labels import KEPT_TOGETHER, direction, extents, width
from cascade_srn.drawing.layout import gaps
from cascade_srn.types import Sentence, Span


@given(sentences())
def test_chunks_are_the_sentence_in_order(sentence):
    found = extents(sentence, gaps(sentence))
    assert [word for first, end in found for word in range(first, end)] == list(range(len(sentence)))
    assert all(first < end for first, end in found)


def test_overlapping_entities_stay_together_and_plain_words_do_not():
    one = Sentence.from_words(["a", "b", "c", "d", "e", "f"], [Span(1, 3, "T"), Span(2, 5, "T"), Span(2, 3, "T")])
    assert extents(one, gaps(one)) == [(0, 1), (1, 5), (5, 6)]


def test_a_chain_of_overlapping_entities_is_broken_where_it_no_longer_fits():
    assert extents(NESTED, gaps(NESTED)) == [(0, 1), (1, 5), (5, 6), (6, 7), (7, 8)]


def test_entities_that_touch_may_be_parted():
    one = Sentence.from_words(["a", "b"], [Span(0, 1, "T"), Span(1, 2, "T")])
    assert extents(one, gaps(one)) == [(0, 1), (1, 2)]


def test_a_long_entity_is_broken_into_parts_that_fit():
    parts = [part for part in extents(LONG_ENTITY, gaps(LONG_ENTITY)) if part[0] >= 2 and part[1] <= 22]
    assert parts == [(2, 8), (8, 14), (14, 20), (20, 22)]
    assert all(sum(width(w) + 1 for w in LONG_ENTITY.words[a:b]) <= KEPT_TOGETHER for a, b in parts)


def test_words_without_a_space_between_them_stay_together():
    one = Sentence(("Lund", ".", "Next"), ((0, 4), (4, 5), (6, 10)))
    assert gaps(one) == ["", " ", ""]
    assert extents(one, gaps(one)) == [(0, 2), (2, 3)]


def test_nothing_to_draw():
    assert extents(EMPTY, gaps(EMPTY)) == []


@pytest.mark.parametrize(("text", "expected"), [("abc", 3), ("語語", 4), ("é", 1), ("e\u0301", 1), ("", 0)])
def test_width(text, expected):
    assert width(text) == expected


def test_direction():
    assert direction(RIGHT_TO_LEFT.words) == "rtl"
    assert direction(MIXED.words) == "ltr"
    assert direction(["1", "."]) == "ltr"
