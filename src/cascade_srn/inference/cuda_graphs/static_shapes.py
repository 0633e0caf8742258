"""Padding of small batches to few shapes, so that a CUDA graph can be captured for each shape.

A graph reads its inputs from one buffer of integers. :func:`pack_rows` and :meth:`SpanPairs.pack` fill such a buffer.
The ``sizes`` of a shape tell where each input is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cascade_srn.encoder.pieces import RowArrays
from cascade_srn.encoder.windows import Integers
from cascade_srn.inference.decode import pair_with_spans

# Steps that numbers are rounded up to. Finer steps pad less and need more graphs.
_ROWS = (1, 2, 4, 8, 16)
_WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256)
_SPANS = (8, 16, 32, 64)
_PAIRS = (64, 256, 1024, 4096)
# Larger batches keep a GPU busy without a graph.
MAX_ROWS, MAX_PIECES = _ROWS[-1], 2048


class RowShape(NamedTuple):
    """Number of rows of a padded batch, and number of pieces and of items of each row."""

    n_rows: int
    width: int

    @classmethod
    def find(cls, rows: RowArrays, limit: int) -> RowShape | None:
        """Return the smallest shape for rows, or None if they are too large or have several windows.

        ``limit`` is the largest number of pieces that the encoder reads.
        """
        n_windows, n_pieces = rows.piece_ids.shape
        if n_windows != len(rows.item_lengths) or len(rows.passes) != 1 or not len(rows.source):
            return None
        # At least one item more than the longest row, where the pieces of padding are pooled.
        needed = max(n_pieces, rows.n_items + 1)
        n_rows, width = _round_up(n_windows, _ROWS), _round_up(needed, _WIDTHS)
        if n_rows is None or width is None:
            return None
        width = min(width, limit)
        return cls(n_rows, width) if needed <= width and n_rows * width <= MAX_PIECES else None

    @classmethod
    def of_sentences(cls, limit: int) -> list[RowShape]:
        """Return the shapes of single sentences."""
        return [cls(1, width) for width in dict.fromkeys(min(width, limit) for width in _WIDTHS)]

    @property
    def n_words(self) -> int:
        """Number of words, padding included."""
        return self.n_rows * self.width

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the inputs: ids, source, target, word items; lengths of rows in pieces, items and words."""
        return (*[self.n_words] * 4, *[self.n_rows] * 3)


class SpanShape(NamedTuple):
    """Number of spans and of entities, and number of pairs of spans, padding included."""

    n_spans: int
    n_pairs: int

    @classmethod
    def find(cls, n_spans: int, n_entities: int, n_pairs: int) -> SpanShape | None:
        """Return the smallest shape for spans, or None if there are too many."""
        spans, pairs = _round_up(max(n_spans, n_entities), _SPANS), _round_up(n_pairs, _PAIRS)
        return None if spans is None or pairs is None else cls(spans, pairs)

    @classmethod
    def of_sentences(cls) -> list[SpanShape]:
        """Return the shapes of single sentences that do not have many entities."""
        return [cls(*shape) for shape in zip(_SPANS[:2], _PAIRS[:2], strict=True)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the inputs: spans, entities, and the first and second spans of pairs."""
        return 3 * self.n_spans, 4 * self.n_spans, self.n_pairs, self.n_pairs


def split_points(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield the part of a buffer for each input."""
    ends = np.cumsum([0, *sizes]).tolist()
    return (slice(*part) for part in pairwise(ends))


def pack_rows(rows: RowArrays, shape: RowShape, pad_id: int, out: Integers) -> None:
    """Write padded rows to a buffer with the layout of ``shape.sizes``.

    Pieces of padding are added to the last item of the last row, which is padding, too. Rows of padding have one piece,
    because attention over no piece is undefined.
    """
    n_rows, n_pieces = rows.piece_ids.shape
    width = shape.width
    ids, source, target, word_items, *lengths = (out[part] for part in split_points(shape.sizes))
    ids.fill(pad_id)
    ids.reshape(shape)[:n_rows, :n_pieces] = rows.piece_ids
    n_owned = len(rows.source)
    source.fill(0)
    source[:n_owned] = rows.source + rows.source // n_pieces * (width - n_pieces)
    target.fill(shape.n_words - 1)
    target[:n_owned] = rows.target + rows.target // rows.n_items * (width - rows.n_items)
    word_items.fill(0)
    word_items.reshape(shape)[:n_rows, : rows.word_items.shape[1]] = rows.word_items
    for part, values, padding in zip(
        lengths, (rows.piece_mask.sum(1), rows.item_lengths, rows.word_lengths), (1, 0, 0), strict=True
    ):
        part.fill(padding)
        part[:n_rows] = values


class SpanPairs:
    """All pairs of two spans of a row, by first and then by second span.

    ``spans`` are distinct and sorted, with the columns row, first word and last word.
    """

    def __init__(self, spans: Integers, n_rows: int) -> None:
        self.spans = spans
        row = spans[:, 0]
        counts = np.bincount(row, minlength=n_rows)[row]
        first_of_row = np.searchsorted(row, row)
        # Position of the pair (query, span) = shift of the query + span.
        self._shift = np.cumsum(counts) - counts - first_of_row
        self.n_pairs = int(counts.sum())
        self.n_rows = n_rows

    def position(self, query: Integers, span: Integers) -> Integers:
        """Return the positions of pairs. Shapes: (n,) each."""
        found: Integers = self._shift[query] + span
        return found

    def find_spans(self, chosen: Integers) -> Integers:
        """Return the positions of some of the spans. Shapes: chosen (n, 3); returns (n,)."""
        n_words = int(self.spans[:, 2].max(initial=0)) + 1
        factors = np.array((n_words * n_words, n_words, 1))
        found: Integers = np.searchsorted(self.spans @ factors, chosen @ factors)
        return found

    def pack(self, entities: Integers, shape: SpanShape, out: Integers) -> None:
        """Write spans, entities and pairs to a buffer with the layout of ``shape.sizes``.

        Entities of padding have no words. Shapes: entities (n_entities, 4)
        """
        spans, listed, *pairs = (out[part] for part in split_points(shape.sizes))
        spans.fill(0)
        spans[: self.spans.size] = self.spans.ravel()
        listed.reshape(-1, 4)[:] = (0, 0, -1, 0)
        listed[: entities.size] = entities.ravel()
        if not self.n_pairs:
            pairs[0].fill(0)
            pairs[1].fill(0)
            return
        row = self.spans[:, 0]
        for part, values in zip(pairs, next(pair_with_spans(row, row, self.n_rows, self.n_pairs)), strict=True):
            part.fill(0)
            part[: self.n_pairs] = values


def triangle_position(first: Integers, last: Integers, n_words: int) -> Integers:
    """Return the positions of pairs of words, first ≤ last, in the order of ``numpy.triu_indices``."""
    found: Integers = first * n_words - first * (first - 1) // 2 + last - first
    return found


def _round_up(number: int, steps: Sequence[int]) -> int | None:
    return next((step for step in steps if number <= step), None)
