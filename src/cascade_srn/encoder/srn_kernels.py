"""The recurrent part of the SRN on the GPU: one Triton kernel for all time steps forward, one for all backward.

Forward, several programs run a tile of the batch together from the first word to the last. Each holds the weights of
some hidden units, which stay on the chip, computes their gates and memories, and tells the others its share of the
next cell state. All gates of a unit stand side by side in one tensor, so that there is one matrix product for them,
not nine. Backward, one program runs a tile, and the weights are streamed from the second-level cache. What the
backward pass needs (activated gates, cells, memories, hidden states) is saved, because reading it back is faster than
running the recurrence again; the gradients of the weights are matrix products over all time steps at once, outside.

Numbers in comments are the paper's equations. ``tests/encoder/test_srn_kernels.py`` holds the kernels against the
plain loop, through Triton's interpreter where there is no GPU.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import triton
from torch import Tensor

from cascade_srn.encoder.srn_backward_kernel import backward_kernel
from cascade_srn.encoder.srn_forward_kernel import forward_kernel

# Rows of the batch that one program runs: the fewest that the matrix units take.
TILE = 16


def covers(projected: Tensor, hidden: int, n_tasks: int) -> bool:
    """Whether the kernels run this: two or three tasks, up to 256 hidden units, a GPU that holds a tile's programs."""
    if n_tasks not in (2, 3) or not 0 < hidden <= 256 or 0 in projected.shape:
        return False
    if not projected.is_cuda:
        return True
    at_once = torch.cuda.get_device_properties(projected.device).multi_processor_count
    return _forward_shape(hidden, n_tasks, torch.float16)["PARTS"] <= at_once


def triton_srn_scan(
    projected: Tensor,
    recurrent_weight: Tensor,
    cell_weight: Tensor,
    cell_bias: Tensor,
    n_tasks: int,
    lengths: Tensor,
    precision: str = "tf32",
) -> Tensor:
    """Same as :func:`cascade_srn.encoder.srn_plain.srn_scan` at real positions, and zero at padding.

    ``projected`` may be float32 or bfloat16; states, gates and sums are float32 either way. ``precision`` says
    how the factors of matrix products are rounded: to the ten bits of "tf32", which is also what cuDNN does in
    an LSTM, or not at all ("ieee", much slower).

    Shapes:
        projected: (batch, length, (3 + 2 * n_tasks) * hidden)
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,), lengths: (batch,)
        returns: (batch, length, n_sets, hidden), float32
    """
    memories: Tensor = _TritonScan.apply(
        projected, recurrent_weight, cell_weight, cell_bias, lengths, n_tasks, precision
    )
    return memories


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
        batch, length, _ = projected.shape
        hidden = recurrent.shape[0]
        projected = projected.contiguous()
        kind = projected.dtype
        save = any(ctx.needs_input_grad)
        # Half precision keeps as many digits as tf32 does, in half the space; states and memories stay in range.
        operand = torch.float16 if precision == "tf32" else torch.float32
        shape = _forward_shape(hidden, n_tasks, operand)
        packed = bias.new_zeros(batch, length, hidden, 2**n_tasks)
        states = bias.new_zeros(batch, length, hidden) if save else bias
        gates = bias.new_empty(batch, length, 2 ** (n_tasks + 1), hidden) if save else bias
        cells = bias.new_empty(batch, length, hidden) if save else bias
        weights = _packed(recurrent, cell_weight, n_tasks, shape["HP"], operand)
        n_tiles = triton.cdiv(batch, TILE)
        told = n_tiles * 2 * TILE * shape["HP"]
        forward_kernel[(n_tiles * shape["PARTS"],)](
            projected, *weights, bias, lengths, gates, cells, packed, states,
            bias.new_empty(told * shape["PARTS"]), bias.new_empty(told), lengths.new_zeros(n_tiles, dtype=torch.int32),
            batch, length, H=hidden, N=n_tasks, SAVE=save, PRECISION=precision, **shape,
        )  # fmt: skip
        memories = _unpacked(packed, n_tasks)
        if save:
            ctx.save_for_backward(recurrent, cell_weight, lengths, gates, cells, memories, states)
            ctx.settings = n_tasks, precision, kind
        return memories

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, cell_weight, lengths, gates, cells, memories, states = ctx.saved_tensors
        n_tasks, precision, kind = ctx.settings
        batch, length, _, hidden = memories.shape
        d_gates = gates.new_zeros(batch, length, recurrent.shape[1])
        d_cells = torch.zeros_like(cells)
        grid = (triton.cdiv(batch, TILE),)
        backward_kernel[grid](
            grads[0].contiguous(), recurrent.t().contiguous(), cell_weight.t().contiguous(),
            lengths, gates, cells, d_gates, d_cells, batch, length,
            H=hidden, N=n_tasks, PRECISION=precision, **_backward_shape(hidden),
        )  # fmt: skip
        # The state before a word is that of the word before it; before the first one it is zero.
        earlier = states[:, :-1].reshape(batch * (length - 1), hidden)
        d_recurrent = earlier.t() @ d_gates[:, 1:].reshape(batch * (length - 1), recurrent.shape[1])
        d_weight = memories.reshape(batch * length, -1).t() @ d_cells.view(batch * length, hidden)
        return d_gates.to(kind), d_recurrent, d_weight, d_cells.sum((0, 1)), None, None, None


