"""From probabilities to spans and triples: pure functions, on tensors until only results are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.heads import SpanLabels
from cascade_srn.types import Span


def boundary_candidates(
    start: Tensor, end: Tensor, lengths: Tensor, threshold: float | Tensor, max_words: int | None = None
) -> tuple[Tensor, ...]:
    """Find all spans whose first word passes as a start and whose last word passes as an end of the same label.

    Args:
        start: Probabilities of starts.
        end: Probabilities of ends.
        lengths: Words of each row.
        threshold: What both must reach.
        max_words: Longest span. Without it, a row in which everything passes has a candidate for each pair of words.

    Shapes:
        start, end: (n_rows, n_words, n_labels), probabilities
        lengths: (n_rows,)
        threshold: of all labels, or (n_labels,)
        returns: row, first word, last word, label: (n_candidates,) each
    """
    n_words, n_labels = start.shape[1:]
    threshold = threshold[:, None] if isinstance(threshold, Tensor) else threshold
    real = padding_mask(lengths, n_words)[:, None]
    # Only starts and ends that pass are paired, never a table of all words.
    start_row, start_label, first = ((start.transpose(1, 2) >= threshold) & real).nonzero(as_tuple=True)
    end_row, end_label, last = ((end.transpose(1, 2) >= threshold) & real).nonzero(as_tuple=True)
    # Ends are sorted by row, label and word, so the ends that belong to a start are a range of them.
    group = (start_row * n_labels + start_label) * n_words
    ends = (end_row * n_labels + end_label) * n_words + last
    beyond = n_words if max_words is None else (first + max_words).clamp(max=n_words)
    begin, stop = torch.searchsorted(ends, group + first), torch.searchsorted(ends, group + beyond)
    counts = stop - begin
    which_start = torch.repeat_interleave(counts)
    place = torch.arange(len(which_start), device=start.device) - (counts.cumsum(0) - counts)[which_start]
    which_end = begin[which_start] + place
    return start_row[which_start], first[which_start], last[which_end], start_label[which_start]


def best_of_rows(row: Tensor, score: Tensor, most: Sequence[int]) -> Tensor | None:
    """Choose the best items of each row, at most ``most`` of them. None if no row has more than that.

    Shapes:
        row, score: (n,), row rising
        most: (n_rows,)
        returns: (n,), boolean
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


def distinct_spans(found: SpanLabels, n_words: int) -> Tensor:
    """List spans without their labels, each once, in order. Shape: (n_spans, 3), row, first word and last word."""
    distinct = torch.unique((found.row * n_words + found.start) * n_words + found.last)
    of_row = distinct % n_words**2
    return torch.stack((distinct // n_words**2, of_row // n_words, of_row % n_words), dim=1)


def spans_of_queries(span_row: Tensor, query_row: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Each query with each span of its own row.

    Shapes:
        span_row: (n_spans,), rising; query_row: (n_queries,)
        returns: positions of queries and of spans, (n_pairs,) each, by query and then by span
    """
    return next(spans_of_queries_in_parts(span_row, query_row, n_rows, None))


def spans_of_queries_in_parts(
    span_row: Tensor, query_row: Tensor, n_rows: int, size: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The pairs of :func:`spans_of_queries`, so many at a time: very many of them never exist all at once.

    There is one part at least; with a ``size`` of None it is the only one.
    """
    counts = torch.bincount(span_row, minlength=n_rows)
    ends = counts[query_row].cumsum(0)
    # To the number of a pair, to get that of its span: where its row's spans begin, less where its query's pairs do.
    shift = (counts.cumsum(0) - counts)[query_row] - (ends - counts[query_row])
    n_pairs = int(ends[-1]) if len(ends) else 0
    size = max(n_pairs, 1) if size is None else size
    for begin in range(0, max(n_pairs, 1), size):
        pair = torch.arange(begin, min(begin + size, n_pairs), device=span_row.device)
        query = torch.searchsorted(ends, pair, right=True)
        yield query, pair + shift[query]


def entity_at(entities: Iterable[Span], start: int, end: int, not_this: Span | None = None) -> Span:
    """The entity that a span of turns 2 and 3 stands for.

    Those turns find words, not types. Where several entities share the words, it is the one that turn 1 is
    surest of, and of equals the first by its label, however they were listed; the object of a relation is not the very
    entity that is its subject when there is another.
    """
    sharing = [e for e in entities if e.start == start and e.end == end]
    others = [e for e in sharing if e != not_this] or sharing
    return min(others, key=lambda e: (-1.0 if e.score is None else -e.score, e))
