"""Capture of CUDA graphs: their memory, when a shape is captured, and what to do if it cannot be."""

import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

# A shape is captured at this occurrence: a capture takes as long as many predictions, which rare shapes never save.
MIN_OCCURRENCES = 3

Captured = TypeVar("Captured")


class CudaGraphPool:
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


class WeightAddresses:
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


class RecurringCudaGraphs:
    """Graphs for prediction with one model, each captured when its shape recurs.

    ``capture`` False calls the same functions without graphs, for tests without a GPU.
    """

    def __init__(self, *, capture: bool = True, min_occurrences: int = MIN_OCCURRENCES, max_graphs: int) -> None:
        self._capture, self.min_occurrences, self.max_graphs = capture, min_occurrences, max_graphs
        self._can_capture = True
        self._clear()

    def _clear(self) -> None:
        self._occurrences: Counter[Hashable] = Counter()
        self._pool: CudaGraphPool | None = None
        self._n_graphs = 0
        self._addresses: WeightAddresses | None = None

    def __len__(self) -> int:
        return self._n_graphs

    def _drop_if_moved(self, module: nn.Module) -> None:
        """Drop all graphs if the weights have moved."""
        if self._addresses is not None and self._addresses.have_changed(module):
            self._clear()

    def _make(
        self, key: Hashable, module: nn.Module, device: torch.device, make: Callable[[CudaGraphPool | None], Captured]
    ) -> Captured | None:
        """Make what is captured for a shape if its time has come, and return it, or None."""
        if not self._can_capture or self._n_graphs >= self.max_graphs:
            return None
        self._occurrences[key] += 1
        if self._occurrences[key] < self.min_occurrences:
            return None
        if self._addresses is None:
            self._addresses = WeightAddresses(module)
        try:
            if self._capture and self._pool is None:
                self._pool = CudaGraphPool(device)
            made = make(self._pool)
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            warnings.warn(
                f"the model cannot be captured as CUDA graphs ({reason}). Prediction continues without them, which is "
                "slower",
                stacklevel=2,
            )
            self._can_capture = False
            self._clear()
            return None
        self._n_graphs += 1
        return made


class ScalarsOnDevice(TorchFunctionMode):
    """Create scalar tensors on the device, because a capture must not copy from host memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.tensor and isinstance(args[0], bool | int | float):
            return torch.full((), args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))
