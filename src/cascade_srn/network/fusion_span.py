"""The subject as a span representation, in the presets `swift` and `hybrid`."""

import torch
from torch import Tensor, nn

from cascade_srn.network.fusion_tags import Queries


class SubjectSpan(nn.Module):
    """Combines each word with the subject: sum, product and distance, followed by a norm and a GELU.

    A subject is represented by the mean of the object representation over its words. Words and subjects are projected
    separately, so that the work per (subject, word) pair is elementwise.

    Args:
        input_width: Width of the object representation.
        width: Width of the output.
        max_distance: Larger distances in words are clipped to this one.
    """

    # Deviation: not in the paper. In its late fusion, words outside the subject do not depend on it (docs/adr/0001).

    def __init__(self, input_width: int, width: int, *, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.output_width = width
        self.word = nn.Linear(input_width, 2 * width)
        self.subject = nn.Linear(input_width, 2 * width)
        # One row per signed distance in words. Words inside the subject have distance 0.
        self.distance = nn.Parameter(torch.randn(2 * max_distance + 1, width) * 0.1)
        self.norm = nn.LayerNorm(width)

    def forward(self, words: Tensor, queries: Queries) -> Tensor:
        """Compute the inputs of the object turn.

        Shapes: words (n_sentences, n_words, input_width); returns (n_queries, n_words, width)
        """
        own = self.words(words).index_select(0, queries.sentence)
        subjects = self.subjects(subject_means(words, queries))
        return self.join(own, subjects[:, None], *queries.distances(words.shape[1]))

    def words(self, words: Tensor) -> Tensor:
        """Project words. Shapes: (…, input_width) to (…, 2 × width)."""
        projected: Tensor = self.word(words)
        return projected

    def subjects(self, means: Tensor) -> Tensor:
        """Project the means of subjects. Shapes: (n_queries, input_width) to (n_queries, 2 × width)."""
        projected: Tensor = self.subject(means)
        return projected

    def join(self, own: Tensor, subject: Tensor, from_start: Tensor, from_last: Tensor) -> Tensor:
        """Combine projected words and subjects, given the signed distances to the subject's first and last words.

        Shapes: own, subject (…, 2 × width); from_start, from_last (…); returns (…, width)
        """
        word_sum, word_product = own.chunk(2, dim=-1)
        subject_sum, subject_product = subject.chunk(2, dim=-1)
        joined = word_sum + subject_sum + word_product * subject_product + self._embed_distance(from_start, from_last)
        return nn.functional.gelu(self.norm(joined))

    def _embed_distance(self, from_start: Tensor, from_last: Tensor) -> Tensor:
        """Look up the distance to the nearer edge of the subject, which is 0 inside it."""
        distance = from_start.clamp(-self.max_distance, 0) + from_last.clamp(0, self.max_distance)
        rows = self.distance.index_select(0, (distance + self.max_distance).flatten())
        embedded: Tensor = rows.unflatten(0, distance.shape)
        return embedded


def subject_means(words: Tensor, queries: Queries) -> Tensor:
    """Compute the mean over the words of each subject. Cumulative sums avoid a GPU synchronisation.

    Shapes: words (n_sentences, n_words, width); returns (n_queries, width)
    """
    n_words = words.shape[1]
    sums = nn.functional.pad(words.cumsum(1), (0, 0, 1, 0)).flatten(0, 1)
    first = queries.sentence * (n_words + 1) + queries.start
    size = queries.last - queries.start + 1
    return (sums.index_select(0, first + size) - sums.index_select(0, first)) / size[:, None]
