"""Copies between the host and a GPU that do not wait for the work that the GPU has already been given."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def send(values: np.ndarray[Any, Any] | Tensor, device: torch.device) -> Tensor:
    """Copy values to a device. Without pinned memory, the copy would wait for the GPU."""
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class HostCopy:
    """A copy of a tensor on the host, which starts at once and is waited for when it is read."""

    def __init__(self, values: Tensor, into: Tensor | None = None) -> None:
        """Start the copy, if given into a pinned tensor of the same size."""
        self._event: torch.cuda.Event | None = None
        if not values.is_cuda:
            self._values = values
            return
        with torch.cuda.device(values.device):
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True) if into is None else into
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> np.ndarray[Any, Any]:
        """Wait for the copy and return it."""
        if self._event is not None:
            self._event.synchronize()
        found: np.ndarray[Any, Any] = self._values.numpy()
        return found
