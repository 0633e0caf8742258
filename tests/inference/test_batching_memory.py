import ctypes

import numpy as np
import pytest
import torch

from cascade_srn.errors import CascadeError
from cascade_srn.inference.batching import (
    explain_out_of_memory,
    is_out_of_memory,
    release_freed_memory,
)
from cascade_srn.inference.predictor import halve_on_out_of_memory


def resident():
    """Return the resident memory of this process in KiB."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim")
def test_freed_memory_is_released():
    release_freed_memory()
    # Arrays of NumPy, since torch has an allocator of its own on some processors. They are too small for glibc to map
    # one by one. Every 16th stays allocated, so that the heap cannot shrink at its top and the freed memory remains
    # resident until it is trimmed.
    n_blocks, words = 4096, 8192
    blocks = [np.ones(words, dtype=np.float32) for _ in range(n_blocks)]
    kept = blocks[::16]
    del blocks
    before = resident()
    assert release_freed_memory()
    freed_kib = (n_blocks - len(kept)) * words * 4 // 1024
    assert before - resident() > freed_kib / 2
    assert all(block.sum() == words for block in kept)


def test_out_of_memory_errors():
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


def _limited(limit, sizes):
    def run(batch):
        sizes.append(len(batch))
        if len(batch) > limit:
            raise torch.OutOfMemoryError("no room")
        return [10 * item for item in batch]

    return run


def test_batches_are_halved_until_they_fit():
    sizes, refused = [], []

    def shrink(batch):
        refused.append(list(batch))
        return True

    assert halve_on_out_of_memory(_limited(2, sizes), [1, 2, 3, 4, 5], shrink) == [10, 20, 30, 40, 50]
    assert sizes == [5, 3, 2, 1, 2]
    assert refused == [[1, 2, 3, 4, 5], [1, 2, 3]]


def test_a_batch_that_cannot_shrink_is_an_error():
    with pytest.raises(torch.OutOfMemoryError):
        halve_on_out_of_memory(_limited(0, []), [1, 2], lambda batch: len(batch) > 1)
    with pytest.raises(ZeroDivisionError):
        halve_on_out_of_memory(lambda batch: [1 // 0], [1, 2], lambda batch: True)


def test_out_of_memory_is_explained():
    with pytest.raises(CascadeError, match="too large"), explain_out_of_memory(lambda: CascadeError("too large")):
        raise MemoryError
    with pytest.raises(RuntimeError, match="shapes"), explain_out_of_memory(lambda: CascadeError("too large")):
        raise RuntimeError("shapes")
