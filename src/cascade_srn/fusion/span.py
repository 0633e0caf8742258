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
        own = self.words(words).index_select(0, queries.sentence)
        subjects = self.subjects(subject_means(words, queries))
        return self.join(own, subjects[:, None], *queries.distances(words.shape[1]))

    def words(self, words: Tensor) -> Tensor:
        """What a word brings along. Shapes: (…, input_width) to (…, 2 × width)."""
        brought: Tensor = self.word(words)
        return brought

    def subjects(self, means: Tensor) -> Tensor:
        """What each subject brings along. Shapes: (n_queries, input_width) to (n_queries, 2 × width)."""
        brought: Tensor = self.subject(means)
        return brought

    def join(self, own: Tensor, subject: Tensor, from_start: Tensor, from_last: Tensor) -> Tensor:
        """A word and a subject, with the word's signed distances to the subject's first and last words.

        Shapes: own, subject (…, 2 × width); from_start, from_last (…); returns (…, width)
        """
        word_sum, word_product = own.chunk(2, dim=-1)
        subject_sum, subject_product = subject.chunk(2, dim=-1)
        joined = word_sum + subject_sum + word_product * subject_product + self._near(from_start, from_last)
        return nn.functional.gelu(self.norm(joined))

    def _near(self, from_start: Tensor, from_last: Tensor) -> Tensor:
        """Rows of the distance table; a distance is counted from the subject's nearer edge, and 0 inside."""
        distance = from_start.clamp(-self.max_distance, 0) + from_last.clamp(0, self.max_distance)
        rows = self.distance.index_select(0, (distance + self.max_distance).flatten())
        near: Tensor = rows.unflatten(0, distance.shape)
        return near


def subject_means(words: Tensor, queries: Queries) -> Tensor:
    """The mean of each subject's words, from running sums: a GPU need not wait for the number of them.

    Shapes:
        words: (n_sentences, n_words, width)
        returns: (n_queries, width)
    """
    n_words = words.shape[1]
    sums = nn.functional.pad(words.cumsum(1), (0, 0, 1, 0)).flatten(0, 1)
    first = queries.sentence * (n_words + 1) + queries.start
    size = queries.last - queries.start + 1
    return (sums.index_select(0, first + size) - sums.index_select(0, first)) / size[:, None]
