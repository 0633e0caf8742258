"""The loss of one turn (paper, section "Training and Inference", eq. 14 and 15)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from cascade_srn.config import LossWeights
from cascade_srn.network.span_extraction import SpanLogits


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


@dataclass(frozen=True)
class TargetWeights:
    """Weights of the positions of :class:`SpanTargets`: probability times sentence weight.

    Shapes: those of the positions
    """

    start: Tensor
    end: Tensor
    match: Tensor


@dataclass(frozen=True)
class SpanTargets:
    """Targets of one turn: the positions of span starts, span ends and spans.

    Without ``weights``, all positions have the target 1.

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
    """Convert gold spans to targets. Call it before the batch moves to a GPU: ``torch.unique`` would synchronise there.

    Shapes:
        lengths: (n_rows,)
        place: index of each pair of ``pairs_within`` among the pairs of the turn; None if the turn has all of them
    """

    def words(position: Tensor) -> Tensor:
        distinct: Tensor = torch.unique((labels.row * n_words + position) * n_labels + labels.label)
        return distinct

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
    """Compute α · L_start + β · L_end + γ · L_match, each summed over words (pairs) and labels, per sentence.

    The sum is divided by the number of sentences, so that its scale does not depend on the batch size. Rows would not
    serve: a sentence has one object row for each candidate subject.

    Shapes:
        real: (n_rows, n_words, 1), 0 at padding, elsewhere the weight of the sentence
        pair_weights: (n_pairs, 1), the weight of the sentence of a pair; None: 1
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
    """Compute the summed binary cross-entropy with the target 0 everywhere except at the positions.

    The loss of a target y is log(1 + eˣ) − y · x, so that no dense table of targets is needed.

    Shapes:
        logits: (…, n_labels); positions: flat positions in it; real: that of :func:`span_loss`
        weights: targets at the positions (:class:`TargetWeights`); None: 1
    """
    negative = softplus(logits) if real is None else softplus(logits) * real
    positive = logits.flatten().index_select(0, positions)
    return negative.sum() - (positive if weights is None else positive * weights).sum()


def pair_positions(labels: SpanLabels, lengths: Tensor) -> Tensor:
    """Return the index of each gold span in the order of ``pairs_within``: by row, then start, then last word.

    Shapes: lengths (n_rows,); returns (n_spans,)
    """
    n_pairs = lengths * (lengths + 1) // 2
    before_row = n_pairs.cumsum(0) - n_pairs
    length = lengths[labels.row]
    before_start = labels.start * length - labels.start * (labels.start - 1) // 2
    return before_row[labels.row] + before_start + labels.last - labels.start
