from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.network.kernels.reference import Packing


@given(st.lists(st.integers(0, 6), max_size=5), st.integers(0, 2))
def test_real_positions_step_by_step_and_back(lengths: list[int], padding: int) -> None:
    length = max(lengths, default=0) + padding
    packing = Packing(torch.tensor(lengths, dtype=torch.long), length)
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    expected = [(row, step) for step in range(length) for row in order if lengths[row] > step]
    assert [(int(p) // length, int(p) % length) for p in packing.positions] == expected
    assert packing.counts == [n for n in (sum(k > step for k in lengths) for step in range(length)) if n]
    values = torch.randn(len(lengths), length, 3)
    found = packing.unpack(packing.pack(values))
    assert found.shape == values.shape
    for row, n in enumerate(lengths):
        assert torch.equal(found[row, :n], values[row, :n])
        assert not found[row, n:].any()
