"""The span extraction model (paper, appendix "Span Extraction Model"), shared by the three turns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# What share of words starts (or ends) a span of a given label, and what share of word pairs is one: the output
# biases start there, or the first epochs are spent on learning that almost everything is "no".
BOUNDARY_PRIOR = 0.02
MATCH_PRIOR = 0.002


@dataclass(frozen=True)
class Pairs:
    """Pairs of words that may be the first and the last word of a span.

    Shapes:
        row, start, last: (n_pairs,)
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
    """What a span extraction model says of a batch, before the sigmoid.

    Shapes:
        start, end: (n_rows, n_words, n_labels)
        match: (n_pairs, n_labels)
    """

    start: Tensor
    end: Tensor
    match: Tensor


def pairs_within(lengths: Tensor) -> Pairs:
    """All pairs of words of the same row in which the start does not come after the last word.

    Deviation: the paper sums its matching loss over all n² pairs. A pair whose start comes after its end is
    never decoded, so those cells are neither computed nor learned.

    Shapes:
        lengths: (n_rows,)
    """
    triangles = [_triangle(n) if n <= _SHORT else np.triu_indices(n) for n in lengths.tolist()]
    none = np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(len(triangles)), [len(starts) for starts, _ in triangles])
    start, last = (np.concatenate([none, *(triangle[i] for triangle in triangles)]) for i in (0, 1))
    return Pairs(torch.from_numpy(row), torch.from_numpy(start), torch.from_numpy(last))


# Sentences up to this length have their pairs remembered.
_SHORT = 128


@lru_cache(maxsize=_SHORT)
def _triangle(n_words: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.triu_indices(n_words)


class SpanExtractor(nn.Module):
    """Start, end and match logits for each label, from the words' task-specific representations."""

    def __init__(self, width: int, n_labels: int, *, matcher: LinearMatcher | MlpMatcher, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.start = nn.Linear(width, n_labels)
        self.end = nn.Linear(width, n_labels)
        self.matcher = matcher
        for layer in (self.start, self.end):
            nn.init.constant_(layer.bias, _logit(BOUNDARY_PRIOR))

    def forward(self, words: Tensor, pairs: Pairs) -> SpanLogits:
        """Logits of all words and of the pairs of words.

        Shapes:
            words: (n_rows, n_words, width)
        """
        words = self.dropout(words)
        return SpanLogits(self.start(words), self.end(words), self.matcher(words, pairs))

    def boundaries(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Start and end logits alone. Shapes: words (…, width); returns two of (…, n_labels)."""
        return self.start(words), self.end(words)

    def spans(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Start, end and match logits of spans, from the representations of their first and last words.

        Shapes:
            first, last: (n_pairs, width)
            returns: three of (n_pairs, n_labels)
        """
        return self.start(first), self.end(last), self.matcher.score(self.matcher.start(first), self.matcher.last(last))

    def match(self, words: Tensor, pairs: Pairs) -> Tensor:
        """Match logits of chosen pairs. Shapes: words (n_rows, n_words, width); returns (n_pairs, n_labels)."""
        logits: Tensor = self.matcher(words, pairs)
        return logits


class LinearMatcher(nn.Module):
    """The paper's matcher: one linear layer over the two words' representations side by side (eq. 13).

    It equals a score for the start plus a score for the end, so it cannot tell which belongs to which.
    """

    def __init__(self, width: int, n_labels: int) -> None:
        super().__init__()
        self.start = nn.Linear(width, n_labels)
        self.last = nn.Linear(width, n_labels, bias=False)
        nn.init.constant_(self.start.bias, _logit(MATCH_PRIOR))

    def forward(self, words: Tensor, pairs: Pairs) -> Tensor:
        """Shapes: words (n_rows, n_words, width); returns (n_pairs, n_labels)."""
        return self.score(*_of_pairs(self.start(words), self.last(words), pairs))

    def score(self, start: Tensor, last: Tensor) -> Tensor:
        """From the projections of first and last words. Shapes: (n_pairs, n_labels) all."""
        return start + last


class MlpMatcher(nn.Module):
    """Ours, the default: a hidden layer over the sum of two projections, so that start and end interact."""

    # Deviation: eq. 13 is additive, a_i + b_j + bias, and cannot pair starts with ends (docs/adr/0002).

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
        # A processor is faster with few pairs at a time, which stay in its cache; a GPU wants many.
        at_once = _PAIRS_AT_ONCE if self.training or start.is_cuda else _PAIRS_AT_ONCE_ON_CPU
        if len(pairs) <= (_PAIRS_KEPT if self.training else at_once):
            return self._score_pairs(start, last, pairs)
        parts = [pairs[at : at + at_once] for at in range(0, len(pairs), at_once)]
        if not self.training:
            return torch.cat([self._score_pairs(start, last, part) for part in parts])
        scores = [
            checkpoint(self._score_pairs, start, last, part, use_reentrant=False, preserve_rng_state=False)
            for part in parts
        ]
        return torch.cat(scores)

    def _score_pairs(self, start: Tensor, last: Tensor, pairs: Pairs) -> Tensor:
        return self.score(*_of_pairs(start, last, pairs))

    def score(self, start: Tensor, last: Tensor) -> Tensor:
        """From the projections of first and last words. Shapes: (n_pairs, hidden_width) to (n_pairs, n_labels)."""
        # As the weights are: in half precision a processor adds up the gradients of a norm wrongly.
        logits: Tensor = self.output(nn.functional.gelu(self.norm((start + last).to(self.norm.weight.dtype))))
        return logits


# Prediction looks at this many pairs at a time, which bounds its memory whatever passes the boundary thresholds.
_PAIRS_AT_ONCE, _PAIRS_AT_ONCE_ON_CPU = 1 << 17, 1 << 12
# Training keeps what is between of as many pairs for the way back, some 1.5 GB with the default width. Beyond, as long
# sentences with many entities have it, they are taken in parts as well, each of which is computed a second time.
_PAIRS_KEPT = 1 << 19


def _of_pairs(start: Tensor, last: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """The start projection of each pair's first word and the last projection of its last one: no table is made."""
    n_words = start.shape[1]
    first = start.flatten(0, 1).index_select(0, pairs.row * n_words + pairs.start)
    second = last.flatten(0, 1).index_select(0, pairs.row * n_words + pairs.last)
    return first, second


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))
