"""From probabilities to spans and triples: pure functions, on tensors until only results are left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.heads import SpanLabels
from cascade_srn.types import Span


def boundary_candidates(start: Tensor, end: Tensor, lengths: Tensor, threshold: float | Tensor) -> tuple[Tensor, ...]:
    """All spans whose first word passes as a start and whose last word passes as an end of the same label.

    Shapes:
        start, end: (n_rows, n_words, n_labels), probabilities
        lengths: (n_rows,)
        threshold: of all labels, or (n_labels,)
        returns: row, first word, last word, label: (n_candidates,) each
    """
    n_rows, n_words, n_labels = start.shape
    threshold = threshold[:, None] if isinstance(threshold, Tensor) else threshold
    real = padding_mask(lengths, n_words)[:, None]
    # Starts and ends that pass, by row and label; only those are brought together, never a table of all words.
    start_row, start_label, first = ((start.transpose(1, 2) >= threshold) & real).nonzero(as_tuple=True)
    end_row, end_label, last = ((end.transpose(1, 2) >= threshold) & real).nonzero(as_tuple=True)
    groups = end_row * n_labels + end_label, start_row * n_labels + start_label
    which_start, which_end = spans_of_queries(*groups, n_rows * n_labels)
    forward = first[which_start] <= last[which_end]
    which_start, which_end = which_start[forward], which_end[forward]
    return start_row[which_start], first[which_start], last[which_end], start_label[which_start]


def distinct_spans(found: SpanLabels, n_words: int) -> Tensor:
    """Spans without their labels, each once, in order. Shape: (n_spans, 3), row, first word and last word."""
    numbers = torch.unique((found.row * n_words + found.start) * n_words + found.last)
    of_row = numbers % n_words**2
    return torch.stack((numbers // n_words**2, of_row // n_words, of_row % n_words), dim=1)


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
