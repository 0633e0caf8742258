"""The recurrent part of the SRN as in the paper's equations. It is the reference for the fast implementations."""

from collections.abc import Callable

import torch
from torch import Tensor

from cascade_srn.network.kernels import CELL_BOUND, task_sets
from cascade_srn.network.sequence import padding_mask


def selection_gates(masters: Tensor) -> Tensor:
    """Compute the gate of each task set from the master gates ρ of the tasks (paper, equations 4 and 5).

    The gate of two or more tasks is the product of their master gates (eq. 4). The gate of one task is
    ``ρ_t · ∏_{u≠t} (1 − ρ_u)``, which is the inclusion–exclusion of equation 5 for any number of tasks.

    Shapes: masters (n_tasks, …); returns (2 ** n_tasks − 1, …)
    """
    n_tasks = masters.shape[0]
    gates = []
    for members in task_sets(n_tasks):
        gate = masters[members[0]]
        for task in members[1:]:
            gate = gate * masters[task]
        if len(members) == 1:
            for other in range(n_tasks):
                if other != members[0]:
                    gate = gate * (1 - masters[other])
        gates.append(gate)
    return torch.stack(gates)


def plain_features(
    inputs: Tensor,
    lengths: Tensor,
    project: Callable[[Tensor], Tensor],
    weights: tuple[Tensor, Tensor, Tensor],
    n_tasks: int,
) -> Tensor:
    """Compute the features of all task sets: tanh of the memories (paper, eq. 10), zero at padding.

    ``project`` maps the vectors of words to the inputs of the gates. States have the precision of ``weights``, also
    under autocast. All implementations have a function with these arguments.

    Shapes:
        inputs: (batch, length, input_width), lengths: (batch,)
        weights: as of :func:`srn_scan`
        returns: (batch, length, n_sets, hidden)
    """
    real = padding_mask(lengths, inputs.shape[1])[:, :, None]
    # Padding may hold any value, even NaN, which must not reach a weight or its gradient.
    projected = project(torch.where(real, inputs, 0.0))
    with torch.autocast(inputs.device.type, enabled=False):
        return srn_scan(projected.to(weights[0].dtype), *weights, n_tasks).tanh() * real[..., None]


def srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int
) -> Tensor:
    """Run the recurrent part of the SRN over all time steps, starting from zero states.

    This is the readable version. Models run ``fused_srn_scan``. Numbers in comments are the paper's equations.

    ``projected`` is the input term of every gate, with bias, in the order f, o, ĉ, master gates of the history (one per
    task), master gates of the candidate (one per task).

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
        # (3), for the history and the candidate together: (n_tasks, batch, 2, hidden)
        masters = gates[:, 3 * hidden :].sigmoid().view(batch, 2, n_tasks, hidden).permute(2, 0, 1, 3)
        selected = selection_gates(masters) * torch.stack((history, candidate), dim=1)  # (4), (5)
        memory = selected.sum(dim=2).transpose(0, 1)  # (6), (7): (batch, n_sets, hidden)
        c = torch.addmm(cell_bias, memory.flatten(1), cell_weight).clamp(-CELL_BOUND, CELL_BOUND)  # (8)
        h = o * c.tanh()  # (9)
        memories.append(memory)
    if not memories:
        return projected.new_zeros(batch, 0, len(task_sets(n_tasks)), hidden)
    return torch.stack(memories, dim=1)
