"""The span extraction model of the three turns (paper, appendix "Span Extraction Model")."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Typical share of words that start (or end) a span of a label, and of word pairs that are a span. The output biases
# start there. Otherwise the first epochs only learn that most targets are 0.
BOUNDARY_PRIOR = 0.02
MATCH_PRIOR = 0.002

# Prediction scores this many pairs at a time, which bounds its memory. A CPU is faster with parts that fit its cache.
_CHUNK_PAIRS, _CPU_CHUNK_PAIRS = 1 << 17, 1 << 12
# Training keeps the activations of this many pairs, about 1.5 GB with the default width. More pairs, as in long
# sentences with many entities, are scored in checkpointed parts, which are computed again in the backward pass.
_MAX_KEPT_PAIRS = 1 << 19

# The pairs of sentences up to this length are cached.
_MAX_CACHED_WORDS = 128


@dataclass(frozen=True)
class Pairs:
    """Pairs of words that are candidates for the first and last word of a span.

    Shapes: row, start, last (n_pairs,)
    """

    row: Tensor
    start: Tensor
    last: Tensor

    def __len__(self) -> int:
        return self.row.shape[0]

    def __getitem__(self, part: slice) -> Pairs:
        return Pairs(self.row[part], self.start[part], self.last[part])


@dataclass(frozen=True)
class SpanLogits:
    """Outputs of a span extraction model for a batch, before the sigmoid.

    Shapes: start, end (n_rows, n_words, n_labels); match (n_pairs, n_labels)
    """

    start: Tensor
    end: Tensor
    match: Tensor


def pairs_within(lengths: Tensor, max_words: int | None = None) -> Pairs:
    """Return all pairs of words of the same row with start ≤ last, by row, then start, then last word.

    Spans of more than ``max_words`` words are left out. Shapes: lengths (n_rows,).
    """
    triangles = [_triangle(n) if n <= _MAX_CACHED_WORDS else np.triu_indices(n) for n in lengths.tolist()]
    none = np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(len(triangles)), [len(starts) for starts, _ in triangles])
    start, last = (np.concatenate([none, *(triangle[i] for triangle in triangles)]) for i in (0, 1))
    if max_words is not None:
        is_short = last - start < max_words
        row, start, last = row[is_short], start[is_short], last[is_short]
    return Pairs(torch.from_numpy(row), torch.from_numpy(start), torch.from_numpy(last))


@lru_cache(maxsize=_MAX_CACHED_WORDS)
def _triangle(n_words: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.triu_indices(n_words)


class SpanExtractor(nn.Module):
    """Computes start, end and match logits of each label from task-specific word representations (eq. 12, 13)."""

    def __init__(self, width: int, n_labels: int, *, matcher: LinearMatcher | MlpMatcher, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.start = nn.Linear(width, n_labels)
        self.end = nn.Linear(width, n_labels)
        self.matcher = matcher
        for layer in (self.start, self.end):
            nn.init.constant_(layer.bias, _logit(BOUNDARY_PRIOR))

    def forward(self, words: Tensor, pairs: Pairs) -> SpanLogits:
        """Compute the logits of all words and of the given pairs.

        Shapes: words (n_rows, n_words, width)
        """
        words = self.dropout(words)
        return SpanLogits(self.start(words), self.end(words), self.matcher(words, pairs))

    def boundaries(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Compute start and end logits. Shapes: words (…, width); returns two of (…, n_labels)."""
        return self.start(words), self.end(words)

    def spans(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute start, end and match logits of spans from the representations of their first and last words.

        Shapes:
            first, last: (n_pairs, width)
            returns: three of (n_pairs, n_labels)
        """
        return self.start(first), self.end(last), self.matcher.score(self.matcher.start(first), self.matcher.last(last))

    def match(self, words: Tensor, pairs: Pairs) -> Tensor:
        """Compute match logits of pairs. Shapes: words (n_rows, n_words, width); returns (n_pairs, n_labels)."""
        logits: Tensor = self.matcher(words, pairs)
        return logits


class LinearMatcher(nn.Module):
    """The matcher of the paper: one linear layer over the concatenated representations of two words (eq. 13).

    Its score is a sum of a start score and an end score, so that it cannot model which start belongs to which end.
    """

    def __init__(self, width: int, n_labels: int) -> None:
        super().__init__()
        self.start = nn.Linear(width, n_labels)
        self.last = nn.Linear(width, n_labels, bias=False)
        nn.init.constant_(self.start.bias, _logit(MATCH_PRIOR))

    def forward(self, words: Tensor, pairs: Pairs) -> Tensor:
        """Shapes: words (n_rows, n_words, width); returns (n_pairs, n_labels)."""
        return self.score(*_gather_pairs(self.start(words), self.last(words), pairs))

    def score(self, start: Tensor, last: Tensor) -> Tensor:
        """Score pairs from the projections of their first and last words. Shapes: (n_pairs, n_labels) each."""
        return start + last


class MlpMatcher(nn.Module):
    """The default matcher: a hidden layer over the sum of two projections, so that start and end interact."""

    # Deviation: eq. 13 is additive, a_i + b_j + bias, and cannot match starts with ends (docs/adr/0002).

    def __init__(self, width: int, n_labels: int, *, hidden_width: int) -> None:
        super().__init__()
        self.start = nn.Linear(width, hidden_width)
        self.last = nn.Linear(width, hidden_width, bias=False)
        self.norm = nn.LayerNorm(hidden_width)
        self.output = nn.Linear(hidden_width, n_labels)
        nn.init.constant_(self.output.bias, _logit(MATCH_PRIOR))

    def forward(self, words: Tensor, pairs: Pairs) -> Tensor:
        """Shapes: words (n_rows, n_words, width); returns (n_pairs, n_labels)."""
        start, last = self.start(words), self.last(words)
        chunk = _CHUNK_PAIRS if self.training or start.is_cuda else _CPU_CHUNK_PAIRS
        if len(pairs) <= (_MAX_KEPT_PAIRS if self.training else chunk):
            return self._score_pairs(start, last, pairs)
        parts = [pairs[first : first + chunk] for first in range(0, len(pairs), chunk)]
        if not self.training:
            return torch.cat([self._score_pairs(start, last, part) for part in parts])
        scores = [
            checkpoint(self._score_pairs, start, last, part, use_reentrant=False, preserve_rng_state=False)
            for part in parts
        ]
        return torch.cat(scores)

    def _score_pairs(self, start: Tensor, last: Tensor, pairs: Pairs) -> Tensor:
        return self.score(*_gather_pairs(start, last, pairs))

    def score(self, start: Tensor, last: Tensor) -> Tensor:
        """Score pairs from the projections of their words. Shapes: (n_pairs, hidden_width) to (n_pairs, n_labels)."""
        # In the dtype of the weights, because a CPU accumulates the gradients of a norm in bfloat16 inaccurately.
        logits: Tensor = self.output(nn.functional.gelu(self.norm((start + last).to(self.norm.weight.dtype))))
        return logits


def _gather_pairs(start: Tensor, last: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Return the start projection of each pair's first word and the last projection of its last word."""
    n_words = start.shape[1]
    first = start.flatten(0, 1).index_select(0, pairs.row * n_words + pairs.start)
    second = last.flatten(0, 1).index_select(0, pairs.row * n_words + pairs.last)
    return first, second


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))
