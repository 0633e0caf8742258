"""CUDA graphs of the encoder passes of large batches, in prediction.

A pass launches several hundred kernels, and launching them one by one takes the host about as long as the GPU takes to
run them. The host has other work meanwhile: it makes the next batch and decodes the one before. A graph launches all
kernels of a pass at once. :class:`.FullPasses` divides batches into passes of few shapes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cascade_srn.encoder.cuda_graphs.pool import CudaGraphPool, RecurringCudaGraphs
from cascade_srn.encoder.pretrained import read_pass

# Bounds the memory of the graphs. All share one pool, and one tensor for their outputs.
_MAX_GRAPHS = 64


class Bf16Linears:
    """A copy of a module whose linear layers are stored in bfloat16. All other weights are those of the module.

    In autocast, it computes what the module computes, without casting the weights each time.
    """

    def __init__(self, module: nn.Module) -> None:
        shared: dict[int, Any] = {id(value): value for value in chain(module.parameters(), module.buffers())}
        self.module = copy.deepcopy(module, shared)
        self._weights: list[Tensor] = []
        self._copies: list[Tensor] = []
        # Tensors of inference mode could not be parameters.
        with torch.inference_mode(False), torch.no_grad():
            for layer in self.module.modules():
                if type(layer) is nn.Linear:
                    for name, weight in list(layer._parameters.items()):
                        if weight is not None:
                            self._replace(layer, name, weight)

    def _replace(self, layer: nn.Module, name: str, weight: Tensor) -> None:
        bf16 = nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
        setattr(layer, name, bf16)
        self._weights.append(weight.detach())
        self._copies.append(bf16.detach())

    def update(self) -> None:
        """Copy the weights of the module again, which may have changed."""
        torch._foreach_copy_(self._copies, self._weights)


@dataclass(frozen=True)
class _CapturedPass:
    """A pass that is replayed, with its static inputs and output.

    Shapes: ids, mask (n_windows, n_pieces); output (n_windows × n_pieces, width)
    """

    replay: Callable[[], None]
    ids: Tensor
    mask: Tensor
    output: Tensor


class PassCudaGraphs(RecurringCudaGraphs):
    """Graphs of the passes of one encoder. They compute what a pass without a graph computes.

    All threads may use them. They run one after the other, on the default stream of the device.
    """

    def __init__(self, *, max_graphs: int = _MAX_GRAPHS, **settings: Any) -> None:
        """Make the graphs. See :class:`.RecurringCudaGraphs` for ``settings``."""
        self._lock = Lock()
        super().__init__(max_graphs=max_graphs, **settings)

    def _clear(self) -> None:
        super()._clear()
        self._captured: dict[tuple[torch.Size, bool], _CapturedPass] = {}
        self._bf16: Bf16Linears | None = None
        self._output: Tensor | None = None
        self._is_old = False

    def begin_prediction(self) -> None:
        """Read the weights again before the next pass. They may have changed since the last prediction."""
        self._is_old = True

    def read(self, model: nn.Module, ids: Tensor, mask: Tensor, bf16: bool) -> Tensor | None:
        """Run a pass by replay, in bfloat16 if ``bf16``. Return None if its shape has no graph yet.

        Shapes: ids, mask (n_windows, n_pieces); returns (n_windows × n_pieces, width)
        """
        with self._lock:
            self._drop_if_moved(model)
            key = ids.shape, bf16
            if key not in self._captured:
                made = self._make(key, model, ids.device, lambda pool: self._capture_pass(model, ids, mask, bf16, pool))
                if made is None:
                    return None
                self._captured[key] = made
            captured = self._captured[key]
            with _on_default_stream(ids.device):
                if self._is_old and self._bf16 is not None:
                    self._bf16.update()
                    self._is_old = False
                captured.ids.copy_(ids)
                captured.mask.copy_(mask)
                captured.replay()
                # The next pass overwrites the output.
                found = captured.output.clone()
            if found.is_cuda:
                found.record_stream(torch.cuda.current_stream(found.device))
            return found

    def _capture_pass(
        self, model: nn.Module, ids: Tensor, mask: Tensor, bf16: bool, pool: CudaGraphPool | None
    ) -> _CapturedPass:
        kind = ids.device.type
        if bf16:
            if self._bf16 is None:
                self._bf16 = Bf16Linears(model)
            model = self._bf16.module
        ids, mask = ids.clone(), mask.clone()
        static: list[Tensor] = []

        def run() -> None:
            with torch.autocast(kind, torch.bfloat16, cache_enabled=False) if bf16 else nullcontext():
                vectors = read_pass(model, ids, mask)
            if not static:
                static.append(self._static_output(vectors))
            static[0].copy_(vectors)

        if pool is None:
            run()
            return _CapturedPass(run, ids, mask, static[0])
        return _CapturedPass(pool.capture(run, ids.device).replay, ids, mask, static[0])

    def _static_output(self, vectors: Tensor) -> Tensor:
        """Return a part of the tensor for outputs, in the form of these vectors."""
        held = self._output
        if held is None or held.dtype != vectors.dtype or len(held) < len(vectors):
            # Graphs that were captured before keep the tensor that they write to.
            held = self._output = torch.empty_like(vectors)
        return held[: len(vectors)]


@contextmanager
def _on_default_stream(device: torch.device) -> Iterator[None]:
    """Run a block on the default stream. Each stream waits for the work of the other one."""
    if device.type != "cuda":
        yield
        return
    default, current = torch.cuda.default_stream(device), torch.cuda.current_stream(device)
    if current == default:
        yield
        return
    default.wait_stream(current)
    with torch.cuda.stream(default):
        yield
    current.wait_stream(default)


# Not attributes of the encoders, because graphs cannot be copied or pickled.
_GRAPHS: WeakKeyDictionary[nn.Module, PassCudaGraphs] = WeakKeyDictionary()
_MAKING = Lock()


def pass_cuda_graphs(encoder: nn.Module) -> PassCudaGraphs:
    """Return the graphs of an encoder."""
    with _MAKING:
        return _GRAPHS.setdefault(encoder, PassCudaGraphs())


def begin_prediction(encoder: nn.Module) -> None:
    """Tell the graphs of an encoder, if it has some, that a prediction begins."""
    graphs = _GRAPHS.get(encoder)
    if graphs is not None:
        graphs.begin_prediction()
