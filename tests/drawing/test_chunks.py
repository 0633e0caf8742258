"""Chunks: where a line can break."""

import pytest
from hypothesis import given
from tests.drawing.sentences import EMPTY, LONG_ENTITY, MIXED, NESTED, RIGHT_TO_LEFT, sentences

from cascade_srn.drawing.labels import MAX_CHUNK_WIDTH, split_chunks, terminal_width, text_direction
from cascade_srn.drawing.layout import offset_gaps
from cascade_srn.types import Sentence, Span


@given(sentences())
def test_chunks_are_the_sentence_in_order(sentence):
    found = split_chunks(sentence, offset_gaps(sentence))
    assert [word for first, end in found for word in range(first, end)] == list(range(len(sentence)))
    assert all(first < end for first, end in found)


def test_overlapping_entities_stay_together_and_plain_words_do_not():
    one = Sentence.from_words(["a", "b", "c", "d", "e", "f"], [Span(1, 3, "T"), Span(2, 5, "T"), Span(2, 3, "T")])
    assert split_chunks(one, offset_gaps(one)) == [(0, 1), (1, 5), (5, 6)]


def test_long_chain_of_overlapping_entities_is_split():
    assert split_chunks(NESTED, offset_gaps(NESTED)) == [(0, 1), (1, 5), (5, 6), (6, 7), (7, 8)]


def test_adjacent_entities_are_separate_chunks():
    one = Sentence.from_words(["a", "b"], [Span(0, 1, "T"), Span(1, 2, "T")])
    assert split_chunks(one, offset_gaps(one)) == [(0, 1), (1, 2)]


def test_long_entity_is_split():
    parts = [part for part in split_chunks(LONG_ENTITY, offset_gaps(LONG_ENTITY)) if part[0] >= 2 and part[1] <= 22]
    assert parts == [(2, 8), (8, 14), (14, 20), (20, 22)]
    assert all(sum(terminal_width(w) + 1 for w in LONG_ENTITY.words[a:b]) <= MAX_CHUNK_WIDTH for a, b in parts)


def test_words_without_a_space_between_them_stay_together():
    one = Sentence(("Lund", ".", "Next"), ((0, 4), (4, 5), (6, 10)))
    assert offset_gaps(one) == ["", " ", ""]
    assert split_chunks(one, offset_gaps(one)) == [(0, 2), (2, 3)]


def test_empty_sentence():
    assert split_chunks(EMPTY, offset_gaps(EMPTY)) == []


@pytest.mark.parametrize(("text", "expected"), [("abc", 3), ("語語", 4), ("é", 1), ("e\u0301", 1), ("", 0)])
def test_width(text, expected):
    assert terminal_width(text) == expected


def test_direction():
    assert text_direction(RIGHT_TO_LEFT.words) == "rtl"
    assert text_direction(MIXED.words) == "ltr"
    assert text_direction(["1", "."]) == "ltr"
