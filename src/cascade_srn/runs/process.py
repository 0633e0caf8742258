"""Processes, devices and random numbers of a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelerate import Accelerator
import os
import random


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
def sigterm_as_exit() -> Iterator[Termination]:
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


def make_accelerator(device: str = "auto", **options: Any) -> Accelerator:
    """Knows the processes that this one was launched with.

    Precision is the loop's own affair, and a batch without relations leaves the weights of turn 3 without
    gradients.
    """
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    # Without a GPU accelerate has to be told, or each of several processes takes itself to be alone.
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    on_cpu = several and (device == "cpu" or not torch.cuda.is_available())
    return Accelerator(mixed_precision="no", cpu=on_cpu, kwargs_handlers=[unused], **options)


def end_processes() -> None:
    """Part from the other processes, where there are any, when all is done."""
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
