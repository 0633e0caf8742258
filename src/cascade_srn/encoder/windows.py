"""Windows over rows that are longer than the encoder takes at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def window_starts(n_pieces: int, room: int, overlap: int) -> list[int]:
    """Where the windows over a long row start; the last one ends with the row and is as full as the others."""
    starts = list(range(0, n_pieces - room, room - overlap))
    return [*starts, n_pieces - room]


def window_owners(n_pieces: int, starts: Sequence[int], room: int) -> Integers:
    """Which window each piece is read from: the one in which it stands farthest from an edge."""
    positions = np.arange(n_pieces)
    edges = []
    for start in starts:
        before = np.where(positions >= start, positions - start, -1)
        after = np.where(positions < start + room, start + room - 1 - positions, -1)
        # The first and the last window have no edge where the sentence itself begins or ends.
        before = before + n_pieces * ((start == 0) & (before >= 0))
        after = after + n_pieces * ((start + room == n_pieces) & (after >= 0))
        edges.append(np.minimum(before, after))
    owners: Integers = np.argmax(np.stack(edges), axis=0)
    return owners
