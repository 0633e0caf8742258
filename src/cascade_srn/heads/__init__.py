"""Span extraction heads: start classifier, end classifier and start–end matcher, and their loss."""

from cascade_srn.heads.loss import SpanLabels, SpanTargets, TargetWeights, pair_positions, span_loss, span_targets
from cascade_srn.heads.span_extraction import Pairs, SpanExtractor, SpanLogits, pairs_within

__all__ = [
    "Pairs",
    "SpanExtractor",
    "SpanLabels",
    "SpanLogits",
    "SpanTargets",
    "TargetWeights",
    "pair_positions",
    "pairs_within",
    "span_loss",
    "span_targets",
]
