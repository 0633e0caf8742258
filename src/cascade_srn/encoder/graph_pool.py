"""Capture of CUDA graphs that share their memory."""

from collections.abc import Callable
from typing import Any

import torch
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


class ScalarsOnDevice(TorchFunctionMode):
    """Create scalar tensors on the device, because a capture must not copy from host memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.tensor and isinstance(args[0], bool | int | float):
            return torch.full((), args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))
