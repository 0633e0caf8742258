"""The recurrent part of the SRN in few operations, on packed sequences.

The gates of all task sets are polynomials in the master gates ρ. Every gate is a fixed linear combination of monomials,
with one product ρ_S for each set S of tasks: a shared gate is its monomial, and an independent gate is the paper's
inclusion–exclusion. The memories are the same combinations of the values that the monomials select. The scan therefore
computes with monomials and a cell weight (eq. 8) that is combined accordingly. It converts them to memories at the end,
for all time steps together.

:func:`fused_srn_scan` has its own backward pass. :func:`inference_srn_scan` is for CPUs without gradients: at the size
of a few sentences, the work of a step takes less time than its calls, so that it has 12 of them instead of about 40.

``tests/network/kernels/test_fused.py`` compares both with the plain loop in :mod:`.reference`.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cascade_srn.network.kernels import CELL_BOUND, gate_coefficients, monomials


class Packing:
    """The positions of a padded batch that are not padding, by step and then longest row first.

    In this order, the rows that continue after a step are the first rows of that step.

    Attributes:
        counts: Number of rows that have a first item, a second item, and so on.
        positions: (n_real,), flat positions in (batch × length).
    """

    def __init__(self, lengths: Tensor, length: int) -> None:
        self.shape = (lengths.shape[0], length)
        if lengths.shape[0] == 1:
            # One sequence is in order already.
            self.counts: list[int] = [1] * int(lengths[0])
            self.positions = torch.arange(len(self.counts), device=lengths.device)
            return
        order = lengths.argsort(descending=True, stable=True)
        step = torch.arange(length, device=lengths.device)[:, None]
        real = lengths[order] > step
        self.counts = [n for n in real.sum(1).tolist() if n]
        self.positions = (order * length + step)[real]

    def pack(self, values: Tensor) -> Tensor:
        """Select the positions that are not padding. Shapes: (batch, length, …) to (n_real, …)."""
        return values.flatten(0, 1).index_select(0, self.positions)

    def unpack(self, packed: Tensor) -> Tensor:
        """Restore the padded batch, with zeros at padding. Shapes: (n_real, …) to (batch, length, …)."""
        batch, length = self.shape
        flat = packed.new_zeros(batch * length, *packed.shape[1:]).index_copy(0, self.positions, packed)
        padded: Tensor = flat.unflatten(0, self.shape)
        return padded

    def spread(self, packed: Tensor) -> Tensor:
        """Restore the padded batch from rows and a last row for padding. It is faster than :meth:`unpack`.

        Shapes: (n_real + 1, …) to (batch, length, …)
        """
        batch, length = self.shape
        n_real = self.positions.shape[0]
        if batch == 1 and n_real == length:
            return packed[None, :n_real]
        rows = torch.full((batch * length,), n_real, device=packed.device)
        rows[self.positions] = torch.arange(n_real, device=packed.device)
        padded: Tensor = packed.index_select(0, rows).unflatten(0, self.shape)
        return padded


def fused_features(
    inputs: Tensor,
    lengths: Tensor,
    project: Callable[[Tensor], Tensor],
    weights: tuple[Tensor, Tensor, Tensor],
    n_tasks: int,
) -> Tensor:
    """Compute :func:`.reference.plain_features`."""
    packing = Packing(lengths, inputs.shape[1])
    projected = project(packing.pack(inputs))
    with torch.autocast(inputs.device.type, enabled=False):
        projected = projected.to(weights[0].dtype)
        if torch.is_grad_enabled() or inputs.device.type != "cpu":
            return packing.unpack(fused_srn_scan(projected, *weights, n_tasks, packing.counts).tanh())
        return packing.spread(inference_srn_scan(projected, *weights, n_tasks, packing.counts).tanh_())


def monomials_to_gates(n_tasks: int, like: Tensor) -> Tensor:
    """Return the matrix that converts monomials to gates, and to memories: (n_sets, n_sets), rows are gates."""
    return torch.tensor(gate_coefficients(n_tasks), dtype=like.dtype, device=like.device)


def fused_srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int, counts: list[int]
) -> Tensor:
    """Compute :func:`.reference.srn_scan` on packed sequences.

    ``counts`` is that of :class:`Packing`.

    Shapes:
        projected: (n_real, (3 + 2 * n_tasks) * hidden), overwritten
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,)
        returns: (n_real, n_sets, hidden)
    """
    hidden = recurrent_weight.shape[0]
    n_sets = 2**n_tasks - 1
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


def inference_srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int, counts: list[int]
) -> Tensor:
    """Compute :func:`.reference.srn_scan` on packed sequences, without gradients.

    ``counts`` is that of :class:`Packing`.

    Shapes:
        projected: (n_real, (3 + 2 * n_tasks) * hidden), may be overwritten
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,)
        returns: (n_real + 1, n_sets, hidden); the last row is zero, for padding
    """
    n_real, hidden, n_sets = projected.shape[0], recurrent_weight.shape[0], 2**n_tasks - 1
    to_gates = _conversion(n_tasks, projected.dtype, projected.device)
    # memories = to_gates · selected and c = cell_weight · memories, combined in one weight.
    combined = (to_gates.t() @ cell_weight.view(n_sets, -1)).view(n_sets * hidden, hidden)
    selected = projected.new_empty(n_real + 1, n_sets * hidden)
    selected[n_real] = 0
    if not _select(projected, recurrent_weight, combined, cell_bias, n_tasks, counts, selected):
        memories = fused_srn_scan(projected, recurrent_weight, cell_weight, cell_bias, n_tasks, counts)
        return torch.cat((memories, memories.new_zeros(1, n_sets, hidden)))
    return to_gates @ selected.view(n_real + 1, n_sets, hidden)


def _select(
    projected: Tensor, recurrent: Tensor, combined: Tensor, bias: Tensor, n_tasks: int, counts: list[int], out: Tensor
) -> bool:
    """Compute the selected monomials of all steps. Return False if a cell state has to be clamped, which is rare.

    Shapes: as above; combined (n_sets * hidden, hidden), out (n_real + 1, n_sets * hidden)
    """
    hidden, n_most, n = recurrent.shape[0], counts[0] if counts else 0, -1
    cells = projected.new_empty(projected.shape[0], hidden)
    gates = projected.new_empty(n_most, projected.shape[1])
    values = projected.new_empty(2, n_most, 2**n_tasks, hidden)
    states, last_cells = projected.new_zeros(n_most, hidden), projected.new_zeros(n_most, hidden)
    squashed = projected.new_empty(n_most, hidden)
    mul, tanh, addmm = torch.mul, torch.tanh, torch.addmm
    for inputs, chosen, cell in zip(
        projected.split(counts), out.split([*counts, 1]), cells.split(counts), strict=False
    ):
        if inputs.shape[0] != n:
            n = inputs.shape[0]
            gate, state, squash, last_cells = gates[:n], states[:n], squashed[:n], last_cells[:n]
            forget, output, candidate = (gate[:, at * hidden : (at + 1) * hidden] for at in range(3))
            masters = gate[:, 3 * hidden :].view(n, 2, n_tasks, 1, hidden).transpose(0, 1).unbind(2)
            grown = values[:, :n]
            # For each task: its master gates, the values without it, and the values with it.
            products = [(masters[t], grown[:, :, : 2**t], grown[:, :, 2**t : 2 ** (t + 1)]) for t in range(n_tasks)]
            old, new = grown[:, :, 0]
            of_history, of_candidate = (each[:, 1:].flatten(1) for each in grown)
        addmm(inputs, state, recurrent, out=gate)
        tanh(candidate, out=new)
        # The gates of the candidate are not used below, and one call for all is faster than two.
        gate.sigmoid_()
        mul(forget, last_cells, out=old)
        for master, without, with_it in products:
            mul(without, master, out=with_it)
        torch.add(of_history, of_candidate, out=chosen)
        addmm(bias, chosen, combined, out=cell)
        tanh(cell, out=squash)
        mul(output, squash, out=state)
        last_cells = cell
    # NaN is not below the bound either.
    return not counts or bool(cells.abs().amax() < CELL_BOUND)


@cache
def _conversion(n_tasks: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    # Tensors that are made in inference mode could not be used outside of it.
    with torch.inference_mode(False):
        return monomials_to_gates(n_tasks, torch.empty(0, dtype=dtype, device=device))
