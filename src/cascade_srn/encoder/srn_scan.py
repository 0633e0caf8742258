"""The recurrent part of the SRN over all time steps, in few operations, with its own backward pass.

The gates of all task sets are polynomials in the master gates ρ. Written as monomials (one product ρ_S for each
set S of tasks), every gate is a fixed linear combination of them: a shared gate is its own monomial, and an
independent gate is the paper's inclusion–exclusion. So is every memory, of what the monomials select. The scan
therefore runs in monomials, with the cell's linear map (eq. 8) combined to match, and turns them into memories
once, for all time steps together, at the end.

``tests/encoder/test_srn_scan.py`` holds it against :func:`cascade_srn.encoder.srn_plain.srn_scan`, the plain loop.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cascade_srn.encoder.selection import task_sets


def monomials_to_gates(n_tasks: int, like: Tensor) -> Tensor:
    """The matrix that turns monomials into gates (and into memories): (n_sets, n_sets), rows are gates."""
    sets = task_sets(n_tasks)
    rows = [[_share(gate, monomial) for monomial in sets] for gate in sets]
    return torch.tensor(rows, dtype=like.dtype, device=like.device)


def _share(gate: tuple[int, ...], monomial: tuple[int, ...]) -> float:
    """How much of a monomial is in a gate: inclusion–exclusion for one task (eq. 5), itself for more (eq. 4)."""
    if len(gate) > 1:
        return float(gate == monomial)
    return float((-1) ** (len(monomial) - 1)) if gate[0] in monomial else 0.0


def factors(n_tasks: int) -> list[tuple[int, int, int]]:
    """How each monomial of two or more tasks is made: (itself, the monomial without its last task, that task)."""
    sets = task_sets(n_tasks)
    at = {members: i for i, members in enumerate(sets)}
    return [(at[s], at[s[:-1]], s[-1]) for s in sets if len(s) > 1]


def fused_srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int
) -> Tensor:
    """Same as :func:`cascade_srn.encoder.srn_plain.srn_scan`, in fewer operations.

    Shapes:
        projected: (batch, length, (3 + 2 * n_tasks) * hidden)
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,)
        returns: (batch, length, n_sets, hidden)
    """
    hidden = recurrent_weight.shape[0]
    n_sets = len(task_sets(n_tasks))
    to_gates = monomials_to_gates(n_tasks, recurrent_weight)
    # memories = to_gates · selected, and c = cell_weight · memories: one weight for both.
    combined = torch.einsum("gm,ghk->mhk", to_gates, cell_weight.view(n_sets, hidden, hidden)).flatten(0, 1)
    selected: Tensor = _Scan.apply(projected, recurrent_weight, combined, cell_bias, n_tasks)
    return torch.einsum("gm,tbmh->btgh", to_gates, selected)


class _Scan(torch.autograd.Function):
    """Selected monomials of all time steps, time first."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, recurrent: Tensor, combined: Tensor, bias: Tensor, n_tasks: int) -> Tensor:
        batch, length, _ = projected.shape
        hidden, n_sets = recurrent.shape[0], combined.shape[0] // recurrent.shape[0]
        gates = projected.transpose(0, 1).contiguous()  # (length, batch, gates); filled in place
        if gates.data_ptr() == projected.data_ptr():
            gates = gates.clone()
        cells = gates.new_zeros(length + 1, batch, hidden)
        states = gates.new_zeros(length + 1, batch, hidden)
        squashed = gates.new_empty(length, batch, hidden)  # tanh(c)
        values = gates.new_empty(length, batch, 2, hidden)  # c̃ and ĉ
        selected = gates.new_empty(length, batch, n_sets, hidden)
        products = gates.new_empty(2, batch, n_sets, hidden)
        steps = factors(n_tasks)
        for t in range(length):
            gate, value = gates[t], values[t]
            gate.addmm_(states[t], recurrent)
            gate[:, : 2 * hidden].sigmoid_()
            gate[:, 3 * hidden :].sigmoid_()
            torch.tanh(gate[:, 2 * hidden : 3 * hidden], out=value[:, 1])
            torch.mul(gate[:, :hidden], cells[t], out=value[:, 0])
            masters = gate[:, 3 * hidden :].view(batch, 2, n_tasks, hidden).transpose(0, 1)
            _monomials(masters, steps, products)
            torch.mul(products[0], value[:, 0, None], out=selected[t])
            selected[t].addcmul_(products[1], value[:, 1, None])
            torch.addmm(bias, selected[t].flatten(1), combined, out=cells[t + 1])
            torch.tanh(cells[t + 1], out=squashed[t])
            torch.mul(gate[:, hidden : 2 * hidden], squashed[t], out=states[t + 1])
        ctx.n_tasks = n_tasks
        ctx.save_for_backward(gates, cells, states, squashed, values, selected, recurrent, combined)
        return selected

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, states, squashed, values, selected, recurrent, combined = ctx.saved_tensors
        d_selected = grads[0].contiguous().clone()
        length, batch, n_sets, hidden = selected.shape
        n_tasks: int = ctx.n_tasks
        # Everything that does not wait for the step after it is made for all steps at once.
        forget, output = gates[..., :hidden], gates[..., hidden : 2 * hidden]
        masters = gates[..., 3 * hidden :].view(length, batch, 2, n_tasks, hidden)
        products = _monomials(masters, factors(n_tasks))
        through_tanh = output * (1 - squashed * squashed)
        slope = masters * (1 - masters)
        d_gates = torch.empty_like(gates)
        d_masters = d_gates[..., 3 * hidden :].view(length, batch, 2, n_tasks, hidden)
        slope_forget = forget * (1 - forget) * cells[:-1]
        slope_output = output * (1 - output) * squashed
        slope_candidate = 1 - values[:, :, 1].square()
        d_cells = torch.empty_like(squashed)
        d_state = gates.new_zeros(batch, hidden)
        d_cell = gates.new_zeros(batch, hidden)
        recurrent_t, combined_t = recurrent.t().contiguous(), combined.t().contiguous()
        supersets = _supersets(n_tasks)
        for t in range(length - 1, -1, -1):
            d_cell.addcmul_(d_state, through_tanh[t])
            d_cells[t] = d_cell
            torch.mul(d_state, slope_output[t], out=d_gates[t, :, hidden : 2 * hidden])
            d_chosen = (
                d_selected[t].view(batch, n_sets * hidden).addmm_(d_cell, combined_t).view(batch, 1, n_sets, hidden)
            )
            d_value = (d_chosen * products[t]).sum(2)
            d_product = d_chosen * values[t][:, :, None]
            for task, (alone, others) in enumerate(supersets):
                d_master = d_master_of(d_product, products[t], alone, others)
                torch.mul(d_master, slope[t, :, :, task], out=d_masters[t, :, :, task])
            torch.mul(d_value[:, 0], slope_forget[t], out=d_gates[t, :, :hidden])
            torch.mul(d_value[:, 1], slope_candidate[t], out=d_gates[t, :, 2 * hidden : 3 * hidden])
            d_cell = d_value[:, 0] * forget[t]
            d_state = d_gates[t] @ recurrent_t
        flat = d_gates.flatten(0, 1)
        d_recurrent = states[:-1].reshape(length * batch, hidden).t() @ flat
        d_combined = selected.view(length * batch, n_sets * hidden).t() @ d_cells.view(length * batch, hidden)
        return d_gates.transpose(0, 1), d_recurrent, d_combined, d_cells.sum((0, 1)), None


