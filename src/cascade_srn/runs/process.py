"""Signals, processes and random numbers of a run. torch is imported only where it is needed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelerate import Accelerator


class Termination:
    """Turns SIGTERM into an exception, which can be postponed for a moment."""

    def __init__(self) -> None:
        self._is_postponed = False
        self._pending: int | None = None

    def handle(self, number: int, frame: Any) -> None:
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
def sigterm_as_exit() -> Iterator[Termination]:
    """Raise ``SystemExit`` on SIGTERM in this block. Only the main thread can do so."""
    termination = Termination()
    if threading.current_thread() is not threading.main_thread():
        yield termination
        return
    before = signal.signal(signal.SIGTERM, termination.handle)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)


def make_accelerator(device: str = "auto", **options: Any) -> Accelerator:
    """Return an accelerator for the processes that this one was launched with.

    It leaves precision to the training loops. Parameters may be without a gradient, as those of turn 3 are after a
    batch without relations.
    """
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    # Without cpu=True, each of several processes on a machine without a GPU assumes that it is alone.
    on_cpu = int(os.environ.get("WORLD_SIZE", "1")) > 1 and (device == "cpu" or not torch.cuda.is_available())
    return Accelerator(mixed_precision="no", cpu=on_cpu, kwargs_handlers=[unused], **options)


def end_processes() -> None:
    """Leave the process group, if there is one."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def seed_everything(seed: int) -> None:
    """Seed the random numbers of Python, numpy and torch on all devices."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