def _packed(
    recurrent: Tensor, cell_weight: Tensor, n_tasks: int, padded: int, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Weights in the order in which the forward kernel reads them: by hidden unit, then by gate or task set.

    The kernel joins memories to pairs, and pairs to pairs of pairs, which reverses the bits of a set's number.
    """
    hidden, n_sets = recurrent.shape[0], 2**n_tasks - 1
    by_unit = recurrent.new_zeros(padded, padded, 2 ** (n_tasks + 1), dtype=kind)
    by_unit[:hidden, :hidden, : 3 + 2 * n_tasks] = recurrent.view(hidden, -1, hidden).transpose(1, 2)
    cell = recurrent.new_zeros(2**n_tasks, padded, padded, dtype=kind)
    cell[:n_sets, :hidden, :hidden] = cell_weight.view(n_sets, hidden, hidden)
    bits = cell.view(*[2] * n_tasks, padded, padded)
    return by_unit, bits.permute(n_tasks, *reversed(range(n_tasks)), n_tasks + 1).contiguous()


def _unpacked(memories: Tensor, n_tasks: int) -> Tensor:
    """Memories in the order of the task sets. Shapes: (batch, length, hidden, 2 ** n_tasks) to (…, n_sets, hidden)."""
    batch, length, hidden, _ = memories.shape
    bits = memories.view(batch, length, hidden, *[2] * n_tasks)
    ordered = bits.permute(0, 1, *reversed(range(3, 3 + n_tasks)), 2).reshape(batch, length, -1, hidden)
    return ordered[:, :, : 2**n_tasks - 1]


def _forward_shape(hidden: int, n_tasks: int, kind: torch.dtype) -> dict[str, int]:
    """As many hidden units for a program as have weights of at most 64 KiB.

    The programs of a tile wait for each other at every step. Programs start in the order of their number, and
    those of a tile are neighbours, so a tile that is not yet complete on the chip waits only for tiles that are.
    The interpreter runs one program after the other: there, one does it all.
    """
    padded = max(16, triton.next_power_of_2(hidden))
    units = min(padded, (1 << 16) // (padded * 2 ** (n_tasks + 1) * kind.itemsize))
    parts = 1 if os.environ.get("TRITON_INTERPRET") == "1" else padded // units
    return {"HP": padded, "PARTS": parts, "TILE": TILE, "num_warps": 8}


def _backward_shape(hidden: int) -> dict[str, int]:
    """Tile sizes and launch options by width: what was fastest on an H200, within its shared memory."""
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
