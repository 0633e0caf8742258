"""The loss of one turn (paper, section "Training and Inference", eq. 14 and 15)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cascade_srn.config import LossWeights
from cascade_srn.heads.span_extraction import SpanLogits


@dataclass(frozen=True)
class SpanLabels:
    """Spans of a batch of rows.

    Shapes:
        row, start, last, label: (n_spans,); ``last`` is the index of the last word, not one past it
    """

    row: Tensor
    start: Tensor
    last: Tensor
    label: Tensor

    def to(self, device: torch.device | str) -> SpanLabels:
        """The same spans on a device."""
        return SpanLabels(*(c.to(device) for c in (self.row, self.start, self.last, self.label)))


@dataclass(frozen=True)
class TargetWeights:
    """How much there is at each position of some targets: its probability, times what its sentence counts.

    Shapes: as the positions
    """

    start: Tensor
    end: Tensor
    match: Tensor


@dataclass(frozen=True)
class SpanTargets:
    """What one turn is to find: which words start or end a span of a label, and which pairs of words are one.

    Without ``weights`` each position is one for sure.

    Shapes:
        start, end: distinct flat positions in (n_rows × n_words × n_labels)
        match: distinct flat positions in (n_pairs × n_labels), for the pairs of the turn
    """

    start: Tensor
    end: Tensor
    match: Tensor
    weights: TargetWeights | None = None


def span_targets(
    labels: SpanLabels, lengths: Tensor, n_words: int, n_labels: int, place: Tensor | None = None
) -> SpanTargets:
    """Gold spans as positions. Made before a batch goes to a GPU, which would wait for the distinct ones.

    Shapes:
        lengths: (n_rows,)
        place: where each pair of ``pairs_within`` stands among those that are used; None: all are
    """

    def words(position: Tensor) -> Tensor:
        found: Tensor = torch.unique((labels.row * n_words + position) * n_labels + labels.label)
        return found

    pairs = pair_positions(labels, lengths)
    if place is not None:
        pairs = place[pairs]
    return SpanTargets(words(labels.start), words(labels.last), torch.unique(pairs * n_labels + labels.label))


def span_loss(
    logits: SpanLogits,
    targets: SpanTargets,
    real: Tensor,
    weights: LossWeights,
    n_sentences: int,
    pair_weights: Tensor | None = None,
) -> Tensor:
    """α · L_start + β · L_end + γ · L_match, each summed over words (pairs) and labels, per sentence.

    Dividing by the number of sentences (not rows: a sentence has as many object rows as candidate subjects)
    keeps the scale the same whatever the batch size.

    Shapes:
        real: (n_rows, n_words, 1), 0 at padding, and at words 1 or what their sentence counts
        pair_weights: (n_pairs, 1), what the sentence of a pair counts; None: 1
        returns: ()
    """
    soft = targets.weights
    start = cross_entropy(logits.start, targets.start, real, None if soft is None else soft.start)
    end = cross_entropy(logits.end, targets.end, real, None if soft is None else soft.end)
    match = cross_entropy(logits.match, targets.match, pair_weights, None if soft is None else soft.match)
    return (weights.start * start + weights.end * end + weights.match * match) / max(n_sentences, 1)


def cross_entropy(
    logits: Tensor, positions: Tensor, real: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    """The summed binary cross-entropy where everything is "no" but the positions.

    For a target y, 1 or a probability, it is log(1 + eˣ) − y · x, so that no table of targets has to be made.

    Shapes:
        logits: (…, n_labels); positions: flat positions in it; real: as of :func:`span_loss`
        weights: as the positions, of :class:`TargetWeights`; None: 1
    """
    each = softplus(logits) if real is None else softplus(logits) * real
    found = logits.flatten().index_select(0, positions)
    return each.sum() - (found if weights is None else found * weights).sum()


def pair_positions(labels: SpanLabels, lengths: Tensor) -> Tensor:
    """Where each gold span stands in the order of ``pairs_within``: by row, then start, then last word.

    Shapes:
        lengths: (n_rows,)
        returns: (n_spans,)
    """
    n_pairs = lengths * (lengths + 1) // 2
    before_row = n_pairs.cumsum(0) - n_pairs
    length = lengths[labels.row]
    before_start = labels.start * length - labels.start * (labels.start - 1) // 2
    return before_row[labels.row] + before_start + labels.last - labels.start
