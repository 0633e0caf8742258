"""Interface of the sequence encoders (`srn`, `bisrn`, `bilstm`), and the BiLSTM."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class SequenceEncoder(nn.Module, ABC):
    """Encodes sequences of vectors as features, from which each task selects its representation.

    Attributes:
        task_width: Width of the representation of one task.
    """

    task_width: int

    @abstractmethod
    def forward(self, inputs: Tensor, lengths: Tensor, *, bf16: bool = False) -> Tensor:
        """Encode a batch of sequences, padded at the end.

        ``bf16`` allows bfloat16 for the projection of all items. States stay in the precision of the weights.

        Shapes:
            inputs: (batch, length, input_width)
            lengths: (batch,)
            returns: (batch, length, *feature*), zero at padding
        """

    @abstractmethod
    def task(self, features: Tensor, task: int) -> Tensor:
        """Return the representation of one task from the output of :meth:`forward`, or from some of its rows.

        Shapes: features (batch, length, *feature*); returns (batch, length, task_width)
        """


def padding_mask(lengths: Tensor, length: int) -> Tensor:
    """Return a mask that is True at items and False at padding. Shapes: lengths (batch,); returns (batch, length)."""
    return torch.arange(length, device=lengths.device) < lengths[:, None]


def reverse_sequences(values: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each sequence and leave its padding at the end.

    Shapes: values, returns (batch, length, …)
    """
    positions = torch.arange(values.shape[1], device=values.device).expand(values.shape[0], -1)
    mirrored = torch.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)
    return values[torch.arange(values.shape[0], device=values.device)[:, None], mirrored]


class BiLSTM(SequenceEncoder):
    """A bidirectional LSTM. All tasks have the same representation."""

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_width, hidden_width, batch_first=True, bidirectional=True)
        self.task_width = 2 * hidden_width

    def forward(self, inputs: Tensor, lengths: Tensor, *, bf16: bool = False) -> Tensor:
        """See :class:`SequenceEncoder`. A feature is (2 * hidden_width,)."""
        if inputs.shape[0] == 0 or inputs.shape[1] == 0:
            return inputs.new_zeros(*inputs.shape[:2], self.task_width)
        inputs = inputs.masked_fill(~padding_mask(lengths, inputs.shape[1])[:, :, None], 0.0)
        # torch cannot pack an empty sequence: it runs over one padded item, whose output is masked below.
        packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = self.lstm(packed)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
        return torch.where(padding_mask(lengths, inputs.shape[1])[:, :, None], padded, 0.0)

    def task(self, features: Tensor, task: int) -> Tensor:
        """See :class:`SequenceEncoder`."""
        return features
