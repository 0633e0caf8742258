"""Memory that has been freed, given back to the system; and memory that ran out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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
