"""The recurrent part of the SRN in few operations, with its own backward pass.

The gates of all task sets are polynomials in the master gates ρ. Every gate is a fixed linear combination of monomials,
with one product ρ_S for each set S of tasks: a shared gate is its monomial, and an independent gate is the paper's
inclusion–exclusion. The memories are the same combinations of the values that the monomials select. The scan therefore
computes with monomials and a cell weight (eq. 8) that is combined accordingly. It converts them to memories at the end,
for all time steps together.

``tests/network/kernels/test_fused.py`` compares it with the plain loop in :mod:`.reference`.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cascade_srn.network.task_sets import CELL_BOUND, gate_coefficients, monomials, task_sets


def monomials_to_gates(n_tasks: int, like: Tensor) -> Tensor:
    """Return the matrix that converts monomials to gates, and to memories: (n_sets, n_sets), rows are gates."""
    return torch.tensor(gate_coefficients(n_tasks), dtype=like.dtype, device=like.device)


def fused_srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int, counts: list[int]
) -> Tensor:
    """Compute :func:`cascade_srn.encoder.srn_kernels.reference.srn_scan` on packed sequences.

    ``counts`` is that of :class:`~cascade_srn.network.kernels.reference.Packing`.

    Shapes:
        projected: (n_real, (3 + 2 * n_tasks) * hidden), overwritten
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,)
        returns: (n_real, n_sets, hidden)
    """
    hidden = recurrent_weight.shape[0]
    n_sets = len(task_sets(n_tasks))
    to_gates = monomials_to_gates(n_tasks, recurrent_weight)
    # memories = to_gates · selected and c = cell_weight · memories, combined in one weight.
    combined = torch.einsum("gm,ghk->mhk", to_gates, cell_weight.view(n_sets, hidden, hidden)).flatten(0, 1)
    selected: Tensor = _Scan.apply(projected, recurrent_weight, combined, cell_bias, n_tasks, counts)
    return to_gates @ selected


def _steps(counts: list[int]) -> Iterator[tuple[slice, slice]]:
    """Yield the rows of each step, and the rows of the same sequences in the previous step (none at the first)."""
    before = at = 0
    for n in counts:
        yield slice(at, at + n), slice(before, before + n if at else 0)
        before, at = at, at + n


class _Scan(torch.autograd.Function):
    """Compute the selected monomials of all time steps of packed sequences."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, recurrent: Tensor, combined: Tensor, bias: Tensor, n_tasks: int, counts: list[int]
    ) -> Tensor:
        n_real = projected.shape[0]
        hidden, n_sets = recurrent.shape[0], combined.shape[0] // recurrent.shape[0]
        gates = projected  # filled in place
        cells, states = (gates.new_empty(n_real, hidden) for _ in range(2))
        squashed = gates.new_empty(n_real, hidden)  # tanh(c)
        values = gates.new_empty(n_real, 2, hidden)  # c̃ and ĉ
        selected = gates.new_empty(n_real, n_sets, hidden)
        products = gates.new_empty(2, counts[0] if counts else 0, n_sets, hidden)
        for now, before in _steps(counts):
            gate, value, chosen, cell = gates[now], values[now], selected[now], cells[now]
            n = gate.shape[0]
            if now.start:
                gate.addmm_(states[before], recurrent)
            gate[:, : 2 * hidden].sigmoid_()
            gate[:, 3 * hidden :].sigmoid_()
            torch.tanh(gate[:, 2 * hidden : 3 * hidden], out=value[:, 1])
            if now.start:
                torch.mul(gate[:, :hidden], cells[before], out=value[:, 0])
            else:
                value[:, 0] = 0
            masters = gate[:, 3 * hidden :].view(n, 2, n_tasks, hidden).transpose(0, 1)
            history, candidate = _monomials(masters, products[:, :n])
            torch.mul(history, value[:, 0, None], out=chosen)
            chosen.addcmul_(candidate, value[:, 1, None])
            torch.addmm(bias, chosen.flatten(1), combined, out=cell)
            cell.clamp_(-CELL_BOUND, CELL_BOUND)
            torch.tanh(cell, out=squashed[now])
            torch.mul(gate[:, hidden : 2 * hidden], squashed[now], out=states[now])
        # Clamped cells have no gradient. They are rare.
        clamped = cells.abs() >= CELL_BOUND
        ctx.n_tasks, ctx.counts, ctx.any_clamped = n_tasks, counts, bool(clamped.any())
        ctx.save_for_backward(gates, states, squashed, values, selected, recurrent, combined, clamped)
        return selected

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gates, states, squashed, values, selected, recurrent, combined, clamped = ctx.saved_tensors
        d_selected = grads[0].contiguous().clone()
        n_real, n_sets, hidden = selected.shape
        n_tasks: int = ctx.n_tasks
        steps = list(_steps(ctx.counts))
        # Everything that does not depend on later steps is computed for all steps together.
        forget, output = gates[:, :hidden], gates[:, hidden : 2 * hidden]
        masters = gates[:, 3 * hidden :].view(n_real, 2, n_tasks, hidden)
        products = _monomials(masters, masters.new_empty(n_real, 2, n_sets, hidden))
        through_tanh = output * (1 - squashed * squashed)
        slope = masters * (1 - masters)
        # c̃ = f · c_{t−1}, so that the derivative by the logit of f is c̃ · (1 − f).
        slope_forget = values[:, 0] * (1 - forget)
        slope_output = output * (1 - output) * squashed
        slope_candidate = 1 - values[:, 1].square()
        d_gates = torch.empty_like(gates)
        d_masters = d_gates[:, 3 * hidden :].view(n_real, 2, n_tasks, hidden)
        d_cells = torch.empty_like(squashed)
        d_state, d_cell = (gates.new_zeros(ctx.counts[0] if steps else 0, hidden) for _ in range(2))
        recurrent_t, combined_t = recurrent.t().contiguous(), combined.t().contiguous()
        supersets = _supersets(n_tasks)
        for now, _ in reversed(steps):
            n = now.stop - now.start
            # Both are zero for sequences that end at this step.
            cell, state = d_cell[:n], d_state[:n]
            cell.addcmul_(state, through_tanh[now])
            if ctx.any_clamped:
                cell.masked_fill_(clamped[now], 0)
            d_cells[now] = cell
            torch.mul(state, slope_output[now], out=d_gates[now, hidden : 2 * hidden])
            d_chosen = d_selected[now].view(n, n_sets * hidden).addmm_(cell, combined_t).view(n, 1, n_sets, hidden)
            product = products[now]
            d_value = (d_chosen * product).sum(2)
            d_product = d_chosen * values[now][:, :, None]
            for task, (alone, others) in enumerate(supersets):
                d_master = _master_gradient(d_product, product, alone, others)
                torch.mul(d_master, slope[now, :, task], out=d_masters[now, :, task])
            torch.mul(d_value[:, 0], slope_forget[now], out=d_gates[now, :hidden])
            torch.mul(d_value[:, 1], slope_candidate[now], out=d_gates[now, 2 * hidden : 3 * hidden])
            torch.mul(d_value[:, 0], forget[now], out=cell)
            torch.mm(d_gates[now], recurrent_t, out=state)
        # The state before the first step is zero.
        earlier = torch.cat([states[:0], *(states[before] for _, before in steps)])
        d_recurrent = earlier.t() @ d_gates[n_real - earlier.shape[0] :]
        d_combined = selected.view(n_real, n_sets * hidden).t() @ d_cells
        return d_gates, d_recurrent, d_combined, d_cells.sum(0), None, None


