import ctypes

import pytest
import torch

from cascade_srn import memory
from cascade_srn.memory import give_back_freed, is_out_of_memory


def resident():
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim")
def test_holes_are_given_back():
    give_back_freed()
    # Blocks too small to be mapped one by one; the last one is kept, so that the heap does not shrink by itself.
    blocks = [torch.zeros(8192) for _ in range(4000)]
    kept = blocks[-1]
    del blocks
    before = resident()
    assert give_back_freed()
    assert resident() <= before
    assert kept.sum() == 0


def test_where_there_is_no_way_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    assert not give_back_freed()


def test_memory_that_runs_out():
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(1 << 60)
    assert is_out_of_memory(of_torch.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())


def test_other_errors():
    with pytest.raises(RuntimeError) as of_torch:
        torch.ones(2) @ torch.ones(3)
    assert not is_out_of_memory(of_torch.value)
    assert not is_out_of_memory(ValueError("DefaultCPUAllocator"))
