"""The BiLSTM of the paper's encoder ablation, with the interface of the SRN."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cascade_srn.encoder.sequence import SequenceEncoder, padding_mask


class BiLSTM(SequenceEncoder):
    """A bidirectional LSTM; every task sees the same representation."""

    def __init__(self, input_width: int, hidden_width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_width, hidden_width, batch_first=True, bidirectional=True)
        self.task_width = 2 * hidden_width

    def forward(self, inputs: Tensor, lengths: Tensor, *, half: bool = False) -> Tensor:
        """See :class:`SequenceEncoder`; a feature is (2 * hidden_width,)."""
        if inputs.shape[0] == 0 or inputs.shape[1] == 0:
            return inputs.new_zeros(*inputs.shape[:2], self.task_width)
        inputs = inputs.masked_fill(~padding_mask(lengths, inputs.shape[1])[:, :, None], 0.0)
        # An LSTM cannot pack a sequence of no items: it runs over one padded item, which is masked after.
        packed = pack_padded_sequence(inputs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = self.lstm(packed)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
        return torch.where(padding_mask(lengths, inputs.shape[1])[:, :, None], padded, 0.0)

    def task(self, features: Tensor, task: int) -> Tensor:
        """See :class:`SequenceEncoder`."""
        return features
