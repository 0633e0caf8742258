"""The loss of one turn (paper, section "Training and Inference", eq. 14 and 15)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from cascade_srn.config import LossWeights
from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.heads.span_extraction import SpanLogits


@dataclass(frozen=True)
class SpanLabels:
    """The gold spans of a batch of rows.

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


def span_loss(
    logits: SpanLogits, labels: SpanLabels, lengths: Tensor, weights: LossWeights, n_sentences: int
) -> Tensor:
    """α · L_start + β · L_end + γ · L_match, each summed over words (pairs) and labels, per sentence.

    Dividing by the number of sentences (not rows: a sentence has as many object rows as candidate subjects)
    keeps the scale the same whatever the batch size.

    Shapes:
        lengths: (n_rows,)
        returns: ()
    """
    real = padding_mask(lengths, logits.start.shape[1])[:, :, None]
    start = _boundary_loss(logits.start, labels.row, labels.start, labels.label, real)
    end = _boundary_loss(logits.end, labels.row, labels.last, labels.label, real)
    targets = torch.zeros_like(logits.match)
    targets[pair_positions(labels, lengths), labels.label] = 1.0
    match = binary_cross_entropy_with_logits(logits.match, targets, reduction="sum")
    return (weights.start * start + weights.end * end + weights.match * match) / max(n_sentences, 1)


def _boundary_loss(logits: Tensor, row: Tensor, word: Tensor, label: Tensor, real: Tensor) -> Tensor:
    targets = torch.zeros_like(logits)
    targets[row, word, label] = 1.0
    losses = binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.masked_fill(~real, 0.0).sum()


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
