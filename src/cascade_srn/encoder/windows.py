"""Which windows go through the encoder together: those of similar length, where padding costs more than a pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def window_starts(n_pieces: int, room: int, overlap: int) -> list[int]:
    """Where the windows over a long row start; the last one ends with the row and is as full as the others."""
    starts = list(range(0, n_pieces - room, room - overlap))
    return [*starts, n_pieces - room]


def window_owners(n_pieces: int, starts: Sequence[int], room: int) -> Integers:
    """Which window each piece is read from: the one in which it stands farthest from an edge, of two the first.

    The first and the last window have no edge where the sentence itself begins or ends.
    """
    begins = np.asarray(starts, dtype=np.int64)
    # A window's last piece is the one as far from its end as from the beginning of the next window, or just before.
    lasts = (begins[:-1] + begins[1:] + room - 1) // 2
    owners: Integers = np.searchsorted(lasts, np.arange(n_pieces), side="left")
    return owners


# Windows of a batch, and what they are padded to.
Pass = tuple[int, int]


class Division(Protocol):
    """How windows, sorted from the longest to the shortest, are divided into passes.

    A division may ask for more windows than there are: the batch gets empty ones at its end.
    """

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """The passes for windows of these sizes, none of which may be wider than ``limit``.

        Shapes:
            sizes: (n_windows,), falling
        """


@dataclass(frozen=True)
class LeastWork:
    """So that the least is computed. A pass costs its windows times the longest of them, and the ``overhead``."""

    overhead: int

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """See :class:`Division`."""
        n = len(sizes)
        # The least that the first i windows cost, and where their last pass begins.
        least = np.zeros(n + 1, dtype=np.int64)
        begins = np.zeros(n + 1, dtype=np.int64)
        for end in range(1, n + 1):
            costs = least[:end] + (end - np.arange(end)) * sizes[:end] + self.overhead
            begins[end] = int(np.argmin(costs))
            least[end] = costs[begins[end]]
        passes: list[Pass] = []
        end = n
        while end:
            begin = int(begins[end])
            passes.append((end - begin, int(sizes[begin])))
            end = begin
        return passes[::-1]


@dataclass(frozen=True)
class FewShapes:
    """``n_windows`` at a time, as wide as a ``multiple``: few different shapes, which can be recorded."""

    n_windows: int
    multiple: int = 16

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """See :class:`Division`."""
        widest = sizes[:: self.n_windows]
        return [(self.n_windows, min(limit, -(-int(size) // self.multiple) * self.multiple)) for size in widest]


def equal_passes(n_windows: int, width: int, max_pieces: int | None) -> list[Pass]:
    """Divide windows of one width into passes of at most ``max_pieces`` pieces, but at least one window each.

    Long texts become hundreds of windows. Reading them all at once would take memory by the gigabyte.
    """
    at_once = n_windows if max_pieces is None else max(1, max_pieces // max(width, 1))
    firsts = range(0, n_windows, max(at_once, 1))
    return [(min(at_once, n_windows - first), width) for first in firsts] or [(0, width)]


def window_begins(passes: Sequence[Pass]) -> Integers:
    """Where each window begins among the pieces of all passes, one after the other. Shape: (n_windows,)."""
    widths = np.repeat([width for _, width in passes], [n for n, _ in passes]).astype(np.int64)
    return np.cumsum(widths) - widths
