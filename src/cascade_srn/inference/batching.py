"""Batches of sentences of similar length, and the memory of predictions."""

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeVar

from cascade_srn.errors import CascadeError

Item = TypeVar("Item")
Result = TypeVar("Result")

# While this thread waits for a helper, it checks this often whether to go on.
_POLL_SECONDS = 0.01

# A parameter of glibc's mallopt, and the block size from which blocks are mapped one by one and unmapped when freed.
_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 4 << 20


def release_freed_memory() -> bool:
    """Return freed memory to the system, and return whether the C library can do that.

    Batches of many shapes leave gaps between long-lived blocks. glibc keeps the gaps, so that a process that streams
    for hours grows although it uses no more memory than at first.
    """
    trim = _c_function("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


def map_large_blocks() -> bool:
    """Make the C library map large blocks one by one, and return whether it can do that.

    By default, glibc raises its limit for this up to 32 MiB. Large tensors of many sizes then fragment the heap.
    """
    mallopt = _c_function("mallopt")
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES))


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # Not glibc. On Windows, CDLL(None) raises TypeError.
        return None
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that GPU or CPU memory ran out. The CPU allocator raises a plain RuntimeError."""
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


@contextmanager
def explain_out_of_memory(make_error: Callable[[], CascadeError]) -> Iterator[None]:
    """Raise another error if memory runs out in this block."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise make_error() from error


def group_by_words(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield groups of positions of sentences of similar length, each of at most ``budget`` words with padding.

    The longest sentences come first, so that a batch that does not fit into memory fails early. A sentence that is
    longer than the budget is a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    group: list[int] = []
    for position in order:
        # All members are padded to the length of the first, which is the longest.
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(position)
    if group:
        yield group


class Helpers(NamedTuple):
    """Threads that search batches beside the thread of the caller."""

    threads: Executor  # The threads
    n: int  # Number of them that may search at the same time


class _Stopped(Exception):
    """Nobody waits for the result of a helper any more."""


def run_beside(
    items: Iterable[Item],
    run: Callable[[Item, Callable[[], None]], Result],
    helpers: Helpers,
    check: Callable[[], None],
) -> Iterator[tuple[Item, Result]]:
    """Run a function on items, in helpers and in this thread, and yield each item with its result, in order.

    Args:
        items: The items. They are read when a thread is free for them.
        run: The function. Besides the item it gets a function to call at short intervals, which may raise.
        helpers: The threads.
        check: Called at short intervals in this thread only. It may raise to stop the work.
    """
    stopped = threading.Event()

    def check_helper() -> None:
        if stopped.is_set():
            raise _Stopped

    waiting: deque[tuple[Item, Future[Result]]] = deque()
    remaining = iter(items)
    following = list(islice(remaining, 1))
    try:
        while following or waiting:
            check()
            if following:
                [item], following = following, list(islice(remaining, 1))
                n_busy = sum(not future.done() for _, future in waiting)
                # The last item has all idle threads for its parts.
                if following and n_busy < helpers.n:
                    future = helpers.threads.submit(run, item, check_helper)
                else:
                    future = Future()
                    future.set_result(run(item, check))
                waiting.append((item, future))
            else:
                wait([waiting[0][1]], _POLL_SECONDS)
            while waiting and waiting[0][1].done():
                item, future = waiting.popleft()
                yield item, future.result()
    finally:
        stopped.set()
        for _, future in waiting:
            future.cancel()
        wait([future for _, future in waiting])
