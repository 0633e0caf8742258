"""The recurrent part of the SRN without gradients, for CPUs.

At the size of a few sentences, the work of a step takes less time than its calls. This scan therefore has few of them,
on views that are made once: 12 calls per step for three tasks, where the scan for training in :mod:`.fused` has about
40 with its slices. The selected values grow by one product per task: the values of all sets without a task, times its
master gate, are the values of these sets with the task. The empty set has the value itself.

``tests/network/kernels/test_inference.py`` compares it with the plain loop in :mod:`.reference`.
"""

from functools import cache

import torch
from torch import Tensor

from cascade_srn.network.kernels.fused import fused_srn_scan, monomials_to_gates
from cascade_srn.network.task_sets import CELL_BOUND, task_sets


def inference_srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int, counts: list[int]
) -> Tensor:
    """Compute :func:`cascade_srn.encoder.srn_kernels.reference.srn_scan` on packed sequences, without gradients.

    ``counts`` is that of :class:`~cascade_srn.network.kernels.reference.Packing`.

    Shapes:
        projected: (n_real, (3 + 2 * n_tasks) * hidden), may be overwritten
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,)
        returns: (n_real + 1, n_sets, hidden); the last row is zero, for padding
    """
    n_real, hidden, n_sets = projected.shape[0], recurrent_weight.shape[0], len(task_sets(n_tasks))
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
