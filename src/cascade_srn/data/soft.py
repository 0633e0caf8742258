"""Probabilities to learn from instead of gold spans, kept where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
