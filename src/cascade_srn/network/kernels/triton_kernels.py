"""The Triton kernels of the SRN's forward and backward pass, over all time steps. Numbers are the paper's equations."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def tanh(x):  # type: ignore[no-untyped-def]
    """Compute the hyperbolic tangent, which Triton lacks."""
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _wait_for(counter, target):  # type: ignore[no-untyped-def]
    """Wait until all programs of a tile have finished a step."""
    while tl.atomic_add(counter, 0, sem="acquire") < target:
        pass
    tl.debug_barrier()


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _store_set(features, memories, at, memory, inside, real, SAVE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store the features of one task set, (10), zero at padding, and with ``SAVE`` its memories."""
    tl.store(features + at, tl.where(inside, tanh(memory), 0.0), mask=real)
    if SAVE:
        tl.store(memories + at, memory, mask=real)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def pack_kernel(  # type: ignore[no-untyped-def]
    recurrent, cell_weight, by_unit, by_set, counters, n_counters,
    H: tl.constexpr, HP: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Order the weights as the forward kernel reads them, by hidden unit and then by gate or task set.

    The forward kernel joins memories to pairs, and pairs to pairs of pairs, which reverses the bits of the index of a
    set. This kernel also sets the counters of the forward kernel to zero.
    """
    NG: tl.constexpr = 3 + 2 * N
    SLOTS: tl.constexpr = 16 if N == 3 else 8
    SETS: tl.constexpr = 8 if N == 3 else 4
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(counters + at, tl.zeros((BLOCK,), dtype=tl.int32), mask=at < n_counters)
    slot = at % SLOTS
    unit = (at // SLOTS) % HP
    from_unit = at // (SLOTS * HP)
    real = (from_unit < H) & (unit < H) & (slot < NG)
    w = tl.load(recurrent + from_unit * (NG * H) + slot * H + unit, mask=real, other=0.0)
    tl.store(by_unit + at, w.to(by_unit.dtype.element_ty), mask=from_unit < HP)
    to_unit = at % HP
    reversed_set = (at // HP) % SETS
    unit = at // (HP * SETS)
    if N == 3:
        task_set = ((reversed_set & 1) << 2) | (reversed_set & 2) | (reversed_set >> 2)
    else:
        task_set = ((reversed_set & 1) << 1) | (reversed_set >> 1)
    real = (unit < H) & (to_unit < H) & (task_set < SETS - 1)
    v = tl.load(cell_weight + (task_set * H + unit) * H + to_unit, mask=real, other=0.0)
    tl.store(by_set + at, v.to(by_set.dtype.element_ty), mask=unit < HP)


@triton.jit(do_not_specialize=["batch", "length"])  # type: ignore[untyped-decorator, unused-ignore]
def forward_kernel(  # type: ignore[no-untyped-def]
    projected, recurrent, cell_weight, cell_bias, lengths, features, gates, cells, memories, states, shares,
    outputs, counters, batch, length,
    H: tl.constexpr, HP: tl.constexpr, PARTS: tl.constexpr, N: tl.constexpr, TILE: tl.constexpr,
    SAVE: tl.constexpr, PRECISION: tl.constexpr, BOUND: tl.constexpr,
):  # fmt: skip
    """Compute the features of all time steps of a tile. The arguments are those of ``triton_srn_scan``.

    With ``SAVE``, also store the tensors that the backward pass reads.
    """
    NG: tl.constexpr = 3 + 2 * N
    NS: tl.constexpr = 2**N - 1
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
    row_length = tl.load(lengths + row, mask=real_row, other=0)
    n_steps = tl.max(row_length)
    nothing = tl.zeros((TILE, HC), dtype=tl.float32)
    bias = tl.load(cell_bias + col, mask=col < H, other=0.0)
    bias_own = tl.load(cell_bias + own, mask=own < H, other=0.0)
    # The weights of this program are loaded once and stay on the chip.
    w = tl.load(recurrent + col[:, None] * (HP * SLOTS) + slots[None, :])
    v = tl.load(cell_weight + sets[:, None] * HP + col[None, :])
    kind = recurrent.dtype.element_ty
    # tanh(x) = 2 σ(2x) − 1, so that one σ serves all gates.
    double = tl.where(slot == 2, 2.0, 1.0)[None, None, :]
    # The programs of a tile exchange partial sums of c and output gates, in two alternating buffers.
    tile_shares = shares + tile * (2 * PARTS * TILE * HP)
    tile_outputs = outputs + tile * (2 * TILE * HP)
    everywhere = place[:, None] * HP + col[None, :]
    here = place[:, None] * HP + own[None, :]
    c = tl.zeros((TILE, HC), dtype=tl.float32)
    o = tl.zeros((TILE, HC), dtype=tl.float32)
    for t in range(0, n_steps):
        at = row.to(tl.int64) * length + t
        # Padding is not read, because it may hold any value, even NaN.
        within = t < row_length
        x = tl.load(
            projected + at[:, None, None] * (NG * H) + slot[None, None, :] * H + own[None, :, None],
            mask=real_x & within[:, None, None],
            other=0.0,
        ).to(tl.float32)
        if t > 0:
            _wait_for(counters + tile, PARTS * t)
            turn = (t - 1) % 2
            c_all = tl.zeros((TILE, HP), dtype=tl.float32) + bias[None, :]
            c = tl.zeros((TILE, HC), dtype=tl.float32) + bias_own[None, :]
            for p in tl.static_range(PARTS):
                c_all += tl.load(tile_shares + (turn * PARTS + p) * (TILE * HP) + everywhere, cache_modifier=".cg")
                c += tl.load(tile_shares + (turn * PARTS + p) * (TILE * HP) + here, cache_modifier=".cg")
            c = tl.minimum(tl.maximum(c, -BOUND), BOUND)
            h = tl.load(tile_outputs + turn * (TILE * HP) + everywhere, cache_modifier=".cg") * tanh(c_all)  # (9)
            if SAVE:
                before = (at[:, None] - 1) * H + own[None, :]
                tl.store(cells + before, c, mask=real)
                tl.store(states + before, o * tanh(c), mask=real)
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
            second = tl.join(tl.join(s4, s5), tl.join(s6, nothing))
            memory = tl.reshape(tl.join(first, second), (TILE, HC * SETS))
        else:
            s0 = p0 * (1 - p1) * x_old + q0 * (1 - q1) * u
            s1 = p1 * (1 - p0) * x_old + q1 * (1 - q0) * u
            s2 = p0 * p1 * x_old + q0 * q1 * u
            memory = tl.reshape(tl.join(tl.join(s0, s1), tl.join(s2, nothing)), (TILE, HC * SETS))
        # Only a diverging model reaches the limits of half precision. Clamping keeps it finite.
        clamped = tl.minimum(tl.maximum(memory, -60000.0), 60000.0).to(kind)
        share = tl.dot(clamped, v, input_precision=PRECISION)  # this program's partial sum of (8)
        tl.store(tile_shares + ((t % 2) * PARTS + part) * (TILE * HP) + everywhere, share)
        tl.store(tile_outputs + (t % 2) * (TILE * HP) + here, o)
        tl.debug_barrier()
        tl.atomic_add(counters + tile, 1, sem="release")
        # No other program waits for the remaining stores.
        by_set = at[:, None] * (NS * H) + own[None, :]
        inside = within[:, None]
        _store_set(features, memories, by_set, s0, inside, real, SAVE)
        _store_set(features, memories, by_set + H, s1, inside, real, SAVE)
        _store_set(features, memories, by_set + 2 * H, s2, inside, real, SAVE)
        if N == 3:
            _store_set(features, memories, by_set + 3 * H, s3, inside, real, SAVE)
            _store_set(features, memories, by_set + 4 * H, s4, inside, real, SAVE)
            _store_set(features, memories, by_set + 5 * H, s5, inside, real, SAVE)
            _store_set(features, memories, by_set + 6 * H, s6, inside, real, SAVE)
        if SAVE:
            by_gate = at[:, None, None] * (SLOTS * H) + slot[None, None, :] * H + own[None, :, None]
            tl.store(gates + by_gate, y, mask=real_x)
    # After the longest row of the tile, there is only padding.
    for t in range(n_steps, length):
        at = row.to(tl.int64) * length + t
        for s in tl.static_range(NS):
            _store_set(features, memories, at[:, None] * (NS * H) + s * H + own[None, :], nothing, real, real, SAVE)
        if SAVE:
            tl.store(states + at[:, None] * H + own[None, :], nothing, mask=real)
    if SAVE:  # noqa: SIM102 (a compile-time condition)
        if n_steps > 0:
            _wait_for(counters + tile, PARTS * n_steps)
            last = row.to(tl.int64)[:, None] * (length * H) + (n_steps - 1) * H + own[None, :]
            c = tl.zeros((TILE, HC), dtype=tl.float32) + bias_own[None, :]
            last_shares = tile_shares + ((n_steps - 1) % 2) * PARTS * (TILE * HP)
            for p in tl.static_range(PARTS):
                c += tl.load(last_shares + p * (TILE * HP) + here, cache_modifier=".cg")
            c = tl.minimum(tl.maximum(c, -BOUND), BOUND)
            tl.store(cells + last, c, mask=real)
            tl.store(states + last, o * tanh(c), mask=real)


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
