"""Arcs: levels and order of ends."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.drawing.sentences import NESTED, PARALLEL, sentences

from cascade_srn.drawing.layout import anchor_word, assign_levels, place_arcs
from cascade_srn.types import Span, Triple

INTERVALS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


@given(INTERVALS)
def test_intervals_on_one_level_do_not_overlap(intervals):
    placed = list(zip(intervals, assign_levels(intervals), strict=True))
    for (one, level), (other, other_level) in combinations(placed, 2):
        if level == other_level:
            assert one[1] <= other[0] or other[1] <= one[0]
        if one != other and one[0] <= other[0] and other[1] <= one[1]:
            assert level > other_level


@given(INTERVALS)
def test_no_level_is_empty(intervals):
    levels = set(assign_levels(intervals))
    assert levels == set(range(len(levels)))


def test_touching_intervals_share_a_level():
    assert assign_levels([(0, 2), (2, 5), (1, 3)]) == [0, 0, 1]


def test_entity_is_anchored_in_its_middle():
    assert [anchor_word(Span(4, end, "T")) for end in (5, 6, 7, 8)] == [4, 4, 5, 5]


@given(sentences())
def test_ends_have_distinct_positions_in_word_order(sentence):
    arcs = place_arcs(sentence.triples)
    assert [arc.triple for arc in arcs] == list(dict.fromkeys(sentence.triples))
    ends = sorted([(arc.left, arc.left_word) for arc in arcs] + [(arc.right, arc.right_word) for arc in arcs])
    assert [stop for stop, _ in ends] == list(range(2 * len(arcs)))
    assert [word for _, word in ends] == sorted(word for _, word in ends)
    for arc in arcs:
        assert arc.left < arc.right
        assert {arc.left_word, arc.right_word} == {anchor_word(arc.triple.head), anchor_word(arc.triple.tail)}


def test_arcs_between_the_same_words_nest():
    outer, *inner = place_arcs(PARALLEL.triples)
    for arc in inner:
        assert outer.left < arc.left < arc.right < outer.right
        assert outer.level > arc.level
        outer = arc


def test_arcs_of_one_word_that_can_nest_do_not_cross():
    a, b, c = (Span(n, n + 1, "T") for n in (0, 3, 6))
    short, long = place_arcs([Triple(a, "r", b), Triple(a, "r", c)])
    assert long.left < short.left < short.right < long.right
    long, short = place_arcs([Triple(a, "r", c), Triple(b, "r", c)])
    assert long.left < short.left < short.right < long.right
    left, right = place_arcs([Triple(a, "r", b), Triple(b, "r", c)])
    assert left.right < right.left
    assert left.level == right.level == 0


def test_direction():
    arcs = place_arcs(PARALLEL.triples)
    assert [arc.forward for arc in arcs] == [True, False, True, True]


def test_repeated_relation_of_an_entity_with_itself():
    to_itself = next(triple for triple in NESTED.triples if triple.head == triple.tail)
    (arc,) = place_arcs([to_itself, to_itself])
    assert (arc.left, arc.right, arc.level) == (0, 1, 0)
    assert arc.forward
