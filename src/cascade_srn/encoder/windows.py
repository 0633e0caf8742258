"""Windows over long rows, and the encoder passes that read them.

An encoder pass reads several windows, padded to the longest. Passes of windows of similar length need less padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# Number of windows of a pass, and the number of pieces that they are padded to.
Pass = tuple[int, int]


def window_starts(n_pieces: int, room: int, overlap: int) -> list[int]:
    """Return the first piece of each window over a long row. The last window is full and ends with the row."""
    starts = list(range(0, n_pieces - room, room - overlap))
    return [*starts, n_pieces - room]


def window_owners(n_pieces: int, starts: Sequence[int], room: int) -> Integers:
    """Return the window that each piece is read from: the one with the most context on both sides, the first of equals.

    The beginning and the end of the row do not count as window edges.
    """
    begins = np.asarray(starts, dtype=np.int64)
    # The last piece of a window is halfway between the start of the next window and its own end.
    lasts = (begins[:-1] + begins[1:] + room - 1) // 2
    owners: Integers = np.searchsorted(lasts, np.arange(n_pieces), side="left")
    return owners


class Division(Protocol):
    """Divides windows, sorted from the longest to the shortest, into passes.

    A division may return more windows than it received: the batch then ends with empty windows.
    """

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """Return the passes, none of them wider than ``limit``.

        Shapes: sizes (n_windows,), descending
        """


@dataclass(frozen=True)
class LeastWork:
    """Divides windows so that the total cost is minimal.

    A pass costs its number of windows times the length of the longest, plus the constant ``overhead``.
    """

    overhead: int

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """See :class:`Division`."""
        n = len(sizes)
        # Dynamic programming: minimal cost of the first i windows, and where their last pass begins.
        costs = np.zeros(n + 1, dtype=np.int64)
        begins = np.zeros(n + 1, dtype=np.int64)
        for end in range(1, n + 1):
            options = costs[:end] + (end - np.arange(end)) * sizes[:end] + self.overhead
            begins[end] = int(np.argmin(options))
            costs[end] = options[begins[end]]
        passes: list[Pass] = []
        end = n
        while end:
            begin = int(begins[end])
            passes.append((end - begin, int(sizes[begin])))
            end = begin
        return passes[::-1]


@dataclass(frozen=True)
class FewShapes:
    """Divides windows into passes of ``n_windows``, padded to a multiple of ``multiple`` pieces.

    The passes have few distinct shapes, which can be captured as CUDA graphs.
    """

    n_windows: int
    multiple: int = 16

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """See :class:`Division`."""
        widest = sizes[:: self.n_windows]
        return [(self.n_windows, min(limit, -(-int(size) // self.multiple) * self.multiple)) for size in widest]


@dataclass(frozen=True)
class FullPasses:
    """Divides windows into passes of about ``max_pieces`` pieces, padded to a multiple of ``multiple`` pieces.

    The last pass is as large as needed, in eighths of a full pass. Large batches thus have few distinct shapes, which
    can be captured as CUDA graphs.
    """

    max_pieces: int
    multiple: int = 8

    def divide(self, sizes: Integers, limit: int) -> list[Pass]:
        """See :class:`Division`."""
        passes: list[Pass] = []
        begin = 0
        while begin < len(sizes):
            width = min(limit, -(-int(sizes[begin]) // self.multiple) * self.multiple)
            full = max(1, self.max_pieces // width)
            eighth = -(-full // 8)
            n_windows = min(full, -(-(len(sizes) - begin) // eighth) * eighth)
            passes.append((n_windows, width))
            begin += n_windows
        return passes
