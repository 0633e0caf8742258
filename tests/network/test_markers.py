import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.small_models import NESTED, SCHEMA, insert_markers, small_model

from cascade_srn.config import FusionSettings
from cascade_srn.encoder.pieces import Row
from cascade_srn.network.examples import RowCollator
from cascade_srn.network.markers import Markers, marker_names
from cascade_srn.schema import Schema
from cascade_srn.types import Span

IDS = {"[A_S]": 1, "[A_E]": 2, "[B_S]": 3, "[B_E]": 4, "[S:S]": 5, "[S:E]": 6}
NAMES = {number: name for name, number in IDS.items()}
MARKERS = Markers(IDS)


def row_of(sizes):
    """Make a row in which word i has the pieces 100 * (i + 1), 100 * (i + 1) + 1, …"""
    pieces = [100 * (i + 1) + piece for i, size in enumerate(sizes) for piece in range(size)]
    return Row(
        pieces=np.array(pieces, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        word_items=np.arange(len(sizes)),
        left=np.array([7, 8]),
        right=np.array([9]),
    )


def items_of(row):
    """Return the items of a row as tuples of pieces."""
    ends = np.cumsum(row.sizes)
    return [tuple(row.pieces[end - size : end].tolist()) for size, end in zip(row.sizes, ends, strict=True)]


def to_text(row):
    """Return a row of words w0, w1, … as text."""
    return " ".join(NAMES.get(item[0], f"w{item[0] // 100 - 1}") for item in items_of(row))


@pytest.mark.parametrize(
    ("entities", "subject", "expected"),
    [
        # Nested: longer spans are outside, in any given order.
        ([Span(0, 3, "A"), Span(1, 2, "B")], None, "[A_S] w0 [B_S] w1 [B_E] w2 [A_E] w3"),
        ([Span(0, 1, "B"), Span(0, 3, "A")], None, "[A_S] [B_S] w0 [B_E] w1 w2 [A_E] w3"),
        ([Span(2, 4, "B"), Span(0, 4, "A")], None, "[A_S] w0 w1 [B_S] w2 w3 [B_E] [A_E]"),
        # Adjacent: closing markers come before opening ones.
        ([Span(2, 4, "B"), Span(0, 2, "A")], None, "[A_S] w0 w1 [A_E] [B_S] w2 w3 [B_E]"),
        # The same words: nested in the given order.
        ([Span(1, 3, "A"), Span(1, 3, "B")], None, "w0 [A_S] [B_S] w1 w2 [B_E] [A_E] w3"),
        ([Span(1, 3, "B"), Span(1, 3, "A")], None, "w0 [B_S] [A_S] w1 w2 [A_E] [B_E] w3"),
        # The subject is innermost on its words …
        ([Span(1, 2, "A"), Span(3, 4, "B")], (1, 2), "w0 [A_S] [S:S] w1 [S:E] [A_E] w2 [B_S] w3 [B_E]"),
        ([Span(1, 3, "A"), Span(1, 3, "B")], (1, 3), "w0 [A_S] [B_S] [S:S] w1 w2 [S:E] [B_E] [A_E] w3"),
        # … but around what is nested in it.
        ([Span(0, 3, "A"), Span(0, 1, "B")], (0, 3), "[A_S] [S:S] [B_S] w0 [B_E] w1 w2 [S:E] [A_E] w3"),
        # Crossing spans cannot nest, but each marker is next to its word.
        ([Span(0, 3, "A"), Span(1, 4, "B")], None, "[A_S] w0 [B_S] w1 w2 [A_E] w3 [B_E]"),
        # Without entities, as in the paper's ablation.
        ([], (3, 4), "w0 w1 w2 [S:S] w3 [S:E]"),
        ([], None, "w0 w1 w2 w3"),
    ],
)
def test_positions_of_markers(entities, subject, expected):
    for sizes in ([1, 1, 1, 1], [2, 1, 3, 2]):
        row = insert_markers(MARKERS, row_of(sizes), entities, subject)
        assert to_text(row) == expected
        assert [expected.split()[at] for at in row.word_items] == ["w0", "w1", "w2", "w3"]


sentence_sizes = st.lists(st.integers(1, 3), min_size=1, max_size=8)


@st.composite
def rows_with_spans(draw, nesting=False):
    sizes = draw(sentence_sizes)
    starts = st.integers(0, len(sizes) - 1)
    drawn = draw(st.lists(st.tuples(starts, st.integers(1, 8), st.sampled_from("AB")), max_size=6))
    spans = []
    for start, size, label in drawn:
        span = Span(start, min(start + size, len(sizes)), label)
        crossing = any(a.start < b.start < a.end < b.end for s in spans for a, b in ((s, span), (span, s)))
        if span not in spans and not (nesting and crossing):
            spans.append(span)
    subject = draw(st.sampled_from([None, *((s.start, s.end) for s in spans)]))
    return sizes, spans, subject


@given(rows_with_spans())
def test_without_its_markers_a_row_is_the_original_one(given_row):
    sizes, spans, subject = given_row
    row, plain = insert_markers(MARKERS, row_of(sizes), spans, subject), row_of(sizes)
    items = items_of(row)
    assert len(row) == len(sizes) + 2 * (len(spans) + (subject is not None))
    assert [item for item in items if item[0] not in NAMES] == items_of(plain)
    assert [items[at] for at in row.word_items] == items_of(plain)


@given(st.lists(rows_with_spans(), max_size=5), st.data())
def test_rows_marked_together_are_those_marked_one_by_one(given_rows, data):
    """Subjects are asked for in any number and order of sentences, and sentences may have none."""
    fusion = FusionSettings("markers", "markers")
    collator = RowCollator(None, MARKERS, Schema(("A", "B"), ()), fusion)
    rows, entities = [row_of(sizes) for sizes, _, _ in given_rows], [spans for _, spans, _ in given_rows]
    marked = collator.with_entities(rows, entities)
    assert list(map(as_lists, marked)) == [
        as_lists(insert_markers(MARKERS, row, sorted(spans))) for row, spans in zip(rows, entities, strict=True)
    ]
    asked = [(i, s.start, s.end - 1) for i, spans in enumerate(entities) for s in spans]
    subjects = data.draw(st.lists(st.sampled_from(asked), max_size=8)) if asked else []
    found = collator.with_subjects(rows, entities, np.array(subjects, dtype=np.int64).reshape(-1, 3))
    assert list(map(as_lists, found)) == [
        as_lists(insert_markers(MARKERS, rows[i], sorted(entities[i]), (first, last + 1)))
        for i, first, last in subjects
    ]


def as_lists(row):
    return [part.tolist() for part in (row.pieces, row.sizes, row.word_items, row.left, row.right)]


@given(rows_with_spans(nesting=True))
def test_markers_of_nested_spans_are_balanced_like_parentheses(given_row):
    sizes, spans, subject = given_row
    opened, closed, n_words = [], [], 0
    for name in to_text(insert_markers(MARKERS, row_of(sizes), spans, subject)).split():
        if name.endswith(("_S]", ":S]")):
            opened.append((name[1:-3], n_words))
        elif name.endswith(("_E]", ":E]")):
            label, start = opened.pop()
            assert label == name[1:-3]
            closed.append((start, n_words, label))
        else:
            n_words += 1
    assert opened == []
    expected = [(span.start, span.end, span.label) for span in spans]
    if subject is not None:
        expected.append((*subject, "S"))
    assert sorted(closed) == sorted(expected)


@pytest.mark.parametrize(
    ("entities", "subject", "expected"),
    [
        ("markers", "markers", ["[A_S]", "[A_E]", "[B c_S]", "[B c_E]", "[S:S]", "[S:E]"]),
        ("markers", "span", ["[A_S]", "[A_E]", "[B c_S]", "[B c_E]"]),
        ("none", "markers", ["[S:S]", "[S:E]"]),
        ("tags", "markers", ["[S:S]", "[S:E]"]),
        ("tags", "span", []),
        ("none", "tag", []),
    ],
)
def test_a_fusion_has_the_markers_it_inserts_and_no_others(entities, subject, expected):
    names = marker_names(FusionSettings(entities, subject), ["A", "B c"])
    assert list(names) == expected
    assert len(set(names.values())) == len(names)


def test_markers_are_single_pieces_of_the_models_own_tokenizer():
    model = small_model("early")
    collator = model.collator
    plain = collator.pieces.row(NESTED.words)
    row = collator.with_subjects([plain], [NESTED.entities], np.array([(0, 1, 2)]))[0]
    names = {
        model.tokenizer.convert_tokens_to_ids(name): name
        for name in marker_names(model.settings.fusion, SCHEMA.entity_types)
    }
    words = iter(NESTED.words)
    text = " ".join(names[item[0]] if item[0] in names else next(words) for item in items_of(row))
    assert text == (
        "[Thing_S] neural [Task_S] [S:S] speech recognition [S:E] [Task_E] systems [Thing_E] need "
        "[Thing_S] data [Thing_E]"
    )
    assert len(names) == 2 * len(SCHEMA.entity_types) + 2
    assert model.tokenizer.unk_token_id not in names
