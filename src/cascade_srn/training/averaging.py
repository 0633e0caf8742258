"""A running average of the weights over the steps (EMA)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from cascade_srn.prediction import TorchModule


class AveragedWeights:
    """The average of a module's parameters, with weights that fall by ``decay`` a step.

    After n steps the decay is at most (1 + n) / (10 + n): an average that has only begun must not be held by
    the random weights that training started from.
    """

    def __init__(self, module: TorchModule, decay: float) -> None:
        self.decay = decay
        self.n_steps = 0
        self.names = [name for name, _ in module.named_parameters()]
        self._own = [parameter.detach() for parameter in module.parameters()]
        self._average = [value.clone() for value in self._own]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are after a step."""
        self.n_steps += 1
        decay = min(self.decay, (1 + self.n_steps) / (10 + self.n_steps))
        torch._foreach_lerp_(self._average, self._own, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The module with the averaged weights, as long as the block lasts."""
        before = [value.clone() for value in self._own]
        self.copy_to_module()
        try:
            yield
        finally:
            _copy(self._own, before)

    def copy_to_module(self) -> None:
        """Leave the module with the averaged weights."""
        _copy(self._own, self._average)

    def state(self) -> dict[str, Tensor]:
        """The averages by the names of the parameters."""
        return dict(zip(self.names, self._average, strict=True))

    def restore(self, state: dict[str, Tensor], n_steps: int) -> None:
        """The inverse of :meth:`state`."""
        _copy(self._average, [state[name] for name in self.names])
        self.n_steps = n_steps


@torch.no_grad()
def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
