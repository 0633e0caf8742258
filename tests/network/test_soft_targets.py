import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.network.targets import SoftTable


@given(st.lists(st.lists(st.integers(0, 50), max_size=4), min_size=1, max_size=6), st.data())
def test_rows_are_those_of_a_loop(rows, data):
    first = np.cumsum([0, *(len(row) for row in rows)])
    flat = np.array([value for row in rows for value in row], dtype=np.int32)
    table = SoftTable(flat, (flat / 64).astype(np.float16), first)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    found = table.rows(np.array(chosen, dtype=np.int64))
    assert found.position.tolist() == [value for row in chosen for value in rows[row]]
    assert found.counts.tolist() == [len(rows[row]) for row in chosen]
    assert found.probability.tolist() == pytest.approx([value / 64 for row in chosen for value in rows[row]], rel=1e-3)
