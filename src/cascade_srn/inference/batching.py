"""Which sentences go through the model together."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch

# A parameter of glibc's mallopt, and the block size from which memory is mapped alone and unmapped when it is freed.
_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 4 << 20


def give_back_freed() -> bool:
    """Return freed memory to the system; return whether the C library can do that.

    Batches of many shapes leave gaps between blocks that live longer. glibc keeps the gaps, and a process that
    streams for hours grows although it uses no more memory than at first.
    """
    trim = _c_function("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


def map_large_blocks() -> bool:
    """Have the C library map large blocks one by one; return whether it can do that.

    By default glibc raises its limit for this up to 32 MiB, and large tensors of many sizes then fragment the heap.
    """
    mallopt = _c_function("mallopt")
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES))


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # not glibc; on Windows there is no library without a name
        return None
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: that of a GPU, or a processor's, whose allocator raises a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def by_word_budget(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Groups of positions of similar length, each of at most ``budget`` words with its padding.

    Longest first, so that a batch that does not fit into memory shows at once; one sentence longer than the
    budget is a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    group: list[int] = []
    for position in order:
        # The group's first member is its longest, and what all others are padded to.
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(position)
    if group:
        yield group
