"""An encoder's work in training as recordings (CUDA graphs), played again rather than asked for kernel by kernel."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# A shape is recorded when it comes for this many-th time: recording costs some steps, and rare shapes never pay.
_WORTH_IT = 3
# Pieces of a recorded pass at most: a larger one keeps the GPU busy anyway, and would take much memory for ever.
_LARGEST = 8192

# Ids and mask of windows in, vectors of their pieces out.
Read = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Recording:
    """What is computed for windows of one shape, forward and backward, between tensors that stay where they are.

    Shapes:
        ids, mask: (n_windows, n_pieces)
        output, gradient: (n_windows × n_pieces, width)
    """

    forward: Any
    backward: Any
    ids: Tensor
    mask: Tensor
    output: Tensor
    gradient: Tensor


class CudaGraphs:
    """Recordings of an encoder in training, made as shapes come again.

    A step on a small batch is a thousand small kernels, and asking for them takes the processor several times as long
    as they take the GPU. A recording is asked for at once.

    The passes of a step have places, and those of the same place share their memory: only one of them is played in a
    step, so that what one has left behind is of no use to another. Gradients are added up in tensors that stay where
    they are, too, and that :meth:`begin_step` clears.
    """

    def __init__(self, model: nn.Module, read: Read) -> None:
        self._read = read
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._gradients = [torch.zeros_like(p) for p in self._parameters]
        device = self._parameters[0].device
        # What makes autograd call the backward pass of a recording: ids and masks have no gradients.
        self._anchor = torch.zeros((), device=device, requires_grad=True)
        self._stream = torch.cuda.Stream(device)
        self._seen: Counter[Any] = Counter()
        self._made: dict[Any, Recording] = {}
        self._pools: dict[int, Any] = {}
        self._possible = True
        # Whether the encoder has read anything in this step.
        self._used = False

    def __len__(self) -> int:
        return len(self._made)

    def begin_step(self) -> None:
        """Clear the gradients, and give them back to the parameters."""
        self._used = False
        torch._foreach_zero_(self._gradients)
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient

    def end_step(self) -> None:
        """An encoder that has read nothing has no gradients: it is not to be moved by what earlier steps left."""
        if not self._used:
            for parameter in self._parameters:
                parameter.grad = None

    def read(self, passes: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """What the encoder makes of the ids and mask of each pass of a step; for shapes see :class:`Recording`."""
        self._used = True
        # All that is to be recorded is recorded before anything is read: a recording must find no work under way.
        found = [self._recording(place, ids, mask) for place, (ids, mask) in enumerate(passes)]
        return [
            self._read(ids, mask) if recording is None else _play(self._anchor, recording, ids, mask)
            for recording, (ids, mask) in zip(found, passes, strict=True)
        ]

    def _recording(self, place: int, ids: Tensor, mask: Tensor) -> Recording | None:
        # What is rounded may change between two trainings, and is part of what was recorded.
        key = place, tuple(ids.shape), _precision()
        self._seen[key] += 1
        worth_it = self._seen[key] >= _WORTH_IT and ids.numel() <= _LARGEST
        if worth_it and self._possible and key not in self._made:
            try:
                self._made[key] = self._record(place, ids, mask)
            except RuntimeError as error:
                reason = str(error).strip().splitlines()[0]
                warnings.warn(
                    f"the encoder cannot be recorded as a CUDA graph ({reason}), and training goes on without, more "
                    "slowly; training.cuda_graphs=false does not try",
                    stacklevel=2,
                )
                self._possible = False
                self._made.clear()
                self._pools.clear()
        return self._made.get(key)

    def _record(self, place: int, ids: Tensor, mask: Tensor) -> Recording:
        ids, mask = ids.clone(), mask.clone()
        if not self._pools:
            self._warm_up(ids, mask)
        pool = self._pools.setdefault(place, torch.cuda.graph_pool_handle())
        settings: dict[str, Any] = {"pool": pool, "stream": self._stream, "capture_error_mode": "thread_local"}
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        enabled, dtype = _precision()
        autocast = torch.autocast("cuda", dtype, enabled, cache_enabled=False)
        with torch.cuda.graph(forward, **settings), ids.device, _NumbersOnDevice(), autocast:
            output = self._read(ids, mask)
        gradient = torch.zeros_like(output)
        with torch.cuda.graph(backward, **settings):
            output.backward(gradient)
        return Recording(forward, backward, ids, mask, output.detach(), gradient)

    def _warm_up(self, ids: Tensor, mask: Tensor) -> None:
        """What happens once only, such as finding the fastest matrix product, must not be part of a recording."""
        rng = torch.cuda.get_rng_state(ids.device)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            output = self._read(ids, mask)
            torch.autograd.grad(output, self._parameters, torch.zeros_like(output), allow_unused=True)
        torch.cuda.current_stream().wait_stream(self._stream)
        torch.cuda.set_rng_state(rng, ids.device)


def _precision() -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


class _NumbersOnDevice(TorchFunctionMode):
    """A number becomes a tensor where it is wanted: a recording copies nothing from the processor's memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.tensor and isinstance(args[0], bool | int | float):
            return torch.full((), args[0], **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class _Played(torch.autograd.Function):
    """A recording in the place of the operations that it was made of."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, recording: Recording, ids: Tensor, mask: Tensor) -> Tensor:
        recording.ids.copy_(ids)
        recording.mask.copy_(mask)
        recording.forward.replay()
        ctx.recording = recording
        return recording.output.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        recording: Recording = ctx.recording
        recording.gradient.copy_(gradient)
        recording.backward.replay()
        return None, None, None, None


def _play(anchor: Tensor, recording: Recording, ids: Tensor, mask: Tensor) -> Tensor:
    played: Tensor = _Played.apply(anchor, recording, ids, mask)
    return played
