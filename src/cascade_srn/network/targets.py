"""Targets of the loss: gold spans, and sparse tables of probabilities from teachers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cascade_srn.network.loss import SpanLabels, SpanTargets, TargetWeights, pair_positions, span_targets
from cascade_srn.network.span_extraction import Pairs

TURNS, KINDS = ("entity", "subject", "object"), ("start", "end", "match")

Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class SoftRows:
    """Concatenated rows of a table. Shapes: counts (n_rows,); position and probability (sum of counts,)."""

    position: Integers
    probability: Floats
    counts: Integers


@dataclass(frozen=True)
class SoftTable:
    """Sparse table of probabilities. Missing positions have a probability of zero.

    A position is word × n_labels + label for starts and ends, and pair × n_labels + label for matches, with the pairs
    of a row in the order of ``pairs_within``.

    Attributes:
        position: Flat position within its row. Shape: (n_positions,).
        probability: Probability of each position. Shape: (n_positions,).
        first: Offset of the first position of each row, and the total. Shape: (n_rows + 1,).
    """

    position: Integers
    probability: Floats
    first: Integers

    def rows(self, rows: Integers) -> SoftRows:
        """Return some rows in the given order, without a loop. Shape: rows (n,)."""
        begin = self.first[rows]
        counts = self.first[rows + 1] - begin
        at = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        return SoftRows(self.position[at], self.probability[at], counts)


SoftTables = Mapping[str, SoftTable]
"""Tables by ``"turn.kind"``, such as ``"entity.start"``."""


@dataclass(frozen=True, slots=True)
class SoftLabels:
    """Rows of tables with the probabilities of one sentence, given its entities.

    Turns 1 and 2 have the row ``number``. Turn 3 has ``n_queries`` rows from ``first_query`` on, one for each distinct
    span of the entities, in sorted order.
    """

    tables: SoftTables
    number: int
    first_query: int
    n_queries: int


@dataclass(frozen=True)
class SoftSource:
    """Rows of a batch that have probabilities, and their rows in the tables of a turn."""

    tables: SoftTables
    turn: str
    rows: Sequence[int]
    table_rows: Sequence[int]

    def get_rows(self, kind: str) -> tuple[SoftRows, Integers]:
        """Return the rows of a table, and the row in the batch of each of their positions."""
        found = self.tables[f"{self.turn}.{kind}"].rows(np.asarray(self.table_rows, dtype=np.int64))
        return found, np.repeat(np.asarray(self.rows, dtype=np.int64), found.counts)


@dataclass(frozen=True)
class TargetTable:
    """Targets of one turn: gold spans, and rows that have probabilities instead.

    Shapes: lengths (n_rows,), number of words
    """

    labels: SpanLabels
    lengths: Tensor
    n_labels: int
    soft: SoftSource | None = None

    def pairs(self) -> Tensor:
        """Return the pairs that are a span or have a probability, as indices of ``pairs_within``. Shape: (n,)."""
        gold = pair_positions(self.labels, self.lengths)
        if self.soft is None:
            return gold
        return torch.cat((gold, torch.from_numpy(self._get_soft_pairs(*self.soft.get_rows("match")))))

    def to_targets(self, n_words: int, pairs: Pairs, place: Tensor | None, weight: Tensor | None) -> SpanTargets:
        """Return the targets as positions in a batch whose longest row has ``n_words`` words.

        Args:
            place: Index in ``pairs`` of each pair of ``pairs_within``; None if all pairs are used.
            weight: Weight of each row; None if all are 1 and no row has probabilities. Shape: (n_rows,).
        """
        gold = span_targets(self.labels, self.lengths, n_words, self.n_labels, place)
        if weight is None:
            return gold
        size = max(n_words * self.n_labels, 1)
        own = TargetWeights(
            weight[gold.start // size], weight[gold.end // size], weight[pairs.row[gold.match // max(self.n_labels, 1)]]
        )
        if self.soft is None:
            return SpanTargets(gold.start, gold.end, gold.match, own)
        start, end = (self._get_words(self.soft, kind, size, weight) for kind in ("start", "end"))
        match = self._get_matches(self.soft, place, weight)
        return SpanTargets(
            torch.cat((gold.start, start[0])),
            torch.cat((gold.end, end[0])),
            torch.cat((gold.match, match[0])),
            TargetWeights(
                torch.cat((own.start, start[1])), torch.cat((own.end, end[1])), torch.cat((own.match, match[1]))
            ),
        )

    def _get_words(self, soft: SoftSource, kind: str, size: int, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions and weights of starts or ends with probabilities."""
        table, row = soft.get_rows(kind)
        return torch.from_numpy(row * size + table.position), _probabilities(table) * weight[row]

    def _get_matches(self, soft: SoftSource, place: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions and weights of matches with probabilities."""
        table, row = soft.get_rows("match")
        pair = self._get_soft_pairs(table, row)
        if place is not None:
            pair = place.numpy()[pair]
        position = pair * self.n_labels + table.position % max(self.n_labels, 1)
        return torch.from_numpy(position), _probabilities(table) * weight[row]

    def _get_soft_pairs(self, table: SoftRows, row: Integers) -> Integers:
        """Return the pairs of a match table as indices of ``pairs_within``."""
        lengths = self.lengths.numpy()
        n_pairs = lengths * (lengths + 1) // 2
        before = np.cumsum(n_pairs) - n_pairs
        return np.asarray(before[row] + table.position // max(self.n_labels, 1))


def _probabilities(table: SoftRows) -> Tensor:
    return torch.from_numpy(table.probability.astype(np.float32))
