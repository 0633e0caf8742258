"""The selection recurrent network (paper, section "Selection Recurrent Network" and its appendix)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from cascade_srn.encoder.selection import selection_gates, task_sets
from cascade_srn.encoder.sequence import SequenceEncoder, padding_mask, reverse_sequences


def srn_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor, n_tasks: int
) -> Tensor:
    """Run the recurrent part of the SRN over all time steps, from zero states.

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
        c = torch.addmm(cell_bias, memory.flatten(1), cell_weight)  # (8)
        h = o * c.tanh()  # (9)
        memories.append(memory)
    if not memories:
        return projected.new_zeros(batch, 0, len(task_sets(n_tasks)), hidden)
    return torch.stack(memories, dim=1)


class SelectionRecurrentCell(nn.Module):
    """The parameters of an SRN in one direction, for any number of tasks from two up.

    Wang et al., "Towards Effective Multi-Task Interaction for Entity-Relation Extraction: A Unified Framework
    with Selection Recurrent Network", https://arxiv.org/abs/2202.07281.
    """

    def __init__(self, input_width: int, hidden_width: int, *, n_tasks: int) -> None:
        super().__init__()
        if n_tasks < 2:
            raise ValueError(f"n_tasks is {n_tasks}; an SRN selects between at least two tasks")
        self.n_tasks = n_tasks
        self.hidden_width = hidden_width
        n_gates, n_sets = 3 + 2 * n_tasks, len(task_sets(n_tasks))
        self.input_projection = nn.Linear(input_width, n_gates * hidden_width)
        self.recurrent_weight = nn.Parameter(torch.empty(hidden_width, n_gates * hidden_width))
        self.cell_weight = nn.Parameter(torch.empty(n_sets * hidden_width, hidden_width))
        self.cell_bias = nn.Parameter(torch.zeros(hidden_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights as in an LSTM; forget gates start open, as is usual there."""
        bound = 1 / math.sqrt(self.hidden_width)
        nn.init.uniform_(self.input_projection.weight, -bound, bound)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)
        nn.init.uniform_(self.cell_weight, -bound, bound)
        nn.init.zeros_(self.input_projection.bias)
        with torch.no_grad():
            self.input_projection.bias[: self.hidden_width] = 1.0

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Token representations of every task set: tanh of its memory (paper, eq. 10).

        Shapes:
            inputs: (batch, length, input_width), padded at the end
            lengths: (batch,)
            returns: (batch, length, n_sets, hidden_width), zero at padding
        """
        real = padding_mask(lengths, inputs.shape[1])
        # Whatever stands at padding (even NaN) is cut off before it meets a weight.
        inputs = inputs.masked_fill(~real[:, :, None], 0.0)
        projected = self.input_projection(inputs)
        memories = srn_scan(projected, self.recurrent_weight, self.cell_weight, self.cell_bias, self.n_tasks)
        return memories.tanh().masked_fill(~real[:, :, None, None], 0.0)


class SelectionRecurrentNetwork(SequenceEncoder):
    """SRN over a sequence, forward only (the paper's default) or in both directions (its BiSRN ablation).

    A task's representation is the concatenation of the representations of all task sets that contain it: for
    three tasks one independent and three shared ones.
    """

    def __init__(self, input_width: int, hidden_width: int, *, n_tasks: int, bidirectional: bool = False) -> None:
        super().__init__()
        self.forward_cell = SelectionRecurrentCell(input_width, hidden_width, n_tasks=n_tasks)
        self.backward_cell = (
            SelectionRecurrentCell(input_width, hidden_width, n_tasks=n_tasks) if bidirectional else None
        )
        self.members = [
            [i for i, members in enumerate(task_sets(n_tasks)) if task in members] for task in range(n_tasks)
        ]
        self.task_width = len(self.members[0]) * hidden_width * (2 if bidirectional else 1)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """See :class:`SequenceEncoder`; a feature is (n_sets, hidden_width), twice that wide if bidirectional."""
        features: Tensor = self.forward_cell(inputs, lengths)
        if self.backward_cell is not None:
            backward = self.backward_cell(reverse_sequences(inputs, lengths), lengths)
            features = torch.cat((features, reverse_sequences(backward, lengths)), dim=-1)
        return features

    def task(self, features: Tensor, task: int) -> Tensor:
        """See :class:`SequenceEncoder`."""
        return features[..., self.members[task], :].flatten(-2)
