"""How well hidden words of the held-out text are guessed."""

from __future__ import annotations

import math

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.nn import functional

from cascade_srn.adapt.masking import MaskedBatch, Masking
from cascade_srn.adapt.network import MaskedNetwork
from cascade_srn.adapt.packing import Sequences
from cascade_srn.training.step import matrix_products

# What is hidden in the held-out text is the same always, so that figures compare.
_SEED = 41_003
# Beyond this mean loss the perplexity is no number that could be written.
_HIGHEST = 700.0


class HeldOutText:
    """Held-out sequences in which the same words are hidden at every measurement, whatever the seed of a run."""

    def __init__(self, sequences: Sequences, masking: Masking, *, batch_size: int, precision: str) -> None:
        self.masked = masking(sequences, np.arange(len(sequences)), seed=[_SEED])
        self.batch_size = batch_size
        self.precision = precision

    @torch.no_grad()
    def perplexity(self, network: MaskedNetwork, accelerator: Accelerator) -> float:
        """The exponential of the mean loss of a hidden piece, each process measuring its share of the text."""
        network.eval()
        device = next(network.parameters()).device
        n_rows, n_processes = len(self.masked.ids), accelerator.num_processes
        total = torch.zeros(2, dtype=torch.float64, device=device)
        with matrix_products(self.precision):
            for at in range(accelerator.process_index * self.batch_size, n_rows, n_processes * self.batch_size):
                batch = self.masked.rows(at, min(at + self.batch_size, n_rows)).to(device)
                loss = hidden_loss(network, batch, precision=self.precision)
                total += torch.stack([loss.double(), total.new_tensor(float(len(batch.targets)))])
        if n_processes > 1:
            total = accelerator.reduce(total, reduction="sum")
        loss_sum, n_hidden = total.tolist()
        return math.exp(min(loss_sum / max(1.0, n_hidden), _HIGHEST))


def hidden_loss(network: torch.nn.Module, batch: MaskedBatch, *, precision: str) -> Tensor:
    """The sum of the losses of the hidden pieces; ``network`` is the one or what accelerate wrapped it in."""
    with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
        logits = network(batch.ids, batch.hidden)
    return functional.cross_entropy(logits.float(), batch.targets, reduction="sum")
