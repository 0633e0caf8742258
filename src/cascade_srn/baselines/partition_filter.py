"""The encoder of PFN: a recurrent network whose neurons are divided between two tasks, anew at every word.

Yan et al., "A Partition Filter Network for Joint Entity and Relation Extraction", EMNLP 2021,
https://arxiv.org/abs/2108.12202.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from cascade_srn.encoder.sequence import SequenceEncoder, padding_mask

# The partitions, in the order in which features hold them.
ENTITY, RELATION, SHARED = 0, 1, 2
N_PARTITIONS = 3


def partition_gates(logits: Tensor) -> Tensor:
    """Which neurons are the entity task's, the relation task's, and both's.

    The entity gate ẽ is a cumulative softmax and rises along the neurons; the relation gate r̃ is one minus another
    and falls. Where both are open a neuron is shared, the rest of each gate is its task's own:
    ρ_s = ẽ ⊙ r̃, ρ_e = ẽ − ρ_s, ρ_r = r̃ − ρ_s.

    Shapes:
        logits: (…, 2, hidden), of the entity gate and of the relation gate
        returns: (…, 3, hidden), ρ_e, ρ_r and ρ_s
    """
    entity, falling = logits.softmax(dim=-1).cumsum(dim=-1).unbind(-2)
    relation = 1 - falling
    shared = entity * relation
    return torch.stack((entity - shared, relation - shared, shared), dim=-2)


def partition_filter_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor
) -> Tensor:
    """Run the recurrent part over all words, from zero states.

    ``projected`` holds the input's share of everything that depends on [x_t; h_{t−1}], bias included, in the order
    candidate ĉ, entity and relation gate of the history c_{t−1}, entity and relation gate of the candidate.

    A plain loop in PyTorch: about fifteen small operations a word. That is what a baseline needs; the SRN has
    kernels of its own (:mod:`cascade_srn.encoder.srn_kernels`), and a comparison of speed has to say so.

    Shapes:
        projected: (batch, length, 5 * hidden)
        recurrent_weight: (hidden, 5 * hidden); cell_weight: (3 * hidden, hidden); cell_bias: (hidden,)
        returns: the memories μ_e, μ_r and μ_s, (batch, length, 3, hidden)
    """
    batch, hidden = projected.shape[0], recurrent_weight.shape[0]
    h = projected.new_zeros(batch, hidden)
    c = projected.new_zeros(batch, hidden)
    memories = []
    for step in projected.unbind(1):
        gates = torch.addmm(step, h, recurrent_weight)
        candidate = gates[:, :hidden].tanh()
        # Of the history and of the candidate at once: (batch, 2, 3, hidden).
        history_gates, candidate_gates = partition_gates(gates[:, hidden:].view(batch, 2, 2, hidden)).unbind(1)
        # Partition: what of the history and of the candidate is the entities', the relations', both's.
        partition = history_gates * c[:, None] + candidate_gates * candidate[:, None]
        # Filter: each task gets its own partition and the shared one, added up.
        shared = partition[:, SHARED:]
        memory = torch.cat((partition[:, :SHARED] + shared, shared), dim=1)
        c = torch.addmm(cell_bias, memory.flatten(1), cell_weight)
        h = c.tanh()
        memories.append(memory)
    if not memories:
        return projected.new_zeros(batch, 0, N_PARTITIONS, hidden)
    return torch.stack(memories, dim=1)


class PartitionFilterNetwork(SequenceEncoder):
    """PFN's encoder over a sequence, forward only. A word's features are h_e, h_r and h_s: tanh of the memories.

    Drop-connect, as published: a training batch does without a ``drop_connect`` share of the recurrent weights, the
    same ones at every word; in use all of them count, each that much less.
    """

    def __init__(self, input_width: int, hidden_width: int, *, drop_connect: float = 0.0) -> None:
        super().__init__()
        self.hidden_width = self.task_width = hidden_width
        self.drop_connect = drop_connect
        self.input_projection = nn.Linear(input_width, 5 * hidden_width)
        self.recurrent_weight = nn.Parameter(torch.empty(hidden_width, 5 * hidden_width))
        self.cell = nn.Linear(N_PARTITIONS * hidden_width, hidden_width)
        bound = 1 / math.sqrt(hidden_width)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)

    def forward(self, inputs: Tensor, lengths: Tensor, *, half: bool = False) -> Tensor:
        """See :class:`SequenceEncoder`; a feature is (3, hidden_width)."""
        real = padding_mask(lengths, inputs.shape[1])
        words = inputs.masked_fill(~real[:, :, None], 0.0)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16) if half else nullcontext():
            projected = self.input_projection(words)
        # Cumulative sums over hundreds of neurons are no work for half precision.
        with torch.autocast(inputs.device.type, enabled=False):
            weight = self._connected()
            memories = partition_filter_scan(projected.to(weight.dtype), weight, self.cell.weight.T, self.cell.bias)
            return torch.where(real[:, :, None, None], memories.tanh(), 0.0)

    def _connected(self) -> Tensor:
        """The recurrent weights as they are used."""
        if self.drop_connect == 0:
            return self.recurrent_weight
        if not self.training:
            return self.recurrent_weight * (1 - self.drop_connect)
        dropped = torch.rand_like(self.recurrent_weight) < self.drop_connect
        return self.recurrent_weight.masked_fill(dropped, 0.0)

    def task(self, features: Tensor, task: int) -> Tensor:
        """See :class:`SequenceEncoder`: h_e or h_r, which hold the shared partition already."""
        return features.select(-2, task)
