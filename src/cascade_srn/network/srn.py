"""The selection recurrent network, SRN (paper, section "Selection Recurrent Network", and its appendix)."""

import math
from contextlib import nullcontext
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from cascade_srn.config import SRN_BACKENDS, require_choice
from cascade_srn.errors import ConfigError
from cascade_srn.network.kernels import task_sets
from cascade_srn.network.kernels.fused import fused_features
from cascade_srn.network.kernels.reference import plain_features
from cascade_srn.network.sequence import SequenceEncoder, reverse_sequences


class SelectionRecurrentCell(nn.Module):
    """An SRN in one direction, for two or more tasks.

    Wang et al., "Towards Effective Multi-Task Interaction for Entity-Relation Extraction: A Unified Framework
    with Selection Recurrent Network", https://arxiv.org/abs/2202.07281.
    """

    def __init__(self, input_width: int, hidden_width: int, *, n_tasks: int, backend: str = "auto") -> None:
        super().__init__()
        require_choice("srn_backend", backend, SRN_BACKENDS)
        self.backend = backend
        if n_tasks < 2:
            raise ValueError(f"n_tasks is {n_tasks}, but an SRN has at least two tasks")
        self.n_tasks = n_tasks
        self.hidden_width = hidden_width
        n_gates, n_sets = 3 + 2 * n_tasks, len(task_sets(n_tasks))
        self.input_projection = nn.Linear(input_width, n_gates * hidden_width)
        self.recurrent_weight = nn.Parameter(torch.empty(hidden_width, n_gates * hidden_width))
        self.cell_weight = nn.Parameter(torch.empty(n_sets * hidden_width, hidden_width))
        self.cell_bias = nn.Parameter(torch.zeros(hidden_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights as in an LSTM. The bias of the forget gate starts at 1, so that the gate is open."""
        bound = 1 / math.sqrt(self.hidden_width)
        nn.init.uniform_(self.input_projection.weight, -bound, bound)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)
        nn.init.uniform_(self.cell_weight, -bound, bound)
        nn.init.zeros_(self.input_projection.bias)
        with torch.no_grad():
            self.input_projection.bias[: self.hidden_width] = 1.0

    def forward(self, inputs: Tensor, lengths: Tensor, *, bf16: bool = False) -> Tensor:
        """Compute the token representations of every task set: tanh of its memory (paper, eq. 10).

        With ``bf16``, words are projected in bfloat16. States stay in the precision of the weights.

        Shapes:
            inputs: (batch, length, input_width), padded at the end
            lengths: (batch,)
            returns: (batch, length, n_sets, hidden_width), zero at padding
        """
        backend = choose_backend(self.backend, inputs, self.hidden_width, self.n_tasks)
        weights = self.recurrent_weight, self.cell_weight, self.cell_bias

        def project(words: Tensor) -> Tensor:
            with torch.autocast(words.device.type, dtype=torch.bfloat16) if bf16 else nullcontext():
                projected: Tensor = self.input_projection(words)
            return projected

        if backend == "triton":
            from cascade_srn.network.kernels.triton_srn import triton_features as compute
        else:
            compute = plain_features if backend == "plain" else fused_features
        return compute(inputs, lengths, project, weights, self.n_tasks)


class SelectionRecurrentNetwork(SequenceEncoder):
    """An SRN, forward only (the paper's default) or in both directions (its BiSRN ablation).

    The representation of a task concatenates those of all task sets that contain it: for three tasks, one independent
    and three shared ones.
    """

    def __init__(
        self, input_width: int, hidden_width: int, *, n_tasks: int, bidirectional: bool = False, backend: str = "auto"
    ) -> None:
        super().__init__()

        def cell() -> SelectionRecurrentCell:
            return SelectionRecurrentCell(input_width, hidden_width, n_tasks=n_tasks, backend=backend)

        self.forward_cell = cell()
        self.backward_cell = cell() if bidirectional else None
        # The task sets of each task, as a buffer so that it moves to the device: (n_tasks, n_sets of a task).
        members = [[i for i, tasks in enumerate(task_sets(n_tasks)) if task in tasks] for task in range(n_tasks)]
        self.members: Tensor
        self.register_buffer("members", torch.tensor(members), persistent=False)
        self.task_width = len(members[0]) * hidden_width * (2 if bidirectional else 1)

    def forward(self, inputs: Tensor, lengths: Tensor, *, bf16: bool = False) -> Tensor:
        """See :class:`SequenceEncoder`. A feature is (n_sets, hidden_width), or twice as wide if bidirectional."""
        features: Tensor = self.forward_cell(inputs, lengths, bf16=bf16)
        if self.backward_cell is not None:
            backward = self.backward_cell(reverse_sequences(inputs, lengths), lengths, bf16=bf16)
            features = torch.cat((features, reverse_sequences(backward, lengths)), dim=-1)
        return features

    def task(self, features: Tensor, task: int) -> Tensor:
        """See :class:`SequenceEncoder`."""
        return features.index_select(-2, self.members[task]).flatten(-2)


def choose_backend(backend: str, inputs: Tensor, hidden: int, n_tasks: int) -> str:
    """Return the backend that runs for inputs (batch, length, …): "plain", "fused" or "triton".

    Inputs that "triton" does not support run with "fused".
    """
    if backend == "triton" or (backend == "auto" and inputs.is_cuda and _has_triton()):
        if not _has_triton():
            raise ConfigError(
                "srn_backend is 'triton', but triton is not installed",
                "Install triton, or use 'auto'",
                option="srn_backend",
            )
        from cascade_srn.network.kernels import triton_srn

        if triton_srn.covers(inputs, hidden, n_tasks):
            return "triton"
    return "plain" if backend == "plain" else "fused"


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
