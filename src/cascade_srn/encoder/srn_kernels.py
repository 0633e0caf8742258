"""The recurrent part of the SRN on the GPU: one Triton kernel for all time steps forward, one for all backward.

A program runs a tile of the batch from the first word to the last. Its states never leave the chip as far as the
next step is concerned; the recurrent weights are streamed from the second-level cache in pieces small enough to be
fetched ahead. What the backward pass needs (activated gates, cells, memories, hidden states) is saved, because
reading it back is faster than running the recurrence again; the gradients of the weights are matrix products over
all time steps at once, outside.

Numbers in comments are the paper's equations. ``tests/encoder/test_srn_kernels.py`` holds the kernels against the
plain loop, through Triton's interpreter where there is no GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Rows of the batch that one program runs: the fewest that the matrix units take.
TILE = 16


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit(do_not_specialize=["batch", "length"])  # type: ignore[untyped-decorator, unused-ignore]
def _forward_kernel(  # type: ignore[no-untyped-def]
    projected,
    recurrent,
    cell_weight,
    cell_bias,
    lengths,
    gates,
    cells,
    memories,
    states,
    batch,
    length,
    H: tl.constexpr,
    HP: tl.constexpr,
    N: tl.constexpr,
    TILE: tl.constexpr,
    BK: tl.constexpr,
    BK2: tl.constexpr,
    S1: tl.constexpr,
    S2: tl.constexpr,
    SAVE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    NG: tl.constexpr = 3 + 2 * N
    NS: tl.constexpr = 2**N - 1
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    col = tl.arange(0, HP)
    real_row = row < batch
    real_col = col < H
    real = real_row[:, None] & real_col[None, :]
    n_steps = tl.max(tl.load(lengths + row, mask=real_row, other=0))
    bias = tl.load(cell_bias + col, mask=real_col, other=0.0).to(tl.float32)
    c = tl.zeros((TILE, HP), dtype=tl.float32)
    for t in range(0, n_steps):
        at = row.to(tl.int64) * length + t
        own = at[:, None] * H + col[None, :]
        gate = at[:, None] * (NG * H) + col[None, :]
        f = tl.load(projected + gate, mask=real, other=0.0).to(tl.float32)
        o = tl.load(projected + gate + H, mask=real, other=0.0).to(tl.float32)
        u = tl.load(projected + gate + 2 * H, mask=real, other=0.0).to(tl.float32)
        p0 = tl.load(projected + gate + 3 * H, mask=real, other=0.0).to(tl.float32)
        p1 = tl.load(projected + gate + 4 * H, mask=real, other=0.0).to(tl.float32)
        q0 = tl.load(projected + gate + (3 + N) * H, mask=real, other=0.0).to(tl.float32)
        q1 = tl.load(projected + gate + (4 + N) * H, mask=real, other=0.0).to(tl.float32)
        if N == 3:
            p2 = tl.load(projected + gate + 5 * H, mask=real, other=0.0).to(tl.float32)
            q2 = tl.load(projected + gate + 8 * H, mask=real, other=0.0).to(tl.float32)
        if t > 0:
            for k in tl.range(0, HP, BK, num_stages=S1):
                inner = k + tl.arange(0, BK)
                real_k = inner < H
                h = tl.load(
                    states + (at[:, None] - 1) * H + inner[None, :],
                    mask=real_row[:, None] & real_k[None, :],
                    other=0.0,
                )
                w = recurrent + inner[:, None] * (NG * H) + col[None, :]
                real_w = real_k[:, None] & real_col[None, :]
                h = h.to(recurrent.dtype.element_ty)
                f = tl.dot(h, tl.load(w, mask=real_w, other=0.0), f, input_precision=PRECISION)
                o = tl.dot(h, tl.load(w + H, mask=real_w, other=0.0), o, input_precision=PRECISION)
                u = tl.dot(h, tl.load(w + 2 * H, mask=real_w, other=0.0), u, input_precision=PRECISION)
                p0 = tl.dot(h, tl.load(w + 3 * H, mask=real_w, other=0.0), p0, input_precision=PRECISION)
                p1 = tl.dot(h, tl.load(w + 4 * H, mask=real_w, other=0.0), p1, input_precision=PRECISION)
                q0 = tl.dot(h, tl.load(w + (3 + N) * H, mask=real_w, other=0.0), q0, input_precision=PRECISION)
                q1 = tl.dot(h, tl.load(w + (4 + N) * H, mask=real_w, other=0.0), q1, input_precision=PRECISION)
                if N == 3:
                    p2 = tl.dot(h, tl.load(w + 5 * H, mask=real_w, other=0.0), p2, input_precision=PRECISION)
                    q2 = tl.dot(h, tl.load(w + 8 * H, mask=real_w, other=0.0), q2, input_precision=PRECISION)
        f = tl.sigmoid(f)  # (1)
        o = tl.sigmoid(o)
        u = _tanh(u)
        p0 = tl.sigmoid(p0)  # (3), of the history
        p1 = tl.sigmoid(p1)
        q0 = tl.sigmoid(q0)  # (3), of the candidate
        q1 = tl.sigmoid(q1)
        if SAVE:
            tl.store(gates + gate, f, mask=real)
            tl.store(gates + gate + H, o, mask=real)
            tl.store(gates + gate + 2 * H, u, mask=real)
            tl.store(gates + gate + 3 * H, p0, mask=real)
            tl.store(gates + gate + 4 * H, p1, mask=real)
            tl.store(gates + gate + (3 + N) * H, q0, mask=real)
            tl.store(gates + gate + (4 + N) * H, q1, mask=real)
        v = f * c  # (2)
        memory = memories + at[:, None] * (NS * H) + col[None, :]
        if N == 3:
            p2 = tl.sigmoid(p2)
            q2 = tl.sigmoid(q2)
            if SAVE:
                tl.store(gates + gate + 5 * H, p2, mask=real)
                tl.store(gates + gate + 8 * H, q2, mask=real)
            # (4) to (7): e, s, o, es, eo, so, eso
            tl.store(memory, p0 * (1 - p1) * (1 - p2) * v + q0 * (1 - q1) * (1 - q2) * u, mask=real)
            tl.store(memory + H, p1 * (1 - p0) * (1 - p2) * v + q1 * (1 - q0) * (1 - q2) * u, mask=real)
            tl.store(memory + 2 * H, p2 * (1 - p0) * (1 - p1) * v + q2 * (1 - q0) * (1 - q1) * u, mask=real)
            tl.store(memory + 3 * H, p0 * p1 * v + q0 * q1 * u, mask=real)
            tl.store(memory + 4 * H, p0 * p2 * v + q0 * q2 * u, mask=real)
            tl.store(memory + 5 * H, p1 * p2 * v + q1 * q2 * u, mask=real)
            tl.store(memory + 6 * H, p0 * p1 * p2 * v + q0 * q1 * q2 * u, mask=real)
        else:
            tl.store(memory, p0 * (1 - p1) * v + q0 * (1 - q1) * u, mask=real)
            tl.store(memory + H, p1 * (1 - p0) * v + q1 * (1 - q0) * u, mask=real)
            tl.store(memory + 2 * H, p0 * p1 * v + q0 * q1 * u, mask=real)
        tl.debug_barrier()
        c = tl.zeros((TILE, HP), dtype=tl.float32) + bias[None, :]
        for k in tl.range(0, NS * H, BK2, num_stages=S2):  # (8)
            inner = k + tl.arange(0, BK2)
            real_k = inner < NS * H
            s = tl.load(
                memories + at[:, None] * (NS * H) + inner[None, :],
                mask=real_row[:, None] & real_k[None, :],
                other=0.0,
            )
            w = tl.load(
                cell_weight + inner[:, None] * H + col[None, :], mask=real_k[:, None] & real_col[None, :], other=0.0
            )
            # Only a diverging model comes near the limits of half precision; it is held there, not made infinite.
            s = tl.minimum(tl.maximum(s, -60000.0), 60000.0).to(cell_weight.dtype.element_ty)
            c = tl.dot(s, w, c, input_precision=PRECISION)
        if SAVE:
            tl.store(cells + own, c, mask=real)
        tl.store(states + own, o * _tanh(c), mask=real)  # (9)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["batch", "length"])  # type: ignore[untyped-decorator, unused-ignore]
def _backward_kernel(  # type: ignore[no-untyped-def]
    d_memories,
    recurrent_t,
    cell_weight_t,
    lengths,
    gates,
    cells,
    d_gates,
    d_cells,
    batch,
    length,
    H: tl.constexpr,
    HP: tl.constexpr,
    N: tl.constexpr,
    TILE: tl.constexpr,
    BK: tl.constexpr,
    BK2: tl.constexpr,
    S1: tl.constexpr,
    S2: tl.constexpr,
    PRECISION: tl.constexpr,
):
    NG: tl.constexpr = 3 + 2 * N
    NS: tl.constexpr = 2**N - 1
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    col = tl.arange(0, HP)
    real_row = row < batch
    real_col = col < H
    real = real_row[:, None] & real_col[None, :]
    n_steps = tl.max(tl.load(lengths + row, mask=real_row, other=0))
    d_state = tl.zeros((TILE, HP), dtype=tl.float32)
    d_cell = tl.zeros((TILE, HP), dtype=tl.float32)
    for back in range(0, n_steps):
        t = n_steps - 1 - back
        at = row.to(tl.int64) * length + t
        own = at[:, None] * H + col[None, :]
        gate = at[:, None] * (NG * H) + col[None, :]
        tanh_c = _tanh(tl.load(cells + own, mask=real, other=0.0))
        o = tl.load(gates + gate + H, mask=real, other=0.0)
        tl.store(d_gates + gate + H, d_state * tanh_c * o * (1 - o), mask=real)
        d_cell += d_state * o * (1 - tanh_c * tanh_c)
        tl.store(d_cells + own, d_cell, mask=real)
        tl.debug_barrier()
        memory = d_memories + at[:, None] * (NS * H) + col[None, :]
        d0 = tl.load(memory, mask=real, other=0.0).to(tl.float32)
        d1 = tl.load(memory + H, mask=real, other=0.0).to(tl.float32)
        d2 = tl.load(memory + 2 * H, mask=real, other=0.0).to(tl.float32)
        if N == 3:
            d3 = tl.load(memory + 3 * H, mask=real, other=0.0).to(tl.float32)
            d4 = tl.load(memory + 4 * H, mask=real, other=0.0).to(tl.float32)
            d5 = tl.load(memory + 5 * H, mask=real, other=0.0).to(tl.float32)
            d6 = tl.load(memory + 6 * H, mask=real, other=0.0).to(tl.float32)
        for k in tl.range(0, HP, BK, num_stages=S1):
            inner = k + tl.arange(0, BK)
            real_k = inner < H
            d = tl.load(d_cells + at[:, None] * H + inner[None, :], mask=real_row[:, None] & real_k[None, :], other=0.0)
            d = d.to(cell_weight_t.dtype.element_ty)
            w = cell_weight_t + inner[:, None] * (NS * H) + col[None, :]
            real_w = real_k[:, None] & real_col[None, :]
            d0 = tl.dot(d, tl.load(w, mask=real_w, other=0.0), d0, input_precision=PRECISION)
            d1 = tl.dot(d, tl.load(w + H, mask=real_w, other=0.0), d1, input_precision=PRECISION)
            d2 = tl.dot(d, tl.load(w + 2 * H, mask=real_w, other=0.0), d2, input_precision=PRECISION)
            if N == 3:
                d3 = tl.dot(d, tl.load(w + 3 * H, mask=real_w, other=0.0), d3, input_precision=PRECISION)
                d4 = tl.dot(d, tl.load(w + 4 * H, mask=real_w, other=0.0), d4, input_precision=PRECISION)
                d5 = tl.dot(d, tl.load(w + 5 * H, mask=real_w, other=0.0), d5, input_precision=PRECISION)
                d6 = tl.dot(d, tl.load(w + 6 * H, mask=real_w, other=0.0), d6, input_precision=PRECISION)
        f = tl.load(gates + gate, mask=real, other=0.0)
        u = tl.load(gates + gate + 2 * H, mask=real, other=0.0)
        # The cell before the first word is zero.
        earlier = (tl.zeros((TILE, HP), dtype=tl.int32) + t) > 0
        before = tl.load(cells + own - H, mask=real & earlier, other=0.0)
        v = f * before
        p0 = tl.load(gates + gate + 3 * H, mask=real, other=0.0)
        p1 = tl.load(gates + gate + 4 * H, mask=real, other=0.0)
        q0 = tl.load(gates + gate + (3 + N) * H, mask=real, other=0.0)
        q1 = tl.load(gates + gate + (4 + N) * H, mask=real, other=0.0)
        if N == 3:
            # Coefficients of the monomials: the gates are linear in each master gate.
            d3 = d3 - d0 - d1
            d4 = d4 - d0 - d2
            d5 = d5 - d1 - d2
            d6 = d6 + d0 + d1 + d2
            p2 = tl.load(gates + gate + 5 * H, mask=real, other=0.0)
            q2 = tl.load(gates + gate + 8 * H, mask=real, other=0.0)
            e0 = d0 + d3 * p1 + d4 * p2 + d6 * p1 * p2
            e1 = d1 + d3 * p0 + d5 * p2 + d6 * p0 * p2
            e2 = d2 + d4 * p0 + d5 * p1 + d6 * p0 * p1
            d_v = p0 * (d0 + d3 * p1 + d4 * p2 + d6 * p1 * p2) + p1 * (d1 + d5 * p2) + p2 * d2
            g0 = d0 + d3 * q1 + d4 * q2 + d6 * q1 * q2
            g1 = d1 + d3 * q0 + d5 * q2 + d6 * q0 * q2
            g2 = d2 + d4 * q0 + d5 * q1 + d6 * q0 * q1
            d_u = q0 * g0 + q1 * (d1 + d5 * q2) + q2 * d2
            tl.store(d_gates + gate + 5 * H, e2 * v * p2 * (1 - p2), mask=real)
            tl.store(d_gates + gate + 8 * H, g2 * u * q2 * (1 - q2), mask=real)
        else:
            d2 = d2 - d0 - d1
            e0 = d0 + d2 * p1
            e1 = d1 + d2 * p0
            d_v = p0 * e0 + p1 * d1
            g0 = d0 + d2 * q1
            g1 = d1 + d2 * q0
            d_u = q0 * g0 + q1 * d1
        tl.store(d_gates + gate + 3 * H, e0 * v * p0 * (1 - p0), mask=real)
        tl.store(d_gates + gate + 4 * H, e1 * v * p1 * (1 - p1), mask=real)
        tl.store(d_gates + gate + (3 + N) * H, g0 * u * q0 * (1 - q0), mask=real)
        tl.store(d_gates + gate + (4 + N) * H, g1 * u * q1 * (1 - q1), mask=real)
        tl.store(d_gates + gate, d_v * before * f * (1 - f), mask=real)
        tl.store(d_gates + gate + 2 * H, d_u * (1 - u * u), mask=real)
        d_cell = d_v * f
        tl.debug_barrier()
        d_state = tl.zeros((TILE, HP), dtype=tl.float32)
        for k in tl.range(0, NG * H, BK2, num_stages=S2):
            inner = k + tl.arange(0, BK2)
            real_k = inner < NG * H
            d = tl.load(
                d_gates + at[:, None] * (NG * H) + inner[None, :], mask=real_row[:, None] & real_k[None, :], other=0.0
            )
            w = tl.load(
                recurrent_t + inner[:, None] * H + col[None, :], mask=real_k[:, None] & real_col[None, :], other=0.0
            )
            d_state = tl.dot(d.to(recurrent_t.dtype.element_ty), w, d_state, input_precision=PRECISION)
        tl.debug_barrier()


def covers(projected: Tensor, hidden: int, n_tasks: int) -> bool:
    """Whether the kernels run this: two or three tasks, up to 256 hidden units."""
    return n_tasks in (2, 3) and 0 < hidden <= 256 and projected.shape[0] > 0 and projected.shape[1] > 0


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
        hidden, n_sets = recurrent.shape[0], 2**n_tasks - 1
        projected = projected.contiguous()
        kind = projected.dtype
        save = any(ctx.needs_input_grad)
        memories: Tensor = bias.new_zeros(batch, length, n_sets, hidden)
        states = bias.new_zeros(batch, length, hidden)
        gates = bias.new_empty(projected.shape if save else (1,))
        cells = bias.new_empty((batch, length, hidden) if save else (1,))
        # Half precision keeps as many digits as tf32 does, in half the space; states and memories stay in range.
        operand = torch.float16 if precision == "tf32" else torch.float32
        weights = recurrent.to(operand).contiguous(), cell_weight.to(operand).contiguous()
        grid = (triton.cdiv(batch, TILE),)
        _forward_kernel[grid](
            projected, *weights, bias.contiguous(), lengths, gates, cells, memories, states, batch, length,
            H=hidden, N=n_tasks, SAVE=save, PRECISION=precision, **_shape(hidden),
        )  # fmt: skip
        if save:
            ctx.save_for_backward(recurrent, cell_weight, lengths, gates, cells, memories, states)
            ctx.settings = n_tasks, precision, kind
        return memories

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, cell_weight, lengths, gates, cells, memories, states = ctx.saved_tensors
        n_tasks, precision, kind = ctx.settings
        batch, length, _, hidden = memories.shape
        d_gates = torch.zeros_like(gates)
        d_cells = torch.zeros_like(cells)
        grid = (triton.cdiv(batch, TILE),)
        _backward_kernel[grid](
            grads[0].contiguous(), recurrent.t().contiguous(), cell_weight.t().contiguous(),
            lengths, gates, cells, d_gates, d_cells, batch, length,
            H=hidden, N=n_tasks, PRECISION=precision, **_shape(hidden),
        )  # fmt: skip
        # The state before a word is that of the word before it; before the first one it is zero.
        earlier = states[:, :-1].reshape(batch * (length - 1), hidden)
        d_recurrent = earlier.t() @ d_gates[:, 1:].reshape(batch * (length - 1), gates.shape[-1])
        d_weight = memories.view(batch * length, -1).t() @ d_cells.view(batch * length, hidden)
        return d_gates.to(kind), d_recurrent, d_weight, d_cells.sum((0, 1)), None, None, None


def _shape(hidden: int) -> dict[str, int]:
    """Tile sizes and launch options by width: what was fastest on an H200 (docs/adr/0006)."""
    padded = max(16, triton.next_power_of_2(hidden))
    return {"HP": padded, "TILE": TILE, "BK": 16, "BK2": 64, "S1": 2, "S2": 3, "num_warps": 8}
