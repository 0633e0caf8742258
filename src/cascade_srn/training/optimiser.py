"""Optimiser and schedule: two learning rates, warm-up, linear decay."""

from __future__ import annotations

import torch
from torch.optim.lr_scheduler import LambdaLR

from cascade_srn.cascade import Cascade


def make_optimiser(
    cascade: Cascade,
    *,
    learning_rate: float,
    encoder_learning_rate: float,
    weight_decay: float,
    warmup: float,
    n_steps: int,
) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """AdamW with a small learning rate for what is pretrained and a larger one for what is not.

    Biases, norms and embedding-like tables (one-dimensional parameters) are not decayed.
    """
    pretrained = {id(p) for p in cascade.encoder.parameters()}
    groups = []
    for of_encoder, rate in ((True, encoder_learning_rate), (False, learning_rate)):
        members = [p for p in cascade.parameters() if (id(p) in pretrained) == of_encoder]
        groups += [
            {"params": [p for p in members if p.ndim > 1], "lr": rate, "weight_decay": weight_decay},
            {"params": [p for p in members if p.ndim <= 1], "lr": rate, "weight_decay": 0.0},
        ]
    on_gpu = next(cascade.parameters()).is_cuda
    optimiser = torch.optim.AdamW(groups, fused=on_gpu or None)
    n_warmup = max(1, round(warmup * n_steps))

    def share(step: int) -> float:
        if step < n_warmup:
            return (step + 1) / n_warmup
        return max(0.0, (n_steps - step) / max(1, n_steps - n_warmup))

    return optimiser, LambdaLR(optimiser, share)
