"""Entity tags and subject tags: the paper's late fusion, as its equations stand (eq. 11)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Queries:
    """The subjects whose objects are asked for: each is a span of one of the batch's sentences.

    Shapes:
        sentence, start, last: (n_queries,); ``last`` is the index of the subject's last word
    """

    sentence: Tensor
    start: Tensor
    last: Tensor

    def __len__(self) -> int:
        return self.sentence.shape[0]

    def to(self, device: torch.device | str) -> Queries:
        """The same queries on a device."""
        return Queries(self.sentence.to(device), self.start.to(device), self.last.to(device))


class EntityTags(nn.Module):
    """An entity-type embedding per word: the table T^e, whose last row stands for "no entity".

    A word inside several entities (nested ones, or two types on one span) gets the sum of their types' rows;
    for a word in one entity or none that is the paper's look-up.
    """

    def __init__(self, n_types: int, width: int) -> None:
        super().__init__()
        self.n_types = n_types
        self.width = width
        self.table = nn.Parameter(torch.randn(n_types + 1, width) * 0.1)

    def forward(self, sentence: Tensor, start: Tensor, last: Tensor, label: Tensor, shape: tuple[int, int]) -> Tensor:
        """Tags of all words of a batch, from its entities.

        Shapes:
            sentence, start, last, label: (n_entities,)
            shape: (n_sentences, n_words)
            returns: (n_sentences, n_words, width)
        """
        # +1 where an entity starts and −1 past its end: the running sum counts the entities over each word.
        n_sentences, n_words = shape
        steps = self.table.new_zeros(n_sentences, n_words + 1, self.n_types)
        first = (sentence * (n_words + 1) + start) * self.n_types + label
        past = first + (last + 1 - start) * self.n_types
        ones = torch.ones_like(start, dtype=steps.dtype)
        steps.view(-1).index_add_(0, first, ones).index_add_(0, past, ones, alpha=-1)
        covered = steps.cumsum(1)[:, :n_words]
        # Two entities of one type over the same word still make one tag of that type.
        types = (covered > 0.5).to(self.table.dtype)
        none = (types.sum(-1, keepdim=True) < 0.5).to(self.table.dtype)
        return torch.cat((types, none), dim=-1) @ self.table


class SubjectTag(nn.Module):
    """A 0/1 subject embedding per word: the table T^s, joined to the object representation (eq. 11).

    Every word outside the subject gets the same vector whoever the subject is, and the span heads look at one
    word at a time: so outside the subject the object scores do not depend on it. That is the paper's late
    fusion as its equations stand; :class:`~cascade_srn.fusion.span.SubjectSpan` is the repair.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(2, width) * 0.1)
        self.output_width = input_width + width

    def forward(self, words: Tensor, queries: Queries) -> Tensor:
        """Shapes: words (n_sentences, n_words, input_width); returns (n_queries, n_words, output_width)."""
        word = torch.arange(words.shape[1], device=words.device)
        inside = (word >= queries.start[:, None]) & (word <= queries.last[:, None])
        return torch.cat((words.index_select(0, queries.sentence), self._tags(inside)), dim=-1)

    def at(self, words: Tensor, queries: Queries, query: Tensor, word: Tensor) -> Tensor:
        """The same for chosen words of chosen queries. Shapes: query, word (n_pairs,); returns (n_pairs, width)."""
        inside = (word >= queries.start[query]) & (word <= queries.last[query])
        return torch.cat((words[queries.sentence[query], word], self._tags(inside)), dim=-1)

    def _tags(self, inside: Tensor) -> Tensor:
        tags: Tensor = self.table.index_select(0, inside.flatten().long()).unflatten(0, inside.shape)
        return tags