def _monomials(masters: Tensor, steps: list[tuple[int, int, int]], out: Tensor | None = None) -> Tensor:
    """Products of master gates. Shapes: masters (…, n_tasks, hidden); returns (…, n_sets, hidden)."""
    n_tasks = masters.shape[-2]
    if out is None:
        out = masters.new_empty(*masters.shape[:-2], 2**n_tasks - 1, masters.shape[-1])
    out[..., :n_tasks, :] = masters
    for product, shorter, task in steps:
        torch.mul(out[..., shorter, :], masters[..., task, :], out=out[..., product, :])
    return out


def _supersets(n_tasks: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """For each task: its own monomial, and (monomial with it, that monomial without it) for the others."""
    sets = task_sets(n_tasks)
    at = {members: i for i, members in enumerate(sets)}
    found = []
    for task in range(n_tasks):
        larger = [s for s in sets if task in s and len(s) > 1]
        found.append((at[(task,)], [(at[s], at[tuple(u for u in s if u != task)]) for s in larger]))
    return found


def d_master_of(d_product: Tensor, products: Tensor, alone: int, others: list[tuple[int, int]]) -> Tensor:
    """The gradient of one master gate. Shapes: (batch, 2, n_sets, hidden) both; returns (batch, 2, hidden)."""
    gradient = d_product[:, :, alone].clone()
    for with_it, without_it in others:
        gradient.addcmul_(d_product[:, :, with_it], products[:, :, without_it])
    return gradient
