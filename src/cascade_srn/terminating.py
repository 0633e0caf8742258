"""Raise `SystemExit` on SIGTERM so that ``finally`` blocks run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Termination:
    """Turns SIGTERM into an exception, which can be postponed for a moment."""

    def __init__(self) -> None:
        self._is_postponed = False
        self._pending: int | None = None

    def received(self, number: int, frame: Any) -> None:
        """Handle the signal."""
        if self._is_postponed:
            self._pending = number
        else:
            raise SystemExit(128 + number)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Raise only after this block, which would leave something behind if it were interrupted."""
        self._is_postponed = True
        try:
            yield
        finally:
            self._is_postponed = False
        if self._pending is not None:
            raise SystemExit(128 + self._pending)


@contextmanager
def ending_by_exception() -> Iterator[Termination]:
    """Raise `SystemExit` on SIGTERM in this block, with the usual exit code. Only the main thread can do so."""
    termination = Termination()
    if threading.current_thread() is not threading.main_thread():
        yield termination
        return
    before = signal.signal(signal.SIGTERM, termination.received)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)
