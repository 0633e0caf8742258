"""Whole-word masking: which pieces are hidden, and what is shown in their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cascade_srn.adapt.packing import BEGINS, SPECIAL, Sequences

# Of the hidden pieces, these shares are replaced by the mask and by any other piece; the rest is shown as it is.
_BY_MASK, _BY_OTHER = 0.8, 0.1


@dataclass(frozen=True)
class MaskedBatch:
    """Sequences with hidden words. Shapes: ids (n_rows, n_pieces); hidden, targets (n_hidden,): the flat positions
    of the hidden pieces in ``ids``, rising, and the pieces that stood there."""

    ids: Tensor
    hidden: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> MaskedBatch:
        """The same on a device."""
        return MaskedBatch(*(each.to(device, non_blocking=True) for each in (self.ids, self.hidden, self.targets)))

    def rows(self, start: int, stop: int, step: int = 1) -> MaskedBatch:
        """Some of its sequences, with the pieces that are hidden in them."""
        n_pieces = self.ids.shape[1]
        row = self.hidden // n_pieces
        own = (row >= start) & (row < stop) & ((row - start) % step == 0)
        place = (row[own] - start) // step * n_pieces + self.hidden[own] % n_pieces
        return MaskedBatch(self.ids[start:stop:step], place, self.targets[own])


class Masking:
    """Hides words of sequences, by the pieces of a tokenizer."""

    def __init__(self, tokenizer: Any, *, share: float) -> None:
        self.share = share
        self._mask = int(tokenizer.mask_token_id)
        special = set(tokenizer.all_special_ids)
        plain = sorted(i for i in tokenizer.get_vocab().values() if i not in special)
        self._plain = np.array(plain, dtype=np.int64)

    def __call__(self, sequences: Sequences, chosen: NDArray[np.int64], *, seed: list[int]) -> MaskedBatch:
        """The chosen sequences with words hidden, always the same ones for a seed."""
        random = np.random.default_rng(seed)
        ids, kinds = sequences.ids[chosen].astype(np.int64), sequences.kinds[chosen]
        # Rows begin with a special piece or with a word, so that words can be numbered through.
        words = np.cumsum(kinds == BEGINS)
        hidden_words = random.random(int(words[-1]) + 1 if words.size else 1) < self.share
        hidden = np.flatnonzero(hidden_words[words] & (kinds.ravel() != SPECIAL))
        flat = ids.ravel()
        targets = flat[hidden]
        draw = random.random(len(hidden))
        others = self._plain[random.integers(len(self._plain), size=len(hidden))]
        shown = np.where(draw < _BY_MASK, self._mask, np.where(draw < _BY_MASK + _BY_OTHER, others, targets))
        flat[hidden] = shown
        return MaskedBatch(torch.from_numpy(ids), torch.from_numpy(hidden), torch.from_numpy(targets))
