"""Fusion: how turns 2 and 3 receive the entities and the subject as vectors (docs/adr/0001).

Entity tags and subject tags are the late fusion of the paper (eq. 11); the subject as a span is in the presets `swift`
and `hybrid`. Markers in the text are in :mod:`cascade_srn.network.markers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Queries:
    """The subjects whose objects turn 3 extracts, each a span of a sentence of the batch.

    Shapes:
        sentence, start, last: (n_queries,); ``last`` is the index of the subject's last word
    """

    sentence: Tensor
    start: Tensor
    last: Tensor

    def __len__(self) -> int:
        return self.sentence.shape[0]

    def words_inside(self) -> tuple[Tensor, Tensor]:
        """Return query index and word index of each word of each subject. Shapes: (n_subject_words,) each."""
        size = self.last - self.start + 1
        query = torch.arange(len(self), device=self.start.device).repeat_interleave(size)
        within = torch.arange(query.shape[0], device=query.device) - (size.cumsum(0) - size)[query]
        return query, self.start[query] + within

    def distances(self, n_words: int) -> tuple[Tensor, Tensor]:
        """Return the signed distances of all words to each subject's first and last words.

        Shapes: (n_queries, n_words) each
        """
        word = torch.arange(n_words, device=self.start.device)
        return word - self.start[:, None], word - self.last[:, None]


class EntityTags(nn.Module):
    """An entity-type embedding per word: the table T^e. Its last row is for words outside all entities.

    A word inside several entities (nested, or two types on one span) gets the sum of the rows of their types. For other
    words this is the look-up of the paper.
    """

    def __init__(self, n_types: int, width: int) -> None:
        super().__init__()
        self.n_types = n_types
        self.width = width
        self.table = nn.Parameter(torch.randn(n_types + 1, width) * 0.1)

    def forward(self, sentence: Tensor, start: Tensor, last: Tensor, label: Tensor, shape: tuple[int, int]) -> Tensor:
        """Compute the tags of all words of a batch from its entities.

        Shapes:
            sentence, start, last, label: (n_entities,)
            shape: (n_sentences, n_words)
            returns: (n_sentences, n_words, width)
        """
        # +1 at the start of an entity and −1 after its end: the cumulative sum counts the entities over each word.
        n_sentences, n_words = shape
        steps = self.table.new_zeros(n_sentences, n_words + 1, self.n_types)
        first = (sentence * (n_words + 1) + start) * self.n_types + label
        past = first + (last + 1 - start) * self.n_types
        ones = torch.ones_like(start, dtype=steps.dtype)
        steps.view(-1).index_add_(0, first, ones).index_add_(0, past, ones, alpha=-1)
        covered = steps.cumsum(1)[:, :n_words]
        # Two entities of the same type over a word count once.
        types = (covered > 0.5).to(self.table.dtype)
        none = (types.sum(-1, keepdim=True) < 0.5).to(self.table.dtype)
        return torch.cat((types, none), dim=-1) @ self.table


class SubjectTag(nn.Module):
    """A 0/1 subject embedding per word: the table T^s, concatenated with the object representation (eq. 11).

    The tag of a word outside the subject is the same for every subject. The scores of such words therefore do not
    depend on the subject. :class:`SubjectSpan` fixes this.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(2, width) * 0.1)
        self.output_width = input_width + width

    def forward(self, words: Tensor, queries: Queries) -> Tensor:
        """Compute the inputs of the object turn.

        Shapes: words (n_sentences, n_words, input_width); returns (n_queries, n_words, output_width)
        """
        own = self.words(words).index_select(0, queries.sentence)
        return self.join(own, own, *queries.distances(words.shape[1]))

    def words(self, words: Tensor) -> Tensor:
        """Return the words unchanged, for the interface of :class:`SubjectSpan`."""
        return words

    def subjects(self, means: Tensor) -> Tensor:
        """Return the means unchanged. :meth:`join` does not use them."""
        return means

    def join(self, own: Tensor, subject: Tensor, from_start: Tensor, from_last: Tensor) -> Tensor:
        """Concatenate words with the tag for inside or outside the subject.

        Shapes: own (…, input_width); from_start, from_last (…); returns (…, output_width)
        """
        inside = (from_start >= 0) & (from_last <= 0)
        tags = self.table.index_select(0, inside.flatten().long()).unflatten(0, inside.shape)
        return torch.cat((own, tags), dim=-1)


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
