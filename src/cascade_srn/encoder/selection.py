"""The selection operation of the SRN: master gates in, one gate for each set of tasks out."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor


def task_sets(n_tasks: int) -> list[tuple[int, ...]]:
    """All non-empty sets of tasks, small ones first: for three tasks e, s, o, es, eo, so, eso.

    There is one memory for each of the ``2 ** n_tasks - 1`` sets, in this order.
    """
    return [s for size in range(1, n_tasks + 1) for s in combinations(range(n_tasks), size)]


def selection_gates(masters: Tensor) -> Tensor:
    """The gate of each task set from the tasks' master gates ρ (paper, equations 4 and 5).

    For two or more tasks it is the product of their master gates (eq. 4). For one task it is
    ``ρ_t · ∏_{u≠t} (1 − ρ_u)``: equation 5 subtracts and adds shared gates by inclusion–exclusion, which for
    any number of tasks multiplies out to this product.

    Shapes:
        masters: (n_tasks, …)
        returns: (2 ** n_tasks − 1, …)
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
