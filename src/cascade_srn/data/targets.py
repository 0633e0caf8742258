"""Probabilities to learn from instead of gold spans, kept where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cascade_srn.heads import Pairs, SpanLabels, SpanTargets, TargetWeights, pair_positions, span_targets

TURNS, KINDS = ("entity", "subject", "object"), ("start", "end", "match")

Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class SoftRows:
    """Rows of a table one after the other. Shapes: counts (n_rows,); the others (their sum,)."""

    position: Integers
    probability: Floats
    counts: Integers


@dataclass(frozen=True)
class SoftTable:
    """Where something is likely, in many rows: flat positions within each row, and their probabilities.

    A position is word × n_labels + label for starts and ends, and pair × n_labels + label for matches, the pairs of
    a row in the order of ``pairs_within``. What is at no position is taken to have a probability of zero.

    Shapes:
        first: (n_rows + 1,), where the positions of each row begin, and where those of the last one end
        position, probability: (n_positions,)
    """

    position: Integers
    probability: Floats
    first: Integers

    def rows(self, rows: Integers) -> SoftRows:
        """Some of the rows, in the order given: a few operations however many there are. Shape: rows (n,)."""
        begin = self.first[rows]
        counts = self.first[rows + 1] - begin
        at = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        return SoftRows(self.position[at], self.probability[at], counts)


# By "turn.kind": "entity.start", …
SoftTables = Mapping[str, SoftTable]


@dataclass(frozen=True, slots=True)
class SoftLabels:
    """What teachers say of one sentence, given the entities that the sentence holds: rows of tables.

    Turns 1 and 2 have the row ``number``. Turn 3 has ``n_queries`` rows from ``first_query`` on, one for each of the
    distinct spans of the entities, in their order.
    """

    tables: SoftTables
    number: int
    first_query: int
    n_queries: int


@dataclass(frozen=True)
class SoftSource:
    """Which rows of a batch have probabilities, and which rows of the tables of a turn those are."""

    tables: SoftTables
    turn: str
    rows: Sequence[int]
    table_rows: Sequence[int]

    def of(self, kind: str) -> tuple[SoftRows, Integers]:
        """The rows of a table, and the row of the batch that each of its positions is in."""
        found = self.tables[f"{self.turn}.{kind}"].rows(np.asarray(self.table_rows, dtype=np.int64))
        return found, np.repeat(np.asarray(self.rows, dtype=np.int64), found.counts)


@dataclass(frozen=True)
class Wanted:
    """Gold spans, and the rows that have probabilities instead.

    Shapes:
        lengths: (n_rows,), the words of each row
    """

    labels: SpanLabels
    lengths: Tensor
    n_labels: int
    soft: SoftSource | None = None

    def pairs(self) -> Tensor:
        """The pairs of words that are a span, or may be one, by their place in ``pairs_within``. Shape: (n,)."""
        gold = pair_positions(self.labels, self.lengths)
        if self.soft is None:
            return gold
        return torch.cat((gold, torch.from_numpy(self._soft_pairs(*self.soft.of("match")))))

    def targets(self, n_words: int, pairs: Pairs, place: Tensor | None, weight: Tensor | None) -> SpanTargets:
        """As positions in a batch, each counting as its row does.

        Shapes:
            pairs: those that are used; place: where each pair of ``pairs_within`` stands among them, None: all are
            weight: (n_rows,); None: all count 1, and there are no probabilities
        """
        gold = span_targets(self.labels, self.lengths, n_words, self.n_labels, place)
        if weight is None:
            return gold
        size = max(n_words * self.n_labels, 1)
        own = TargetWeights(
            weight[gold.start // size],
            weight[gold.end // size],
            weight[pairs.row[gold.match // max(self.n_labels, 1)]],
        )
        if self.soft is None:
            return SpanTargets(gold.start, gold.end, gold.match, own)
        start, end = (self._words(self.soft, kind, size, weight) for kind in ("start", "end"))
        match = self._matches(self.soft, place, weight)
        return SpanTargets(
            torch.cat((gold.start, start[0])),
            torch.cat((gold.end, end[0])),
            torch.cat((gold.match, match[0])),
            TargetWeights(
                torch.cat((own.start, start[1])), torch.cat((own.end, end[1])), torch.cat((own.match, match[1]))
            ),
        )

    def _words(self, soft: SoftSource, kind: str, size: int, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Likely starts or ends in a batch, and what they count."""
        table, row = soft.of(kind)
        return torch.from_numpy(row * size + table.position), _probabilities(table) * weight[row]

    def _matches(self, soft: SoftSource, place: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Likely matches in a batch, and what they count."""
        table, row = soft.of("match")
        pair = self._soft_pairs(table, row)
        if place is not None:
            pair = place.numpy()[pair]
        position = pair * self.n_labels + table.position % max(self.n_labels, 1)
        return torch.from_numpy(position), _probabilities(table) * weight[row]

    def _soft_pairs(self, table: SoftRows, row: Integers) -> Integers:
        """Where the pairs of a table of matches stand in ``pairs_within``."""
        lengths = self.lengths.numpy()
        n_pairs = lengths * (lengths + 1) // 2
        before = np.cumsum(n_pairs) - n_pairs
        return np.asarray(before[row] + table.position // max(self.n_labels, 1))


def _probabilities(table: SoftRows) -> Tensor:
    return torch.from_numpy(table.probability.astype(np.float32))
