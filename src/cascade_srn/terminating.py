"""Being told to terminate, by a scheduler say, as an exception: what a block leaves behind is then put in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ending_by_exception() -> Iterator[None]:
    """SIGTERM raises SystemExit in the block, with the exit code that is usual for it; in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
