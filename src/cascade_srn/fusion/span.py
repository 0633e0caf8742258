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
        own = self.word(words).index_select(0, queries.sentence)
        word = torch.arange(words.shape[1], device=words.device)
        near = self._near(word - queries.start[:, None], word - queries.last[:, None])
        return self._join(own, self.subject(subject_means(words, queries))[:, None], near)

    def at(self, words: Tensor, queries: Queries, query: Tensor, word: Tensor) -> Tensor:
        """The same for chosen words of chosen queries. Shapes: query, word (n_pairs,); returns (n_pairs, width)."""
        n_words = words.shape[1]
        own = self.word(words).flatten(0, 1).index_select(0, queries.sentence[query] * n_words + word)
        subject = self.subject(subject_means(words, queries)).index_select(0, query)
        return self._join(own, subject, self._near(word - queries.start[query], word - queries.last[query]))

    def _join(self, own: Tensor, subject: Tensor, near: Tensor) -> Tensor:
        word_sum, word_product = own.chunk(2, dim=-1)
        subject_sum, subject_product = subject.chunk(2, dim=-1)
        joined = word_sum + subject_sum + word_product * subject_product + near
        return nn.functional.gelu(self.norm(joined))

    def _near(self, from_start: Tensor, from_last: Tensor) -> Tensor:
        """Rows of the distance table, for a word's signed distances to the subject's first and last words."""
        distance = from_start.clamp(-self.max_distance, 0) + from_last.clamp(0, self.max_distance)
        rows = self.distance.index_select(0, (distance + self.max_distance).flatten())
        near: Tensor = rows.unflatten(0, distance.shape)
        return near


def subject_means(words: Tensor, queries: Queries) -> Tensor:
    """The mean of each subject's words, from running sums, so that no number of words has to be known.

    Shapes:
        words: (n_sentences, n_words, width)
        returns: (n_queries, width)
    """
    n_words = words.shape[1]
    sums = nn.functional.pad(words.cumsum(1), (0, 0, 1, 0)).flatten(0, 1)
    first = queries.sentence * (n_words + 1) + queries.start
    size = queries.last - queries.start + 1
    return (sums.index_select(0, first + size) - sums.index_select(0, first)) / size[:, None]
