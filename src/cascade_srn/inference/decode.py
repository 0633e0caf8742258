"""Decode spans from probabilities. All functions work on tensors, without a loop over words or spans."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.heads import SpanLabels
from cascade_srn.types import Span


def find_candidates(
    start: Tensor, end: Tensor, lengths: Tensor, threshold: float | Tensor, max_words: int | None = None
) -> tuple[Tensor, ...]:
    """Find all spans whose first word passes as a start and whose last word passes as an end of the same label.

    ``max_words`` is the maximum length of a span. Without it, the number of candidates can be quadratic.

    Shapes:
        start, end: (n_rows, n_words, n_labels), probabilities
        lengths: (n_rows,)
        threshold: (n_labels,), or one for all labels
        returns: row, first word, last word and label, (n_candidates,) each
    """
    n_words, n_labels = start.shape[1:]
    threshold = threshold[:, None] if isinstance(threshold, Tensor) else threshold
    real = padding_mask(lengths, n_words)[:, None]
    # Pair only starts and ends that pass. A table of all pairs of words would be quadratic.
    start_row, start_label, first = ((start.transpose(1, 2) >= threshold) & real).nonzero(as_tuple=True)
    end_row, end_label, last = ((end.transpose(1, 2) >= threshold) & real).nonzero(as_tuple=True)
    # Ends are sorted by row, label and word, so the ends that belong to a start are contiguous.
    group = (start_row * n_labels + start_label) * n_words
    ends = (end_row * n_labels + end_label) * n_words + last
    beyond = n_words if max_words is None else (first + max_words).clamp(max=n_words)
    begin, stop = torch.searchsorted(ends, group + first), torch.searchsorted(ends, group + beyond)
    counts = stop - begin
    which_start = torch.repeat_interleave(counts)
    place = torch.arange(len(which_start), device=start.device) - (counts.cumsum(0) - counts)[which_start]
    which_end = begin[which_start] + place
    return start_row[which_start], first[which_start], last[which_end], start_label[which_start]


def select_best(row: Tensor, score: Tensor, most: Sequence[int]) -> Tensor | None:
    """Return a mask of the items with the best scores in each row, or None if all can be kept.

    Shapes:
        row, score: (n_items,), rows in ascending order
        most: (n_rows,), the maximum number of items of each row
        returns: (n_items,)
    """
    if len(row) <= min(most, default=0):
        return None
    counts = torch.bincount(row, minlength=len(most))
    if all(count <= limit for count, limit in zip(counts.tolist(), most, strict=True)):
        return None
    limits = torch.tensor(most, dtype=torch.long, device=row.device)
    order = score.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]
    rank = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    chosen = torch.zeros_like(row, dtype=torch.bool)
    chosen[order] = rank < limits[row]
    return chosen


def list_spans(found: SpanLabels, n_words: int) -> Tensor:
    """Return the distinct spans in order, without labels. Shape: (n_spans, 3): row, first word and last word."""
    distinct = torch.unique((found.row * n_words + found.start) * n_words + found.last)
    of_row = distinct % n_words**2
    return torch.stack((distinct // n_words**2, of_row // n_words, of_row % n_words), dim=1)


def pair_with_spans(span_row: Tensor, query_row: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Pair each query with each span of its row.

    Shapes:
        span_row: (n_spans,), ascending
        query_row: (n_queries,)
        returns: positions of queries and of spans, (n_pairs,) each, sorted by query and then by span
    """
    return next(pair_with_spans_in_parts(span_row, query_row, n_rows, None))


def pair_with_spans_in_parts(
    span_row: Tensor, query_row: Tensor, n_rows: int, size: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the pairs of :func:`pair_with_spans` in parts of ``size`` pairs, to bound their memory.

    There is at least one part. A ``size`` of None makes one part of all pairs.
    """
    counts = torch.bincount(span_row, minlength=n_rows)
    ends = counts[query_row].cumsum(0)
    # Position of a span = position of the pair + first span of its row - first pair of its query.
    shift = (counts.cumsum(0) - counts)[query_row] - (ends - counts[query_row])
    n_pairs = int(ends[-1]) if len(ends) else 0
    size = max(n_pairs, 1) if size is None else size
    for begin in range(0, max(n_pairs, 1), size):
        pair = torch.arange(begin, min(begin + size, n_pairs), device=span_row.device)
        query = torch.searchsorted(ends, pair, right=True)
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
