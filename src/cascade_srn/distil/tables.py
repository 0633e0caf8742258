"""Tables of probabilities on a device, and the few places in them that are worth keeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cascade_srn.data.soft import KINDS
from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.heads import Pairs, SpanLogits
from cascade_srn.predict import least


@dataclass(frozen=True)
class Entries:
    """Places in the rows of a table: as of :class:`~cascade_srn.data.soft.SoftTable`, each with its row.

    Shapes: (n_entries,) each, row by row
    """

    row: NDArray[np.int32]
    position: NDArray[np.int32]
    probability: NDArray[np.float16]


def mean_probabilities(members: Sequence[SpanLogits]) -> SpanLogits:
    """Of several models, place by place, with no temperature: what a student is to learn.

    A temperature is chosen for what comes close to being decided on. Dividing the logits of all the places that are
    clearly nothing by it as well would make thousands of them likely.
    """
    return SpanLogits(*(_mean([getattr(member, kind).sigmoid() for member in members]) for kind in KINDS))


def span_scores(
    members: Sequence[SpanLogits], temperatures: Sequence[float], pairs: Pairs, at: Tensor | None = None
) -> Tensor:
    """The least of a span's three probabilities, each the mean over models with temperatures of their own.

    For all pairs, or for those ``at`` places among them. Shapes: at (n_spans,); returns (n_spans, n_labels)
    """
    row, first, last = pairs.row, pairs.start, pairs.last
    if at is not None:
        row, first, last = row[at], first[at], last[at]
    n_words = members[0].start.shape[1]
    starts, ends, matches = [], [], []
    for member, temperature in zip(members, temperatures, strict=True):
        match = member.match if at is None else member.match[at]
        starts.append((member.start.flatten(0, 1).index_select(0, row * n_words + first) / temperature).sigmoid())
        ends.append((member.end.flatten(0, 1).index_select(0, row * n_words + last) / temperature).sigmoid())
        matches.append((match / temperature).sigmoid())
    return least(_mean(matches), _mean(starts), _mean(ends))


def _mean(values: Sequence[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(tuple(values)).mean(0)


def certainties(scores: Tensor, threshold: Tensor) -> Tensor:
    """How certain decisions are: |2p − 1|, p being the score with its odds divided by those of its threshold.

    So it is 0 at the threshold and 1 for scores of 0 and 1; with a threshold of 0.5, p is the score itself.

    Shapes: scores (…, n_labels), threshold (n_labels,); returns (…, n_labels)
    """
    return (torch.logit(scores, eps=1e-6) - torch.logit(threshold, eps=1e-6)).div(2).tanh().abs()


def least_by_row(values: Tensor, row: Tensor, n_rows: int) -> Tensor:
    """The least value of each row, 1 where it has none. Shapes: values (n, n_labels), row (n,); returns (n_rows,)."""
    ones = values.new_ones(n_rows)
    if not values.numel():
        return ones
    return ones.scatter_reduce(0, row, values.amin(1), "amin", include_self=True)


def kept_words(table: Tensor, lengths: Tensor, floor: float) -> Entries:
    """Where a table of starts or ends reaches the floor. Shapes: table (n_rows, n_words, n_labels)."""
    n_words, n_labels = table.shape[1:]
    places = ((table >= floor) & padding_mask(lengths, n_words)[:, :, None]).flatten().nonzero()[:, 0]
    size = max(n_words * n_labels, 1)
    return _fetched(places // size, places % size, table.flatten()[places])


def kept_pairs(table: Tensor, pairs: Pairs, lengths: Tensor, floor: float) -> Entries:
    """Where a table of matches reaches the floor. Shapes: table (n_pairs, n_labels), lengths (n_rows,)."""
    n_labels = max(table.shape[1], 1)
    places = (table >= floor).flatten().nonzero()[:, 0]
    row = pairs.row[places // n_labels]
    n_pairs = lengths * (lengths + 1) // 2
    before = n_pairs.cumsum(0) - n_pairs
    return _fetched(row, places - before[row] * n_labels, table.flatten()[places])


def _fetched(row: Tensor, position: Tensor, probability: Tensor) -> Entries:
    """Brought from the device in one piece, probabilities as their bits."""
    bits = probability.float().view(torch.int32)
    fetched = torch.stack((row.int(), position.int(), bits)).cpu().numpy()
    return Entries(fetched[0], fetched[1], fetched[2].view(np.float32).astype(np.float16))
