"""Padded sequences without their padding: step by step, and in each step the rows that are still going on."""

from __future__ import annotations

import torch
from torch import Tensor


class Packing:
    """The real positions of a padded batch, by step and then longest row first.

    Rows being in that order, those that go on from one step to the next are always the first ones of both.

    Attributes:
        counts: how many rows have a first item, a second one, and so on
        positions: (n_real,), flat positions in (batch × length)
    """

    def __init__(self, lengths: Tensor, length: int) -> None:
        order = lengths.argsort(descending=True, stable=True)
        step = torch.arange(length, device=lengths.device)[:, None]
        real = lengths[order] > step
        self.counts: list[int] = [n for n in real.sum(1).tolist() if n]
        self.positions = (order * length + step)[real]
        self.shape = (lengths.shape[0], length)

    def pack(self, values: Tensor) -> Tensor:
        """Shapes: (batch, length, …) to (n_real, …)."""
        return values.flatten(0, 1).index_select(0, self.positions)

    def unpack(self, packed: Tensor) -> Tensor:
        """Zero at padding. Shapes: (n_real, …) to (batch, length, …)."""
        batch, length = self.shape
        flat = packed.new_zeros(batch * length, *packed.shape[1:]).index_copy(0, self.positions, packed)
        padded: Tensor = flat.unflatten(0, self.shape)
        return padded
