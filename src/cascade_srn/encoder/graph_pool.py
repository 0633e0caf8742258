"""Capture of CUDA graphs that share their memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class GraphPool:
    """Memory and stream of the CUDA graphs of a model. The graphs are replayed one after the other."""

    def __init__(self, device: torch.device) -> None:
        self._handle = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)

    def capture(self, run: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph:
        """Run once without capture, which compiles kernels and initialises libraries, and then capture."""
        # The cache of autocast is shared by all threads. A graph must not read weights that another thread has cast.
        with torch.cuda.device(device), torch.autocast("cuda", enabled=False, cache_enabled=False):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                run()
            torch.cuda.current_stream().wait_stream(self._stream)
            # Work of the warm-up must not be in progress during the capture.
            self._stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            settings: dict[str, Any] = {"pool": self._handle, "stream": self._stream}
            with torch.cuda.graph(graph, capture_error_mode="thread_local", **settings), device, ScalarsOnDevice():
                run()
        return graph


class Addresses:
    """Addresses of weights, which graphs contain. Another device or type of the weights changes them."""

    def __init__(self, module: nn.Module) -> None:
        self._weights = list(module.parameters())
        # As long as the old values are kept, new ones have other addresses.
        self._values = [weight.detach() for weight in self._weights]

    def have_changed(self, module: nn.Module) -> bool:
        """Return whether a weight is elsewhere now. The first and the last one stand for all."""
        if next(module.parameters()) is not self._weights[0]:
            return True
        return any(self._weights[i].data_ptr() != self._values[i].data_ptr() for i in (0, -1))


class ScalarsOnDevice(TorchFunctionMode):
    """Create scalar tensors on the device, because a capture must not copy from host memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.tensor and isinstance(args[0], bool | int | float):
            return torch.full((), args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))
