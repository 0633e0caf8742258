"""From probabilities to spans and triples: pure functions, on tensors until only results are left."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.types import Span


def boundary_candidates(start: Tensor, end: Tensor, lengths: Tensor, threshold: float) -> tuple[Tensor, ...]:
    """All spans whose first word passes as a start and whose last word passes as an end of the same label.

    Shapes:
        start, end: (n_rows, n_words, n_labels), probabilities
        lengths: (n_rows,)
        returns: row, first word, last word, label: (n_candidates,) each
    """
    real = padding_mask(lengths, start.shape[1])[:, :, None]
    starts = ((start >= threshold) & real).transpose(1, 2)
    ends = ((end >= threshold) & real).transpose(1, 2)
    row, label, first, last = (starts[..., :, None] & ends[..., None, :]).triu().nonzero(as_tuple=True)
    return row, first, last, label


def spans_of_queries(span_row: Tensor, query_row: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Each query with each span of its own row.

    Shapes:
        span_row: (n_spans,), rising; query_row: (n_queries,)
        returns: positions of queries and of spans, (n_pairs,) each, by query and then by span
    """
    counts = torch.bincount(span_row, minlength=n_rows)
    first = counts.cumsum(0) - counts
    wanted = counts[query_row]
    query = torch.repeat_interleave(torch.arange(query_row.shape[0], device=span_row.device), wanted)
    within = torch.arange(query.shape[0], device=span_row.device) - (wanted.cumsum(0) - wanted)[query]
    return query, first[query_row[query]] + within


def entity_at(entities: Iterable[Span], start: int, end: int, not_this: Span | None = None) -> Span:
    """The entity that a span of turns 2 and 3 stands for.

    Those turns find words, not types. Where several entities share the words, it is the one that turn 1 is
    surest of; the object of a relation is not the very entity that is its subject when there is another.
    """
    sharing = [e for e in entities if e.start == start and e.end == end]
    others = [e for e in sharing if e != not_this] or sharing
    return max(others, key=lambda e: 1.0 if e.score is None else e.score)
