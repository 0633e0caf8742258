"""Decode spans from probabilities. All functions work on NumPy arrays, without a loop over words or spans.

Probabilities of a GPU are copied to the host once per turn. Decoding them on the GPU would launch many small kernels,
and wait for the GPU whenever a number of candidates is needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.encoder.windows import Integers
from cascade_srn.types import Span

Floats = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]


def find_candidates(
    start: Floats, end: Floats, lengths: Integers, threshold: float | Floats, max_words: int | None = None
) -> tuple[Integers, ...]:
    """Find all spans whose first word passes as a start and whose last word passes as an end of the same label.

    ``max_words`` is the maximum length of a span. Without it, the number of candidates can be quadratic.

    Shapes:
        start, end: (n_rows, n_words, n_labels), probabilities
        lengths: (n_rows,)
        threshold: (n_labels,), or one for all labels
        returns: row, first word, last word and label, (n_candidates,) each
    """
    n_words, n_labels = start.shape[1:]
    real = (np.arange(n_words) < lengths[:, None])[:, :, None]
    # Pair only starts and ends that pass. A table of all pairs of words would be quadratic.
    start_row, start_label, first = ((start >= threshold) & real).transpose(0, 2, 1).nonzero()
    end_row, end_label, last = ((end >= threshold) & real).transpose(0, 2, 1).nonzero()
    # Ends are sorted by row, label and word, so the ends that belong to a start are contiguous.
    group = (start_row * n_labels + start_label) * n_words
    ends = (end_row * n_labels + end_label) * n_words + last
    beyond = n_words if max_words is None else np.minimum(first + max_words, n_words)
    begin, stop = np.searchsorted(ends, group + first), np.searchsorted(ends, group + beyond)
    counts = stop - begin
    which_start = np.repeat(np.arange(len(counts)), counts)
    which_end = np.arange(len(which_start)) + (begin - (np.cumsum(counts) - counts))[which_start]
    return start_row[which_start], first[which_start], last[which_end], start_label[which_start]


def select_best(row: Integers, score: Floats, most: Sequence[int]) -> Flags | None:
    """Return a mask of the items with the best scores in each row, or None if all can be kept.

    Shapes:
        row, score: (n_items,), rows in ascending order
        most: (n_rows,), the maximum number of items of each row
        returns: (n_items,)
    """
    limits = np.asarray(most, dtype=np.int64)
    counts = np.bincount(row, minlength=len(limits))
    if bool((counts <= limits).all()):
        return None
    order = np.lexsort((-score, row))
    rank = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    chosen = np.zeros(len(row), dtype=bool)
    chosen[order] = rank < limits[row]
    return chosen


def list_spans(row: Integers, first: Integers, last: Integers, n_words: int) -> Integers:
    """Return the distinct spans in order. Shapes: (n,) each; returns (n_spans, 3): row, first word and last word."""
    ordered = np.sort((row * n_words + first) * n_words + last)
    # np.unique would import masked arrays.
    distinct = ordered[np.diff(ordered, prepend=-1) > 0]
    of_row = distinct % n_words**2
    return np.stack((distinct // n_words**2, of_row // n_words, of_row % n_words), axis=1)


def pair_with_spans(
    span_row: Integers, query_row: Integers, n_rows: int, size: int
) -> Iterator[tuple[Integers, Integers]]:
    """Pair each query with each span of its row. Yield the pairs in parts of ``size``, to bound their memory.

    There is at least one part.

    Shapes:
        span_row: (n_spans,), ascending
        query_row: (n_queries,)
        yields: positions of queries and of spans, (n_pairs,) each, sorted by query and then by span
    """
    counts = np.bincount(span_row, minlength=n_rows)
    ends = np.cumsum(counts[query_row])
    # Position of a span = position of the pair + first span of its row - first pair of its query.
    shift = (np.cumsum(counts) - counts)[query_row] - (ends - counts[query_row])
    n_pairs = int(ends[-1]) if len(ends) else 0
    for begin in range(0, max(n_pairs, 1), size):
        pair = np.arange(begin, min(begin + size, n_pairs))
        query = np.searchsorted(ends, pair, side="right")
        yield query, pair + shift[query]


def find_entity(entities: Iterable[Span], start: int, end: int, not_this: Span | None = None) -> Span:
    """Return the entity that a span of turns 2 and 3 stands for.

    Those turns find spans without entity types. Of several entities with the same span, it is the one with the best
    score, and of equal scores the first by label. ``not_this`` is the subject when an object is looked up: it is
    returned only if no other entity has the span.
    """
    sharing = [e for e in entities if e.start == start and e.end == end]
    others = [e for e in sharing if e != not_this] or sharing
    return min(others, key=lambda e: (-1.0 if e.score is None else -e.score, e))
