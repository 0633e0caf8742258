"""The layout: chunks, arcs, everything is drawn once, and nothing overlaps."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drawing.sentences import LONG_ENTITY, MIXED, NESTED, PARALLEL, PLAIN, RIGHT_TO_LEFT, sentences

from cascade_srn.drawing.layout import (
    LONG_ARC,
    MAX_CHUNK_WIDTH,
    anchor_word,
    assign_levels,
    assign_rows,
    lay_out,
    offset_gaps,
    place_arcs,
    split_chunks,
    terminal_width,
    text_direction,
)
from cascade_srn.types import Sentence, Span, Triple


@given(sentences())
def test_every_word_and_every_entity_is_drawn_once(sentence):
    layout = lay_out(sentence)
    assert [cell.text for chunk in layout.chunks for cell in chunk.cells] == list(sentence.words)
    for entity in sentence.entities:
        bars = [bar for chunk in layout.chunks for bar in chunk.bars if bar.entity == entity]
        assert [bar.opens for bar in bars] == [True] + [False] * (len(bars) - 1)
        assert [bar.closes for bar in bars] == [False] * (len(bars) - 1) + [True]
        assert len({bar.row for bar in bars}) == 1
        assert bars[0].row < layout.n_rows


@given(sentences())
def test_pieces_of_an_arc_meet_at_chunk_borders(sentence):
    layout = lay_out(sentence)
    for number in range(len(set(sentence.triples))):
        placed = [(at, chunk, c) for at, chunk in enumerate(layout.chunks) for c in chunk.curves if c.number == number]
        places, pieces = [at for at, _, _ in placed], [piece for _, *piece in placed]
        assert [c.left_end for _, c in pieces] == [True] + [False] * (len(pieces) - 1)
        assert [c.right_end for _, c in pieces] == [False] * (len(pieces) - 1) + [True]
        assert 1 <= sum(c.labelled for _, c in pieces) <= 2
        assert places == list(range(places[0], places[0] + len(places)))
        for chunk, curve in pieces:
            last = chunk.cells[-1].columns[1]
            assert 1 <= curve.columns[0] < curve.columns[1] <= last
            assert curve.left_end or curve.columns[0] == 1
            assert curve.right_end or curve.columns[1] == last
            assert curve.arc.level < chunk.n_levels


@given(sentences())
def test_grid_areas_do_not_overlap(sentence):
    for chunk in lay_out(sentence).chunks:
        columns = [cell.columns for cell in chunk.cells]
        assert columns[0][0] == 1
        assert all(one[1] == other[0] for one, other in pairwise(columns))
        for one, other in combinations(chunk.bars, 2):
            assert one.row != other.row or _apart(one.columns, other.columns)
        for one, other in combinations(chunk.curves, 2):
            assert one.arc.level != other.arc.level or _apart(one.columns, other.columns)
        # Arc ends share no position, and are not at the edge of a word.
        ends = [c.columns[0] for c in chunk.curves if c.left_end] + [c.columns[1] for c in chunk.curves if c.right_end]
        assert len(ends) == len(set(ends))
        assert not {*ends} & {line for pair in columns for line in pair}


def _apart(one, other):
    return one[1] <= other[0] or other[1] <= one[0]


def test_arcs_stand_on_the_middle_of_their_entities():
    (curve,) = [c for chunk in lay_out(PLAIN).chunks for c in chunk.curves if c.left_end]
    crf = next(chunk for chunk in lay_out(PLAIN).chunks if chunk.cells[0].text == "CRF")
    assert crf.cells[0].columns == (1, 3)
    assert curve.columns[0] == 2


def test_longest_entity_is_next_to_the_text():
    rows = assign_rows(NESTED.entities)
    assert rows == {
        Span(2, 6, "Task"): 0,
        Span(1, 4, "Method"): 1,
        Span(1, 4, "Material"): 2,
        Span(3, 4, "Task"): 3,
        Span(5, 6, "Method"): 1,
    }


def test_words_belong_to_the_nearest_bar():
    cells = {cell.text: cell for chunk in lay_out(NESTED).chunks for cell in chunk.cells}
    assert cells["The"].entity is None
    assert cells["University"].entity == Span(1, 4, "Method")
    assert not cells["University"].joined
    assert cells["of"].entity == cells["Germany"].entity == Span(2, 6, "Task")
    assert cells["of"].joined
    assert not cells["Germany"].joined


def test_long_arc_has_a_label_in_each_half():
    a, b = Span(0, 1, "T"), Span(20, 21, "T")
    long = Sentence.from_words(["word"] * 21, [a, b], [Triple(a, "rel", b)])
    assert LONG_ARC < 5 * 20
    places = [n for n, chunk in enumerate(lay_out(long).chunks) for c in chunk.curves if c.labelled]
    assert len(places) == 2
    assert places[0] < len(lay_out(long).chunks) // 2 <= places[1]
    assert sum(c.labelled for chunk in lay_out(PLAIN).chunks for c in chunk.curves) == 1


def test_short_words_are_joined_under_a_label():
    assert [[cell.text for cell in chunk.cells] for chunk in lay_out(PARALLEL).chunks] == [["a", "x", "y", "z", "b"]]
    short = dict.fromkeys(PARALLEL.triples, "r")
    assert len(lay_out(PARALLEL, labels=short).chunks) > 1


def test_text_between_words():
    layout = lay_out(PLAIN, gaps=[" ", " ( sic ) ", "", " ", " ", " ", ""])
    cells = [cell for chunk in layout.chunks for cell in chunk.cells]
    assert [cell.after.strip() for cell in cells] == ["", "( sic )", "", "", "", "", ""]
    assert [cell.gap for cell in cells] == [True, True, False, True, True, True, False]


def test_split_entity_continues_in_the_next_chunk():
    bars = [bar for chunk in lay_out(LONG_ENTITY).chunks for bar in chunk.bars if bar.entity == Span(2, 22, "Method")]
    assert len(bars) > 2
    assert [bar.gap for bar in bars] == [False] * (len(bars) - 1) + [True]


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


def test_long_entity_is_split():
    parts = [part for part in split_chunks(LONG_ENTITY, offset_gaps(LONG_ENTITY)) if part[0] >= 2 and part[1] <= 22]
    assert parts == [(2, 8), (8, 14), (14, 20), (20, 22)]
    assert all(sum(terminal_width(w) + 1 for w in LONG_ENTITY.words[a:b]) <= MAX_CHUNK_WIDTH for a, b in parts)


def test_words_without_a_space_between_them_stay_together():
    one = Sentence(("Lund", ".", "Next"), ((0, 4), (4, 5), (6, 10)))
    assert offset_gaps(one) == ["", " ", ""]
    assert split_chunks(one, offset_gaps(one)) == [(0, 2), (2, 3)]


@pytest.mark.parametrize(("text", "expected"), [("abc", 3), ("語語", 4), ("é", 1), ("e\u0301", 1), ("", 0)])
def test_width(text, expected):
    assert terminal_width(text) == expected


def test_text_direction():
    assert text_direction(RIGHT_TO_LEFT.words) == "rtl"
    assert text_direction(MIXED.words) == "ltr"
    assert text_direction(["1", "."]) == "ltr"


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
