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
        inside = queries.inside(words.shape[1]).to(words.dtype)
        size = (queries.last - queries.start + 1).to(words.dtype)
        mean = torch.einsum("qw,qwd->qd", inside, words[queries.sentence]) / size[:, None]
        word_sum, word_product = self.word(words)[queries.sentence].chunk(2, dim=-1)
        subject_sum, subject_product = self.subject(mean)[:, None].chunk(2, dim=-1)
        near = self.distance[self._distances(queries, words.shape[1])]
        joined = word_sum + subject_sum + word_product * subject_product + near
        return nn.functional.gelu(self.norm(joined))

    def _distances(self, queries: Queries, n_words: int) -> Tensor:
        """Rows of the distance table. Shape: (n_queries, n_words)."""
        word = torch.arange(n_words, device=queries.start.device)
        before = (word - queries.start[:, None]).clamp(max=0)
        after = (word - queries.last[:, None]).clamp(min=0)
        return (before + after).clamp(-self.max_distance, self.max_distance) + self.max_distance
