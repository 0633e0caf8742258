import numpy as np
import pytest
from tests.small_models import EMPTY, NESTED, SENTENCES, small_model

from cascade_srn.inference.cuda_graphs.static_shapes import (
    MAX_ROWS,
    RowShape,
    SpanPairs,
    SpanShape,
    pack_rows,
    split_points,
    triangle_position,
)
from cascade_srn.inference.decode import pair_with_spans
from cascade_srn.network.examples import Example
from cascade_srn.types import Sentence


@pytest.fixture(scope="module")
def collator():
    return small_model("swift").collator


def arrays(collator, sentences, **settings):
    return collator.pieces.arrays([collator.plain(Example(s)) for s in sentences], **settings)


def words(n):
    return Sentence.from_words(["a"] * n)


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ([3], 512, (1, 16)),
        ([14], 512, (1, 16)),
        ([15], 512, (1, 32)),  # two special pieces
        ([3, 15, 3], 512, (4, 32)),
        ([30], 40, (1, 32)),
        ([31], 40, (1, 40)),  # not wider than the encoder reads
        ([200], 512, (1, 256)),
        ([254], 512, (1, 256)),
        ([255], 512, None),  # two windows
        ([200] * MAX_ROWS, 512, None),
        ([1] * (MAX_ROWS + 1), 512, None),
    ],
)
def test_the_smallest_shape_is_found(collator, lengths, limit, expected):
    rows = arrays(collator, [words(n) for n in lengths])
    assert RowShape.find(rows, limit) == expected


def test_rows_of_several_windows_or_passes_have_no_shape(collator):
    limit = collator.pieces.limit
    assert RowShape.find(arrays(collator, [words(limit + 10)]), limit) is None
    assert RowShape.find(arrays(collator, [words(20), words(20)], max_pieces=24), limit) is None
    assert RowShape.find(arrays(collator, [EMPTY]), limit) is None


def test_padding_keeps_every_piece_and_item(collator):
    rows = arrays(collator, [*SENTENCES, NESTED])
    shape = RowShape(16, 32)
    out = np.full(sum(shape.sizes), -7)
    pack_rows(rows, shape, 99, out)
    ids, source, target, word_items, *lengths = (out[part] for part in split_points(shape.sizes))
    n, width = rows.piece_ids.shape
    assert (ids.reshape(shape)[:n, :width] == rows.piece_ids).all()
    assert (ids.reshape(shape)[n:] == 99).all()
    assert (ids.reshape(shape)[:, width:] == 99).all()
    # The same pieces belong to the same items.
    owned = len(rows.source)
    assert (ids[source[:owned]] == rows.piece_ids.ravel()[rows.source]).all()
    expected = [(t // rows.n_items, t % rows.n_items) for t in rows.target]
    assert [(t // 32, t % 32) for t in target[:owned].tolist()] == expected
    assert (target[owned:] == shape.n_words - 1).all()
    assert rows.item_lengths.max() < shape.width
    assert (word_items.reshape(shape)[:n, : rows.word_items.shape[1]] == rows.word_items).all()
    assert lengths[0].tolist() == [*rows.piece_mask.sum(1), *[1] * (16 - n)]
    assert lengths[1].tolist() == [*rows.item_lengths, *[0] * (16 - n)]
    assert lengths[2].tolist() == [*rows.word_lengths, *[0] * (16 - n)]


SPANS = np.array([(0, 0, 1), (0, 2, 2), (2, 0, 0), (2, 0, 3), (2, 1, 3)])


def test_pairs_are_those_of_the_search():
    pairs = SpanPairs(SPANS, 4)
    (expected,) = pair_with_spans(SPANS[:, 0], SPANS[:, 0], 4, 1000)
    assert pairs.n_pairs == len(expected[0]) == 4 + 9
    assert (pairs.position(*expected) == np.arange(13)).all()
    assert pairs.find_spans(SPANS[[1, 4, 2]]).tolist() == [1, 4, 2]


def test_padding_of_spans_adds_no_entity():
    entities = np.array([(0, 0, 1, 2), (2, 1, 3, 0)])
    shape = SpanShape.find(len(SPANS), len(entities), 13)
    assert shape == (8, 64)
    out = np.full(sum(shape.sizes), -7)
    SpanPairs(SPANS, 4).pack(entities, shape, out)
    spans, listed, query, span = (out[part] for part in split_points(shape.sizes))
    assert (spans.reshape(-1, 3)[:5] == SPANS).all()
    assert not spans.reshape(-1, 3)[5:].any()
    assert (listed.reshape(-1, 4)[:2] == entities).all()
    padding = listed.reshape(-1, 4)[2:]
    assert (padding[:, 2] < padding[:, 1]).all()
    (expected,) = pair_with_spans(SPANS[:, 0], SPANS[:, 0], 4, 1000)
    assert (query[:13] == expected[0]).all()
    assert (span[:13] == expected[1]).all()
    assert not query[13:].any()
    assert not span[13:].any()


def test_too_many_spans_have_no_shape():
    assert SpanShape.find(64, 10, 4096) == (64, 4096)
    assert SpanShape.find(10, 65, 100) is None
    assert SpanShape.find(65, 10, 100) is None
    assert SpanShape.find(10, 10, 4097) is None


@pytest.mark.parametrize("n_words", [1, 2, 7])
def test_positions_in_a_triangle(n_words):
    first, last = np.triu_indices(n_words)
    assert (triangle_position(first, last, n_words) == np.arange(len(first))).all()
