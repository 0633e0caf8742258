"""The recurrent part of the SRN on the GPU: one Triton kernel for the forward pass, one for the backward pass.

Forward: several programs run a tile of the batch together, from the first word to the last. Each program keeps the
weights of some hidden units on the chip, computes their gates and memories, and passes its partial sum of the next cell
state to the others. All gates of a unit are adjacent in one tensor, so that one matrix product computes them instead of
nine.

Backward: one program runs a tile and reads the weights from the L2 cache. The forward pass saves activated gates,
cells, memories and hidden states, because loading them is faster than running the recurrence again. The gradients of
the weights are matrix products over all time steps, outside the kernel.

The tests compare the kernels with the plain loop, in Triton's interpreter if there is no GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from cascade_srn.network.kernels import CELL_BOUND
from cascade_srn.network.kernels.triton_kernels import backward_kernel, forward_kernel, pack_kernel
from cascade_srn.network.sequence import padding_mask

# Rows of the batch that one program runs: the fewest that the matrix units support.
TILE = 16
# Number of weights that one program packs.
_PACK_BLOCK = 1024


def covers(inputs: Tensor, hidden: int, n_tasks: int) -> bool:
    """Return whether the kernels support these inputs.

    They need two or three tasks, at most 256 hidden units, and a GPU that runs all programs of a tile at the same time.
    """
    if n_tasks not in (2, 3) or not 0 < hidden <= 256 or 0 in inputs.shape:
        return False
    if not inputs.is_cuda:
        return True
    return _forward_shape(hidden, n_tasks, torch.float16)["PARTS"] <= _count_multiprocessors(inputs.device)


@cache
def _count_multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def triton_features(
    inputs: Tensor,
    lengths: Tensor,
    project: Callable[[Tensor], Tensor],
    weights: tuple[Tensor, Tensor, Tensor],
    n_tasks: int,
) -> Tensor:
    """Compute :func:`.reference.plain_features`."""
    if torch.is_grad_enabled():
        # Padding may hold any value, even NaN, which must not reach a weight or its gradient.
        inputs = torch.where(padding_mask(lengths, inputs.shape[1])[:, :, None], inputs, 0.0)
    projected = project(inputs)
    with torch.autocast(inputs.device.type, enabled=False):
        return triton_srn_scan(projected, *weights, n_tasks, lengths)


def triton_srn_scan(
    projected: Tensor,
    recurrent_weight: Tensor,
    cell_weight: Tensor,
    cell_bias: Tensor,
    n_tasks: int,
    lengths: Tensor,
    precision: str = "tf32",
) -> Tensor:
    """Compute the features of all task sets: tanh of :func:`.reference.srn_scan`, zero at padding.

    States, gates and sums are float32. ``precision`` is that of the factors of matrix products: "tf32", as in cuDNN's
    LSTM, or "ieee" (float32, much slower).

    Shapes:
        projected: (batch, length, (3 + 2 * n_tasks) * hidden), float32 or bfloat16; padding is not read
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,), lengths: (batch,)
        returns: (batch, length, n_sets, hidden), float32
    """
    tensors = projected.contiguous(), recurrent_weight, cell_weight, cell_bias, lengths
    if not (torch.is_grad_enabled() and any(value.requires_grad for value in tensors)):
        return _run_forward(*tensors, n_tasks, precision, save=False).features
    features: Tensor = _TritonScan.apply(*tensors, n_tasks, precision)
    return features


class _ForwardOutputs(NamedTuple):
    """Outputs of the forward kernel. All but the features are filled only with ``save``."""

    features: Tensor
    gates: Tensor
    cells: Tensor
    memories: Tensor
    states: Tensor


def _run_forward(
    projected: Tensor,
    recurrent: Tensor,
    cell_weight: Tensor,
    bias: Tensor,
    lengths: Tensor,
    n_tasks: int,
    precision: str,
    *,
    save: bool,
) -> _ForwardOutputs:
    batch, length, _ = projected.shape
    hidden, n_sets = recurrent.shape[0], 2**n_tasks - 1
    # float16 has as many digits as tf32 in half the space, and states and memories are within its range.
    operand = torch.float16 if precision == "tf32" else torch.float32
    shape = _forward_shape(hidden, n_tasks, operand)
    padded, n_tiles = shape["HP"], triton.cdiv(batch, TILE)
    outputs = _ForwardOutputs(
        features=bias.new_empty(batch, length, n_sets, hidden),
        gates=bias.new_empty(batch, length, 2 ** (n_tasks + 1), hidden) if save else bias,
        cells=bias.new_empty(batch, length, hidden) if save else bias,
        memories=bias.new_empty(batch, length, n_sets, hidden) if save else bias,
        states=bias.new_empty(batch, length, hidden) if save else bias,
    )
    by_unit = bias.new_empty(padded, padded, 2 ** (n_tasks + 1), dtype=operand)
    by_set = bias.new_empty(padded, 2**n_tasks, padded, dtype=operand)
    counters = lengths.new_empty(n_tiles, dtype=torch.int32)
    pack_kernel[(triton.cdiv(max(by_unit.numel(), n_tiles), _PACK_BLOCK),)](
        recurrent, cell_weight, by_unit, by_set, counters, n_tiles,
        H=hidden, HP=padded, N=n_tasks, BLOCK=_PACK_BLOCK,
    )  # fmt: skip
    exchanged = n_tiles * 2 * TILE * padded
    forward_kernel[(n_tiles * shape["PARTS"],)](
        projected, by_unit, by_set, bias, lengths, *outputs,
        bias.new_empty(exchanged * shape["PARTS"]), bias.new_empty(exchanged), counters,
        batch, length, H=hidden, N=n_tasks, SAVE=save, PRECISION=precision, BOUND=CELL_BOUND, **shape,
    )  # fmt: skip
    return outputs


class _TritonScan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        recurrent: Tensor,
        cell_weight: Tensor,
        bias: Tensor,
        lengths: Tensor,
        n_tasks: int,
        precision: str,
    ) -> Tensor:
        outputs = _run_forward(projected, recurrent, cell_weight, bias, lengths, n_tasks, precision, save=True)
        ctx.save_for_backward(recurrent, cell_weight, lengths, *outputs)
        ctx.settings = n_tasks, precision, projected.dtype
        return outputs.features

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, cell_weight, lengths, features, gates, cells, memories, states = ctx.saved_tensors
        n_tasks, precision, kind = ctx.settings
        batch, length, _, hidden = features.shape
        d_gates = gates.new_empty(batch, length, recurrent.shape[1])
        d_cells = torch.empty_like(cells)
        grid = (triton.cdiv(batch, TILE),)
        backward_kernel[grid](
            grads[0].contiguous(), features, recurrent.t().contiguous(), cell_weight.t().contiguous(),
            lengths, gates, cells, d_gates, d_cells, batch, length,
            H=hidden, N=n_tasks, PRECISION=precision, BOUND=CELL_BOUND, **_backward_shape(hidden),
        )  # fmt: skip
        # The state before the first word is zero.
        earlier = states[:, :-1].reshape(batch * (length - 1), hidden)
        d_recurrent = earlier.t() @ d_gates[:, 1:].reshape(batch * (length - 1), recurrent.shape[1])
        d_weight = memories.view(batch * length, -1).t() @ d_cells.view(batch * length, hidden)
        return d_gates.to(kind), d_recurrent, d_weight, d_cells.sum((0, 1)), None, None, None


def _forward_shape(hidden: int, n_tasks: int, kind: torch.dtype) -> dict[str, int]:
    """Return the launch options of the forward kernel. A program has hidden units with weights of at most 64 KiB.

    The programs of a tile wait for each other at every step. There is no deadlock: programs start in order and those of
    a tile are neighbours, so that a tile with programs still to start waits only for tiles that run completely. The
    interpreter runs programs one after the other and therefore has one program per tile.
    """
    padded = max(16, triton.next_power_of_2(hidden))
    units = min(padded, (1 << 16) // (padded * 2 ** (n_tasks + 1) * kind.itemsize))
    parts = 1 if os.environ.get("TRITON_INTERPRET") == "1" else padded // units
    return {"HP": padded, "PARTS": parts, "TILE": TILE, "num_warps": 8}


def _backward_shape(hidden: int) -> dict[str, int]:
    """Return the launch options of the backward kernel: the fastest ones on an H200, within its shared memory."""
    padded = max(16, triton.next_power_of_2(hidden))
    wide = padded > 128
    return {
        "HP": padded,
        "TILE": TILE,
        "BK": 16,
        "BK2": 32 if wide else 64,
        "S1": 1 if wide else 2,
        "S2": 2 if wide else 3,
        "num_warps": 8,
    }
