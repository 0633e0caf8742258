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
    """Which window each piece is read from: the one in which it stands farthest from an edge, of two the first.

    The first and the last window have no edge where the sentence itself begins or ends.
    """
    begins = np.asarray(starts, dtype=np.int64)
    # A window's last piece is the one as far from its end as from the beginning of the next window, or just before.
    lasts = (begins[:-1] + begins[1:] + room - 1) // 2
    owners: Integers = np.searchsorted(lasts, np.arange(n_pieces), side="left")
    return owners
