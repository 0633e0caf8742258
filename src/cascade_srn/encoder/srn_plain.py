"""The recurrent part of the SRN, as the paper's equations stand: to read, and to hold the fast ones against."""

from __future__ import annotations

import torch
from torch import Tensor

from cascade_srn.encoder.selection import selection_gates, task_sets

# What a cell is held within. Nothing in the equations does that, and over a long sentence it may grow at every word:
# without, it became infinite in training. Trained models come nowhere near.
CELL_BOUND = 10_000.0


def srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int
) -> Tensor:
    """Run the recurrent part of the SRN over all time steps, from zero states: plainly, as the equations stand.

    This is the reading version, and the reference for the fast ones; models run ``fused_srn_scan``.

    ``projected`` holds the input's share of every gate, bias included, in the order f, o, ĉ, master gates of
    the history (one a task), master gates of the candidate (one a task). Numbers in comments are the paper's
    equations.

    Shapes:
        projected: (batch, length, (3 + 2 * n_tasks) * hidden)
        recurrent_weight: (hidden, (3 + 2 * n_tasks) * hidden)
        cell_weight: (n_sets * hidden, hidden), cell_bias: (hidden,)
        returns: the memories, (batch, length, n_sets, hidden), with n_sets = 2 ** n_tasks − 1
    """
    batch = projected.shape[0]
    hidden = recurrent_weight.shape[0]
    h = projected.new_zeros(batch, hidden)
    c = projected.new_zeros(batch, hidden)
    memories = []
    for step in projected.unbind(1):
        gates = torch.addmm(step, h, recurrent_weight)
        f, o = gates[:, : 2 * hidden].sigmoid().chunk(2, dim=1)  # (1)
        candidate = gates[:, 2 * hidden : 3 * hidden].tanh()  # (1): ĉ
        history = f * c  # (2): c̃
        # (3), for the history and for the candidate at once: (n_tasks, batch, 2, hidden)
        masters = gates[:, 3 * hidden :].sigmoid().view(batch, 2, n_tasks, hidden).permute(2, 0, 1, 3)
        selected = selection_gates(masters) * torch.stack((history, candidate), dim=1)  # (4), (5)
        memory = selected.sum(dim=2).transpose(0, 1)  # (6), (7): (batch, n_sets, hidden)
        c = torch.addmm(cell_bias, memory.flatten(1), cell_weight).clamp(-CELL_BOUND, CELL_BOUND)  # (8)
        h = o * c.tanh()  # (9)
        memories.append(memory)
    if not memories:
        return projected.new_zeros(batch, 0, len(task_sets(n_tasks)), hidden)
    return torch.stack(memories, dim=1)
