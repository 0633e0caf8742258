"""Which sentences go through the model together."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch


def give_back_freed() -> bool:
    """Have the C library give freed memory back; False where it has no way to be told.

    Batches of many shapes leave holes between blocks that live longer. glibc keeps the holes, and a process that
    streams for hours grows although it holds no more than at first.
    """
    trim = _malloc_trim()
    if trim is None:
        return False
    trim(0)
    return True


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
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
