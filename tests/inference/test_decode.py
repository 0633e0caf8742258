import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.inference.decode import find_candidates, find_entity, pair_with_spans
from cascade_srn.training.distil.turns import pair_with_spans as pair_with_spans_on_device
from cascade_srn.types import Span


@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    padding=st.integers(0, 2),
    n_labels=st.integers(1, 3),
    threshold=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_candidates_are_all_starts_with_all_ends_of_their_label(lengths, padding, n_labels, threshold, seed):
    rng = np.random.default_rng(seed)
    n_words = max(lengths) + padding
    # Few distinct values, so that some are equal to the threshold and pass.
    start, end = (rng.integers(0, 5, (len(lengths), n_words, n_labels)) / 4 for _ in range(2))
    expected = [
        (row, first, last, label)
        for row, length in enumerate(lengths)
        for first in range(length)
        for last in range(first, length)
        for label in range(n_labels)
        if start[row, first, label] >= threshold and end[row, last, label] >= threshold
    ]
    found = find_candidates(start, end, np.array(lengths), threshold)
    assert sorted(zip(*(column.tolist() for column in found), strict=True)) == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.data())
def test_each_query_is_paired_with_each_span_of_its_row(counts, data):
    span_row = [row for row, count in enumerate(counts) for _ in range(count)]
    query_row = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=6))
    expected = [
        (query, span) for query, row in enumerate(query_row) for span, other in enumerate(span_row) if row == other
    ]
    given = np.array(span_row, dtype=np.int64), np.array(query_row, dtype=np.int64)
    query, span = pair_with_spans_on_device(*map(torch.from_numpy, given), len(counts))
    assert list(zip(query.tolist(), span.tolist(), strict=True)) == expected
    for size in (1, 2, 5, 100):
        parts = list(pair_with_spans(*given, len(counts), size))
        assert [len(query) for query, _ in parts[:-1]] == [size] * (len(parts) - 1)
        found = [pair for query, span in parts for pair in zip(query.tolist(), span.tolist(), strict=True)]
        assert found == expected


A, B, C = Span(1, 3, "A", 0.4), Span(1, 3, "B", 0.9), Span(1, 3, "C", 0.6)
ELSEWHERE = Span(1, 2, "A", 1.0), Span(2, 3, "A", 1.0), Span(0, 3, "A", 1.0)


@pytest.mark.parametrize(
    ("entities", "not_this", "expected"),
    [
        ([*ELSEWHERE, A], None, A),
        ([A, B, C], None, B),  # the best score
        ([A, B, C], B, C),  # the best score of the others
        ([A, B, C], A, B),
        ([B], B, B),  # itself if there is no other
        ([A, B, C, *ELSEWHERE], Span(7, 8, "B"), B),
        ([Span(1, 3, "A"), Span(1, 3, "B")], None, Span(1, 3, "A")),  # given without scores: the first by label
        ([Span(1, 3, "B"), Span(1, 3, "A")], None, Span(1, 3, "A")),
        ([B, Span(1, 3, "A")], None, Span(1, 3, "A")),  # a given entity counts as 1
    ],
)
def test_a_span_stands_for_the_entity_with_the_best_score(entities, not_this, expected):
    assert find_entity(iter(entities), 1, 3, not_this=not_this) is next(e for e in entities if e == expected)
