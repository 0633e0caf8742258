"""Lines of an SVG picture: everything is drawn, nothing overlaps, and nothing is outside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER
from tests.drawing.sentences import ALL, LONG_ENTITY, PARALLEL, sentence, sentences
from tests.drawing.test_in_browser import DENSE

from cascade_srn.drawing.layout import cut_to_width, lay_out, place_arcs, text_width
from cascade_srn.drawing.svg import LABEL_MARGIN, label_width, place_lines


def lines(one, width=600):
    labels = {arc: arc.triple.label for arc in place_arcs(one.triples)}
    return place_lines(lay_out(one, max_width=min(30, width // 8)).chunks, labels, width)


def cells(line):
    return [
        (cell, xs[cell.columns[0] - 1], xs[cell.columns[1] - 1]) for chunk, xs, _ in line.chunks for cell in chunk.cells
    ]


def apart(one, other):
    return one[1] <= other[0] + 1e-6 or other[1] <= one[0] + 1e-6


def check(one, width):
    found = lines(one, width)
    assert [cell.text for line in found for cell, _, _ in cells(line)] == list(one.words)
    arcs, labelled = set(), set()
    for line in found:
        at = 0.0
        for _, left, right in cells(line):
            assert left >= at - 1e-6
            at = right
        boxes = []
        for part in line.arcs:
            arcs.add(part.arc)
            assert part.left <= part.right
            if part.label_x is not None:
                labelled.add(part.arc)
                half = label_width(part.arc.triple.label) / 2
                boxes.append((part.level, (part.label_x - half, part.label_x + half)))
                assert part.label_x - half >= -1e-6
        bars = [(part.bar.row, (part.left, part.right)) for part in line.bars]
        assert all(left < right for _, (left, right) in bars)
        for placed in (boxes, bars, [(part.level, (part.left, part.right)) for part in line.arcs]):
            for number, (level, place) in enumerate(placed):
                assert all(level != other or apart(place, its) for other, its in placed[number + 1 :])
    assert arcs == labelled == set(place_arcs(one.triples))
    assert {part.bar.entity for line in found for part in line.bars if part.bar.opens} == set(one.entities)


@pytest.mark.parametrize("width", [120, 350, 900])
@pytest.mark.parametrize("number", range(len(ALL) + 1))
def test_hard_sentences(number, width):
    check((*ALL, DENSE)[number], width)


@given(sentences(), st.sampled_from([150, 400, 2000]))
def test_any_sentence(one, width):
    check(one, width)


def test_lines_fit_the_width():
    for width in (200, 400, 800):
        for line in lines(DENSE, width):
            cell, _, right = cells(line)[-1]
            assert right <= width + 5 * cell.gap + 1e-6


def test_words_are_widened_for_labels():
    (line,) = lines(PARALLEL)
    for part in line.arcs:
        assert part.right - part.left >= label_width(part.arc.triple.label) + LABEL_MARGIN - 1e-6
    (line,) = lines(sentence("a b", [(0, 1, "ConsiderablyLongLabel")]))
    (part,) = line.bars
    assert part.right - part.left >= label_width("ConsiderablyLongLabel")


def test_arc_continues_over_lines():
    found = lines(LONG_ENTITY, 200)
    assert len(found) > 3
    parts = [[part for part in line.arcs if part.arc.triple.label == "USED-FOR"] for line in found]
    shown = [part for (part,) in filter(None, parts)]
    assert [part.left_end for part in shown] == [True] + [False] * (len(shown) - 1)
    assert [part.right_end for part in shown] == [False] * (len(shown) - 1) + [True]
    assert all(part.left == 0 for part in shown[1:])
    assert all(part.right == 200 for part in shown[:-1])


def test_label_avoids_the_ends_of_other_arcs():
    # PART-OF starts at the middle of USED-FOR, the default place of its label.
    one = sentence(
        "aaaaaaaaaaaa bbbbbbbbbbbb cc dddddddddddd eeeeeeeeeeee ffff",
        [(n, n + 1, "Task") for n in range(6)],
        [(0, "USED-FOR", 4), (2, "PART-OF", 5)],
    )
    (line,) = lines(one, 1000)
    parts = {part.arc.triple.label: part for part in line.arcs}
    used_for, part_of = parts["USED-FOR"], parts["PART-OF"]
    half = label_width("USED-FOR") / 2
    middle = (used_for.left + used_for.right) / 2
    assert middle - half < part_of.left < middle + half
    assert abs(used_for.label_x - part_of.left) >= half
    assert used_for.left <= used_for.label_x - half < used_for.label_x + half <= used_for.right


def test_word_longer_than_a_line_is_compressed():
    one = sentence("x " * 3 + "y" * 500, [(3, 4, "Task")], [(0, "USED-FOR", 0)])
    _, line = lines(one, 300)
    assert line.chunks[0].scale < 0.2
    assert [(part.left, round(part.right)) for part in line.bars] == [(0, 300)]


@given(st.text(ANY_CHARACTER), st.floats(5, 200))
def test_cut_to_width(text, max_width):
    pieces = cut_to_width(text, 16, max_width)
    assert "".join(pieces) == text
    for piece in pieces:
        n_wide = sum(text_width(char, 16) > 0 for char in piece)
        assert n_wide <= 1 or text_width(piece, 16) <= max_width + 1e-6
