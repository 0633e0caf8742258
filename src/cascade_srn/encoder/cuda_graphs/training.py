"""CUDA graphs of the pretrained encoder in training.

A step on a small batch launches about a thousand small kernels, and launching them takes several times as long as
running them. A CUDA graph launches them all at once.

``torch.cuda.make_graphed_callables`` does not serve here. For each captured shape it holds gradients of all parameters,
as large as the encoder itself, and autograd adds them to ``parameter.grad`` after each replay. This module uses
``torch.cuda.graph`` directly, so that the backward graphs of all shapes add to one set of gradients.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cascade_srn.encoder.cuda_graphs.pool import ScalarsOnDevice

# A shape is captured at this occurrence: a capture takes as long as some steps, which rare shapes never save.
_MIN_OCCURRENCES = 3
# Larger passes keep the GPU busy without a graph, and their graphs would hold much memory.
_MAX_PIECES = 8192

# Maps ids and mask of windows to the vectors of their pieces.
Read = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class CapturedPass:
    """Forward and backward graphs of an encoder pass of one shape, with their static input and output tensors.

    Shapes: ids, mask (n_windows, n_pieces); output, gradient (n_windows × n_pieces, width)
    """

    forward: Any
    backward: Any
    ids: Tensor
    mask: Tensor
    output: Tensor
    gradient: Tensor


class CudaGraphs:
    """Graphs of an encoder in training, captured as shapes recur.

    Graphs of the same pass number (first pass of a step, second pass, …) share a memory pool, because only one of them
    is replayed in a step. Gradients accumulate in static tensors that :meth:`begin_step` clears.
    """

    def __init__(self, model: nn.Module, read: Read) -> None:
        self._read = read
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._gradients = [torch.zeros_like(p) for p in self._parameters]
        device = self._parameters[0].device
        # Ids and masks have no gradients: autograd calls the backward graph because of this tensor.
        self._anchor = torch.zeros((), device=device, requires_grad=True)
        self._stream = torch.cuda.Stream(device)
        self._occurrences: Counter[Any] = Counter()
        self._captured: dict[Any, CapturedPass] = {}
        self._pools: dict[int, Any] = {}
        self._can_capture = True
        self._used_in_step = False

    def __len__(self) -> int:
        return len(self._captured)

    def begin_step(self) -> None:
        """Clear the static gradients and assign them to the parameters."""
        self._used_in_step = False
        torch._foreach_zero_(self._gradients)
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient

    def end_step(self) -> None:
        """Remove the gradients of an encoder that was not used, so that the optimiser does not move it."""
        if not self._used_in_step:
            for parameter in self._parameters:
                parameter.grad = None

    def read(self, passes: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Run the encoder on the passes of a batch, by replay where a graph exists.

        Shapes:
            passes: ids and mask of each, (n_windows, n_pieces)
            returns: (n_windows × n_pieces, width) of each
        """
        self._used_in_step = True
        # Captures come first: no other work may be in progress during a capture.
        graphs = [self._find_or_capture(number, ids, mask) for number, (ids, mask) in enumerate(passes)]
        outputs: list[Tensor] = [
            self._read(ids, mask) if graph is None else _Replay.apply(self._anchor, graph, ids, mask)
            for graph, (ids, mask) in zip(graphs, passes, strict=True)
        ]
        return outputs

    def _find_or_capture(self, number: int, ids: Tensor, mask: Tensor) -> CapturedPass | None:
        # A graph has a fixed precision.
        key = number, tuple(ids.shape), _autocast_state()
        self._occurrences[key] += 1
        is_due = self._occurrences[key] >= _MIN_OCCURRENCES and ids.numel() <= _MAX_PIECES
        if is_due and self._can_capture and key not in self._captured:
            try:
                self._captured[key] = self._capture(number, ids, mask)
            except RuntimeError as error:
                reason = str(error).strip().splitlines()[0]
                warnings.warn(
                    f"the encoder cannot be captured as a CUDA graph ({reason}). Training continues without graphs, "
                    "which is slower. Set training.cuda_graphs=false to skip the attempt.",
                    stacklevel=2,
                )
                self._can_capture = False
                self._captured.clear()
                self._pools.clear()
        return self._captured.get(key)

    def _capture(self, number: int, ids: Tensor, mask: Tensor) -> CapturedPass:
        ids, mask = ids.clone(), mask.clone()
        if not self._pools:
            self._warm_up(ids, mask)
        pool = self._pools.setdefault(number, torch.cuda.graph_pool_handle())
        settings: dict[str, Any] = {"pool": pool, "stream": self._stream, "capture_error_mode": "thread_local"}
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        enabled, dtype = _autocast_state()
        autocast = torch.autocast("cuda", dtype, enabled, cache_enabled=False)
        with torch.cuda.graph(forward, **settings), ids.device, ScalarsOnDevice(), autocast:
            output = self._read(ids, mask)
        gradient = torch.zeros_like(output)
        with torch.cuda.graph(backward, **settings):
            output.backward(gradient)
        return CapturedPass(forward, backward, ids, mask, output.detach(), gradient)

    def _warm_up(self, ids: Tensor, mask: Tensor) -> None:
        """Run once without capture, because one-time work such as cuBLAS initialisation cannot be captured."""
        rng_state = torch.cuda.get_rng_state(ids.device)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            output = self._read(ids, mask)
            torch.autograd.grad(output, self._parameters, torch.zeros_like(output), allow_unused=True)
        torch.cuda.current_stream().wait_stream(self._stream)
        torch.cuda.set_rng_state(rng_state, ids.device)


def _autocast_state() -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


class _Replay(torch.autograd.Function):
    """Replay a captured pass in place of the operations it was captured from."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, graph: CapturedPass, ids: Tensor, mask: Tensor) -> Tensor:
        graph.ids.copy_(ids)
        graph.mask.copy_(mask)
        graph.forward.replay()
        ctx.graph = graph
        return graph.output.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.graph.gradient.copy_(gradient)
        ctx.graph.backward.replay()
        return None, None, None, None
