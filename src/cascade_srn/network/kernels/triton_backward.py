"""The Triton kernel of the SRN's backward pass, over all time steps."""

from __future__ import annotations

import triton
import triton.language as tl

from cascade_srn.network.kernels.triton_forward import tanh


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _d_memory(d_features, features, at, inside):  # type: ignore[no-untyped-def]
    """Compute the gradient of one task set's memories through the tanh of (10). It is zero at padding."""
    feature = tl.load(features + at, mask=inside, other=0.0)
    return tl.load(d_features + at, mask=inside, other=0.0).to(tl.float32) * (1 - feature * feature)


@triton.jit(do_not_specialize=["batch", "length"])  # type: ignore[untyped-decorator, unused-ignore]
def backward_kernel(  # type: ignore[no-untyped-def]
    d_features, features, recurrent_t, cell_weight_t, lengths, gates, cells, d_gates, d_cells, batch, length,
    H: tl.constexpr, HP: tl.constexpr, N: tl.constexpr, TILE: tl.constexpr, BK: tl.constexpr, BK2: tl.constexpr,
    S1: tl.constexpr, S2: tl.constexpr, PRECISION: tl.constexpr, BOUND: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of gates and cells of all time steps of a tile, last step first."""
    NG: tl.constexpr = 3 + 2 * N
    NS: tl.constexpr = 2**N - 1
    SLOTS: tl.constexpr = 16 if N == 3 else 8
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    col = tl.arange(0, HP)
    real_row = row < batch
    real_col = col < H
    real = real_row[:, None] & real_col[None, :]
    row_length = tl.load(lengths + row, mask=real_row, other=0)
    n_steps = tl.max(row_length)
    nothing = tl.zeros((TILE, HP), dtype=tl.float32)
    # After the longest row of the tile, there is only padding.
    for t in range(n_steps, length):
        at = row.to(tl.int64) * length + t
        tl.store(d_cells + at[:, None] * H + col[None, :], nothing, mask=real)
        for g in tl.static_range(NG):
            tl.store(d_gates + at[:, None] * (NG * H) + g * H + col[None, :], nothing, mask=real)
    d_state = tl.zeros((TILE, HP), dtype=tl.float32)
    d_cell = tl.zeros((TILE, HP), dtype=tl.float32)
    for back in range(0, n_steps):
        t = n_steps - 1 - back
        at = row.to(tl.int64) * length + t
        own = at[:, None] * H + col[None, :]
        gate = at[:, None] * (NG * H) + col[None, :]
        slot = at[:, None] * (SLOTS * H) + col[None, :]
        c = tl.load(cells + own, mask=real, other=0.0)
        tanh_c = tanh(c)
        o = tl.load(gates + slot + H, mask=real, other=0.0)
        tl.store(d_gates + gate + H, d_state * tanh_c * o * (1 - o), mask=real)
        # Clamped cells have no gradient.
        d_cell = tl.where(tl.abs(c) < BOUND, d_cell + d_state * o * (1 - tanh_c * tanh_c), 0.0)
        tl.store(d_cells + own, d_cell, mask=real)
        tl.debug_barrier()
        by_set = at[:, None] * (NS * H) + col[None, :]
        inside = real & (t < row_length)[:, None]
        d0 = _d_memory(d_features, features, by_set, inside)
        d1 = _d_memory(d_features, features, by_set + H, inside)
        d2 = _d_memory(d_features, features, by_set + 2 * H, inside)
        if N == 3:
            d3 = _d_memory(d_features, features, by_set + 3 * H, inside)
            d4 = _d_memory(d_features, features, by_set + 4 * H, inside)
            d5 = _d_memory(d_features, features, by_set + 5 * H, inside)
            d6 = _d_memory(d_features, features, by_set + 6 * H, inside)
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
