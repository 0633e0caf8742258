import ctypes

import pytest
import torch

from cascade_srn.inference import batching as memory
from cascade_srn.inference.batching import give_back_freed, is_out_of_memory


def resident():
    """Return the resident memory of this process in KiB."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim")
def test_holes_are_given_back():
    give_back_freed()
    # The blocks are too small for glibc to map one by one. Every 16th stays allocated, so that the heap cannot shrink
    # at its top and the freed memory remains resident until it is trimmed.
    n_blocks, words = 4096, 8192
    blocks = [torch.ones(words) for _ in range(n_blocks)]
    kept = blocks[::16]
    del blocks
    before = resident()
    assert give_back_freed()
    freed_kib = (n_blocks - len(kept)) * words * 4 // 1024
    assert before - resident() > freed_kib / 2
    assert all(block.sum() == words for block in kept)


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
