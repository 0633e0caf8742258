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
import triton.language as tl
from torch import Tensor

# Rows of the batch that one program runs: the fewest that the matrix units take.
TILE = 16


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _arrived(counter, wanted):  # type: ignore[no-untyped-def]
    """Wait until all programs of a tile have finished a step."""
    while tl.atomic_add(counter, 0, sem="acquire") < wanted:
        pass
    tl.debug_barrier()


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
    shares,
    outputs,
    counters,
    batch,
    length,
    H: tl.constexpr,
    HP: tl.constexpr,
    PARTS: tl.constexpr,
    N: tl.constexpr,
    TILE: tl.constexpr,
    SAVE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    NG: tl.constexpr = 3 + 2 * N
    SLOTS: tl.constexpr = 16 if N == 3 else 8
    SETS: tl.constexpr = 8 if N == 3 else 4
    HC: tl.constexpr = HP // PARTS
    tile = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    place = tl.arange(0, TILE)
    row = tile * TILE + place
    col = tl.arange(0, HP)
    own = part * HC + tl.arange(0, HC)
    slot = tl.arange(0, SLOTS)
    slots = part * (HC * SLOTS) + tl.arange(0, HC * SLOTS)
    sets = part * (HC * SETS) + tl.arange(0, HC * SETS)
    real_row = row < batch
    real = real_row[:, None] & (own < H)[None, :]
    real_x = real[:, :, None] & (slot < NG)[None, None, :]
    n_steps = tl.max(tl.load(lengths + row, mask=real_row, other=0))
    bias = tl.load(cell_bias + col, mask=col < H, other=0.0)
    bias_own = tl.load(cell_bias + own, mask=own < H, other=0.0)
    # This program's share of the weights is read once, and stays.
    w = tl.load(recurrent + col[:, None] * (HP * SLOTS) + slots[None, :])
    v = tl.load(cell_weight + sets[:, None] * HP + col[None, :])
    kind = recurrent.dtype.element_ty
    # tanh(x) is 2 σ(2x) − 1, so that one σ does for all gates.
    double = tl.where(slot == 2, 2.0, 1.0)[None, None, :]
    # What the programs of a tile tell each other, for two steps in turn: shares of c, and output gates.
    told = shares + tile * (2 * PARTS * TILE * HP)
    told_o = outputs + tile * (2 * TILE * HP)
    everywhere = place[:, None] * HP + col[None, :]
    here = place[:, None] * HP + own[None, :]
    c = tl.zeros((TILE, HC), dtype=tl.float32)
    o = tl.zeros((TILE, HC), dtype=tl.float32)
    for t in range(0, n_steps):
        at = row.to(tl.int64) * length + t
        x = tl.load(
            projected + at[:, None, None] * (NG * H) + slot[None, None, :] * H + own[None, :, None],
            mask=real_x,
            other=0.0,
        ).to(tl.float32)
        if t > 0:
            _arrived(counters + tile, PARTS * t)
            turn = (t - 1) % 2
            c_all = tl.zeros((TILE, HP), dtype=tl.float32) + bias[None, :]
            c = tl.zeros((TILE, HC), dtype=tl.float32) + bias_own[None, :]
            for p in tl.static_range(PARTS):
                c_all += tl.load(told + (turn * PARTS + p) * (TILE * HP) + everywhere, cache_modifier=".cg")
                c += tl.load(told + (turn * PARTS + p) * (TILE * HP) + here, cache_modifier=".cg")
            h = tl.load(told_o + turn * (TILE * HP) + everywhere, cache_modifier=".cg") * _tanh(c_all)  # (9)
            if SAVE:
                before = (at[:, None] - 1) * H + own[None, :]
                tl.store(cells + before, c, mask=real)
                tl.store(states + before, o * _tanh(c), mask=real)
            x += tl.reshape(tl.dot(h.to(kind), w, input_precision=PRECISION), (TILE, HC, SLOTS))
        y = tl.sigmoid(x * double)  # (1), (3)
        even, odd = tl.split(tl.reshape(y, (TILE, HC, SLOTS // 2, 2)))
        ee, eo = tl.split(tl.reshape(even, (TILE, HC, SLOTS // 4, 2)))
        oe, oo = tl.split(tl.reshape(odd, (TILE, HC, SLOTS // 4, 2)))
        if N == 3:
            eee, eeo = tl.split(tl.reshape(ee, (TILE, HC, 2, 2)))
            eoe, eoo = tl.split(tl.reshape(eo, (TILE, HC, 2, 2)))
            oee, oeo = tl.split(tl.reshape(oe, (TILE, HC, 2, 2)))
            ooe, ooo = tl.split(tl.reshape(oo, (TILE, HC, 2, 2)))
            f, q2 = tl.split(eee)
            p1, _unused = tl.split(eeo)
            u, _unused = tl.split(eoe)
            q0, _unused = tl.split(eoo)
            o, _unused = tl.split(oee)
            p2, _unused = tl.split(oeo)
            p0, _unused = tl.split(ooe)
            q1, _unused = tl.split(ooo)
        else:
            f, p1 = tl.split(ee)
            u, q1 = tl.split(eo)
            o, q0 = tl.split(oe)
            p0, _unused = tl.split(oo)
        u = 2 * u - 1
        x_old = f * c  # (2)
        # (4) to (7)
        if N == 3:
            s0 = p0 * (1 - p1) * (1 - p2) * x_old + q0 * (1 - q1) * (1 - q2) * u  # e
            s1 = p1 * (1 - p0) * (1 - p2) * x_old + q1 * (1 - q0) * (1 - q2) * u  # s
            s2 = p2 * (1 - p0) * (1 - p1) * x_old + q2 * (1 - q0) * (1 - q1) * u  # o
            s3 = p0 * p1 * x_old + q0 * q1 * u  # es
            s4 = p0 * p2 * x_old + q0 * q2 * u  # eo
            s5 = p1 * p2 * x_old + q1 * q2 * u  # so
            s6 = p0 * p1 * p2 * x_old + q0 * q1 * q2 * u  # eso
            first = tl.join(tl.join(s0, s1), tl.join(s2, s3))
            second = tl.join(tl.join(s4, s5), tl.join(s6, tl.zeros((TILE, HC), dtype=tl.float32)))
            memory = tl.reshape(tl.join(first, second), (TILE, HC * SETS))
        else:
            s0 = p0 * (1 - p1) * x_old + q0 * (1 - q1) * u
            s1 = p1 * (1 - p0) * x_old + q1 * (1 - q0) * u
            s2 = p0 * p1 * x_old + q0 * q1 * u
            nothing = tl.zeros((TILE, HC), dtype=tl.float32)
            memory = tl.reshape(tl.join(tl.join(s0, s1), tl.join(s2, nothing)), (TILE, HC * SETS))
        # Only a diverging model comes near the limits of half precision; it is held there, not made infinite.
        held = tl.minimum(tl.maximum(memory, -60000.0), 60000.0).to(kind)
        share = tl.dot(held, v, input_precision=PRECISION)  # this program's share of (8)
        tl.store(told + ((t % 2) * PARTS + part) * (TILE * HP) + everywhere, share)
        tl.store(told_o + (t % 2) * (TILE * HP) + here, o)
        tl.debug_barrier()
        tl.atomic_add(counters + tile, 1, sem="release")
        # The rest is for later, and written while the others catch up.
        real_s = real_row[:, None] & (sets < H * SETS)[None, :]
        tl.store(memories + at[:, None] * (H * SETS) + sets[None, :], memory, mask=real_s)
        if SAVE:
            by_gate = at[:, None, None] * (SLOTS * H) + slot[None, None, :] * H + own[None, :, None]
            tl.store(gates + by_gate, y, mask=real_x)
    if SAVE:  # noqa: SIM102 (this one is decided at compile time)
        if n_steps > 0:
            _arrived(counters + tile, PARTS * n_steps)
            last = row.to(tl.int64)[:, None] * (length * H) + (n_steps - 1) * H + own[None, :]
            c = tl.zeros((TILE, HC), dtype=tl.float32) + bias_own[None, :]
            for p in tl.static_range(PARTS):
                c += tl.load(told + (((n_steps - 1) % 2) * PARTS + p) * (TILE * HP) + here, cache_modifier=".cg")
            tl.store(cells + last, c, mask=real)


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
    SLOTS: tl.constexpr = 16 if N == 3 else 8
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
        slot = at[:, None] * (SLOTS * H) + col[None, :]
        tanh_c = _tanh(tl.load(cells + own, mask=real, other=0.0))
        o = tl.load(gates + slot + H, mask=real, other=0.0)
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
        f = tl.load(gates + slot, mask=real, other=0.0)
        u = 2 * tl.load(gates + slot + 2 * H, mask=real, other=0.5) - 1
        # The cell before the first word is zero.
        earlier = (tl.zeros((TILE, HP), dtype=tl.int32) + t) > 0
        before = tl.load(cells + own - H, mask=real & earlier, other=0.0)
        v = f * before
        p0 = tl.load(gates + slot + 3 * H, mask=real, other=0.0)
        p1 = tl.load(gates + slot + 4 * H, mask=real, other=0.0)
        q0 = tl.load(gates + slot + (3 + N) * H, mask=real, other=0.0)
        q1 = tl.load(gates + slot + (4 + N) * H, mask=real, other=0.0)
        if N == 3:
            # Coefficients of the monomials: the gates are linear in each master gate.
            d3 = d3 - d0 - d1
            d4 = d4 - d0 - d2
            d5 = d5 - d1 - d2
            d6 = d6 + d0 + d1 + d2
            p2 = tl.load(gates + slot + 5 * H, mask=real, other=0.0)
            q2 = tl.load(gates + slot + 8 * H, mask=real, other=0.0)
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
        _forward_kernel[(n_tiles * shape["PARTS"],)](
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
        _backward_kernel[grid](
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
