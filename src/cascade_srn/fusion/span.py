"""The subject as a span representation: what `swift` and `hybrid` tell the object turn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cascade_srn.fusion.tags import Queries


class SubjectSpan(nn.Module):
    """Brings each word together with the subject: sum, product and distance, through one non-linear layer.

    The subject is the mean of the object representation over its words. Words and subjects are projected
    before they meet, so what is computed per (subject, word) is elementwise only.
    """

    # Deviation: not in the paper, whose late fusion leaves the object turn blind to the subject (docs/adr/0001).

    def __init__(self, input_width: int, width: int, *, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.output_width = width
        self.word = nn.Linear(input_width, 2 * width)
        self.subject = nn.Linear(input_width, 2 * width)
        # One row for each signed distance in words up to the limit on either side; 0 is inside the subject.
        self.distance = nn.Parameter(torch.randn(2 * max_distance + 1, width) * 0.1)
        self.norm = nn.LayerNorm(width)

    def forward(self, words: Tensor, queries: Queries) -> Tensor:
        """Shapes: words (n_sentences, n_words, input_width); returns (n_queries, n_words, width)."""
        query, word = queries.with_words(words.shape[1])
        return self.at(words, queries, query, word).view(len(queries), words.shape[1], self.output_width)

    def at(self, words: Tensor, queries: Queries, query: Tensor, word: Tensor) -> Tensor:
        """The same for chosen words of chosen queries. Shapes: query, word (n_pairs,); returns (n_pairs, width)."""
        n_words = words.shape[1]
        own = self.word(words).flatten(0, 1).index_select(0, queries.sentence[query] * n_words + word)
        subject = self.subject(self._subjects(words, queries)).index_select(0, query)
        word_sum, word_product = own.chunk(2, dim=-1)
        subject_sum, subject_product = subject.chunk(2, dim=-1)
        near = self.distance.index_select(0, self._distances(queries, query, word))
        joined = word_sum + subject_sum + word_product * subject_product + near
        return nn.functional.gelu(self.norm(joined))

    def _subjects(self, words: Tensor, queries: Queries) -> Tensor:
        """The mean of each subject's words. Shape: (n_queries, input_width)."""
        query, word = queries.with_subjects()
        inside = words[queries.sentence[query], word]
        total = words.new_zeros(len(queries), words.shape[2]).index_add(0, query, inside)
        return total / (queries.last - queries.start + 1)[:, None]

    def _distances(self, queries: Queries, query: Tensor, word: Tensor) -> Tensor:
        """Rows of the distance table. Shape: (n_pairs,)."""
        before = (word - queries.start[query]).clamp(max=0)
        after = (word - queries.last[query]).clamp(min=0)
        return (before + after).clamp(-self.max_distance, self.max_distance) + self.max_distance
