"""Which windows go through the encoder together: those of similar length, where padding costs more than a pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cascade_srn.encoder.windows import Integers

# Windows of a batch, and what they are padded to.
Pass = tuple[int, int]


def divided(sizes: Integers, overhead: int) -> list[Pass]:
    """How to divide windows that are sorted from the longest to the shortest, so that the least is computed.

    A pass costs its windows times the longest of them, and the ``overhead``.

    Shapes:
        sizes: (n_windows,), falling
    """
    n = len(sizes)
    # The least that the first i windows cost, and where their last pass begins.
    least = np.zeros(n + 1, dtype=np.int64)
    begins = np.zeros(n + 1, dtype=np.int64)
    for end in range(1, n + 1):
        costs = least[:end] + (end - np.arange(end)) * sizes[:end] + overhead
        begins[end] = int(np.argmin(costs))
        least[end] = costs[begins[end]]
    passes: list[Pass] = []
    end = n
    while end:
        begin = int(begins[end])
        passes.append((end - begin, int(sizes[begin])))
        end = begin
    return passes[::-1]


def window_begins(passes: Sequence[Pass]) -> Integers:
    """Where each window begins among the pieces of all passes, one after the other. Shape: (n_windows,)."""
    widths = np.repeat([width for _, width in passes], [n for n, _ in passes]).astype(np.int64)
    return np.cumsum(widths) - widths
