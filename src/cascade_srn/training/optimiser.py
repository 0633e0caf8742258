"""Optimiser and learning rate schedule."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import Parameter

from cascade_srn.model.build import Network
from cascade_srn.training.settings import TrainingSettings

# Names of layers in transformers: encoder.layer.3.…, layers.3.…, h.3.…, block.3.… Shared layers, such as
# encoder.albert_layer_groups.0.…, are not matched and get the rate of the top layer.
_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|block)\.(\d+)\.")


class Schedule:
    """Sets the learning rates of an optimiser, whose initial rates are the full rates, for each step.

    The rates depend on the number of steps only, so that :meth:`go_to` resumes exactly. ``share`` maps the number of a
    step, counted from 0, to the share of the full rate.
    """

    def __init__(self, optimiser: torch.optim.Optimizer, share: Callable[[int], float]) -> None:
        self._groups: list[dict[str, Any]] = optimiser.param_groups
        self._share = share
        for group in self._groups:
            group.setdefault("initial_lr", group["lr"])
        self.go_to(0)

    def step(self) -> None:
        """Set the rates for the next step."""
        self.go_to(self.n_steps + 1)

    def go_to(self, n_steps: int) -> None:
        """Set the rates for the step after ``n_steps`` steps."""
        self.n_steps = n_steps
        share = self._share(n_steps)
        for group in self._groups:
            group["lr"] = group["initial_lr"] * share

    @property
    def last_rates(self) -> dict[str, float]:
        """Rates of the last step, for the parameter groups that have a name."""
        share = self._share(max(0, self.n_steps - 1))
        return {group["name"]: group["initial_lr"] * share for group in self._groups if "name" in group}


def make_optimiser(
    network: Network, settings: TrainingSettings, n_steps: int
) -> tuple[torch.optim.Optimizer, Schedule]:
    """Make AdamW or Adam with one learning rate for the pretrained encoder and one for the rest."""
    pretrained = {id(p) for p in network.encoder.parameters()}
    groups: list[dict[str, Any]] = []
    for members, factor in _encoder_layers(network, settings.layer_decay):
        groups += decay_groups(members, settings.weight_decay, lr=settings.encoder_learning_rate * factor)
    groups[0]["name"] = "encoder"
    rest = [p for p in network.parameters() if id(p) not in pretrained]
    groups += decay_groups(rest, settings.weight_decay, lr=settings.learning_rate)
    groups[-1]["name"] = "rest"
    made = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimiser]
    optimiser = made(groups, fused=next(network.parameters()).is_cuda or None)
    return optimiser, Schedule(optimiser, schedule_shape(settings.schedule, warmup=settings.warmup, n_steps=n_steps))


def schedule_shape(name: str, *, warmup: float, n_steps: int) -> Callable[[int], float]:
    """Return the function from the number of a step, counted from 0, to the share of the full rate."""
    n_warmup = max(1, round(warmup * n_steps))

    def share(step: int) -> float:
        if step < n_warmup:
            return (step + 1) / n_warmup
        left = max(0.0, (n_steps - step) / max(1, n_steps - n_warmup))
        if name == "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        return left if name == "linear" else 1.0

    return share


def _encoder_layers(network: Network, layer_decay: float) -> Iterator[tuple[list[Parameter], float]]:
    """Yield the parameters of each encoder layer with the factor of their rate, from the top to the embeddings.

    Without decay they are a single group, because each group costs the optimiser kernel launches on a GPU.
    """
    if layer_decay == 1.0:
        yield list(network.encoder.parameters()), 1.0
        return
    depths: dict[int, list[Parameter]] = {}
    for name, parameter in network.encoder.model.named_parameters():
        found = _LAYER.search(name)
        # Parameters outside of the layers are below the first layer if they make embeddings, and else above the last.
        depth = int(found[1]) + 1 if found else 0 if "embed" in name else -1
        depths.setdefault(depth, []).append(parameter)
    # An encoder with shared layers has one layer above the embeddings.
    top = max(1, *depths)
    depths.setdefault(top, []).extend(depths.pop(-1, []))
    for depth in sorted(depths, reverse=True):
        yield depths[depth], layer_decay ** (top - depth)


def decay_groups(members: list[Parameter], weight_decay: float, **options: Any) -> list[dict[str, Any]]:
    """Return the parameter groups. Biases, norms and other one-dimensional parameters are not decayed."""
    groups = [
        {"params": [p for p in members if p.ndim > 1], "weight_decay": weight_decay, **options},
        {"params": [p for p in members if p.ndim <= 1], "weight_decay": 0.0, **options},
    ]
    return [group for group in groups if group["params"]]
