"""Long work without searches for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage in this block. Objects that are no longer used are still freed, unless they form cycles.

    Predictions and graphs make many objects and few cycles. Python would look through all objects of the process for
    cycles again and again, and with torch there are many.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