def _monomials(masters: Tensor, out: Tensor) -> Tensor:
    """Compute the products of master gates. Shapes: masters (…, n_tasks, hidden); out, returns (…, n_sets, hidden)."""
    for task in range(masters.shape[-2]):
        before, gate = 2**task - 1, masters[..., task : task + 1, :]
        out[..., before : before + 1, :] = gate
        if before:
            torch.mul(out[..., :before, :], gate, out=out[..., before + 1 : 2 * before + 1, :])
    return out


def _supersets(n_tasks: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return for each task the index of its own monomial, and pairs (monomial with the task, the same without it)."""
    sets = monomials(n_tasks)
    index = {members: i for i, members in enumerate(sets)}
    supersets = []
    for task in range(n_tasks):
        larger = [s for s in sets if task in s and len(s) > 1]
        supersets.append((index[(task,)], [(index[s], index[tuple(u for u in s if u != task)]) for s in larger]))
    return supersets


def _master_gradient(d_product: Tensor, products: Tensor, alone: int, others: list[tuple[int, int]]) -> Tensor:
    """Compute the gradient of one master gate.

    Shapes: d_product, products (batch, 2, n_sets, hidden); returns (batch, 2, hidden)
    """
    gradient = d_product[:, :, alone].clone()
    for with_it, without_it in others:
        gradient.addcmul_(d_product[:, :, with_it], products[:, :, without_it])
    return gradient
