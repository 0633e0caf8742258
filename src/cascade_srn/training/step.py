"""One training step: collate a batch, compute its gradients, and update the weights by the learning rate schedule."""

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from cascade_srn.encoder.cuda_graphs.training import CudaGraphs
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.encoder.windows import Division, FewShapes, LeastWork
from cascade_srn.model.build import Batch
from cascade_srn.model.model import Model
from cascade_srn.network.batch import BatchSettings
from cascade_srn.network.cascade import CascadeLoss, Network
from cascade_srn.network.examples import Example
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
    network: Network, settings: TrainingSettings, n_steps: int, *, label_weights: Collection[str] = ()
) -> tuple[torch.optim.Optimizer, Schedule]:
    """Make AdamW or Adam with learning rates for the pretrained encoder, the weights of labels and the rest.

    Args:
        network: The network.
        settings: The rates and their schedule.
        n_steps: Number of steps.
        label_weights: How the names of weights begin that have a row for each label.
    """
    pretrained = {id(p) for p in network.encoder.parameters()}
    groups: list[dict[str, Any]] = []
    for members, factor in _encoder_layers(network, settings.layer_decay):
        groups += decay_groups(members, settings.weight_decay, lr=settings.encoder_learning_rate * factor)
    groups[0]["name"] = "encoder"
    rate_of_labels = settings.learning_rate if settings.label_learning_rate is None else settings.label_learning_rate
    by_rate: dict[float, list[Parameter]] = {rate_of_labels: [], settings.learning_rate: []}
    for name, parameter in network.named_parameters():
        if id(parameter) not in pretrained:
            is_of_labels = name.startswith(tuple(label_weights))
            by_rate[rate_of_labels if is_of_labels else settings.learning_rate].append(parameter)
    for rate, members in by_rate.items():
        groups += decay_groups(members, settings.weight_decay, lr=rate)
    groups[-1]["name"] = "rest"
    made = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimiser]
    # One pass over the weights instead of ten: on a CPU, small batches spend a sixth of their time here.
    optimiser = made(groups, fused=next(network.parameters()).device.type in ("cpu", "cuda") or None)
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
    depths = _by_depth(network)
    top = max(depths)
    for depth in sorted(depths, reverse=True):
        yield depths[depth], layer_decay ** (top - depth)


def _by_depth(network: Network) -> dict[int, list[Parameter]]:
    """Return the parameters of the encoder by layer, counted from 1. Those of the embeddings have the number 0."""
    depths: dict[int, list[Parameter]] = {}
    for name, parameter in network.encoder.model.named_parameters():
        found = _LAYER.search(name)
        # Parameters outside of the layers are below the first layer if they make embeddings, and else above the last.
        depth = int(found[1]) + 1 if found else 0 if "embed" in name else -1
        depths.setdefault(depth, []).append(parameter)
    # An encoder with shared layers has one layer above the embeddings.
    top = max(1, *depths)
    depths.setdefault(top, []).extend(depths.pop(-1, []))
    return depths


@contextmanager
def frozen_layers(network: Network, share: float) -> Iterator[None]:
    """Keep the weights of the embeddings and of the lower layers of the encoder in this block, without dropout.

    Args:
        network: The network.
        share: Share of the layers, rounded down: less than a layer freezes the embeddings only. 0: these learn, too.
    """
    depths = _by_depth(network) if share else {}
    highest = math.floor(share * max(depths, default=0))
    frozen = [p for depth, members in depths.items() if depth <= highest for p in members if p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


def decay_groups(members: list[Parameter], weight_decay: float, **options: Any) -> list[dict[str, Any]]:
    """Return the parameter groups. Biases, norms and other one-dimensional parameters are not decayed."""
    groups = [
        {"params": [p for p in members if p.ndim > 1], "weight_decay": weight_decay, **options},
        {"params": [p for p in members if p.ndim <= 1], "weight_decay": 0.0, **options},
    ]
    return [group for group in groups if group["params"]]


# The parts of the loss, in the order of the totals.
LOSS_PARTS = tuple(field.name for field in fields(CascadeLoss))
# Cost of another encoder pass, in pieces. On a GPU it is some hundred kernel launches.
PASS_OVERHEAD = defaultdict(lambda: 4000, cpu=64)
# Most windows of an encoder pass that is captured as a CUDA graph.
GRAPH_WINDOWS = 64


class AveragedWeights:
    """Exponential moving average of the parameters of a module.

    After n steps the decay is at most (1 + n) / (10 + n), so that the random initial weights are soon forgotten.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.n_steps = 0
        self.names = [name for name, _ in module.named_parameters()]
        self._own = [parameter.detach() for parameter in module.parameters()]
        self._average = [value.clone() for value in self._own]

    @torch.no_grad()
    def update(self) -> None:
        """Add the weights after a step to the average."""
        self.n_steps += 1
        decay = min(self.decay, (1 + self.n_steps) / (10 + self.n_steps))
        torch._foreach_lerp_(self._average, self._own, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the module the averaged weights in this block."""
        before = [value.clone() for value in self._own]
        self.copy_to_module()
        try:
            yield
        finally:
            _copy(self._own, before)

    def copy_to_module(self) -> None:
        """Give the module the averaged weights for good."""
        _copy(self._own, self._average)

    def state(self) -> dict[str, Tensor]:
        """Return the averages by the names of the parameters."""
        return dict(zip(self.names, self._average, strict=True))

    def restore(self, state: dict[str, Tensor], n_steps: int) -> None:
        """Restore what :meth:`state` returned after ``n_steps`` steps."""
        _copy(self._average, [state[name] for name in self.names])
        self.n_steps = n_steps


@torch.no_grad()
def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


class Step:
    """Takes training steps, and sums the losses without waiting for the device.

    A batch is divided among the processes, and in each process among the parts of an accumulation. The loss is a mean
    over sentences, so each part is weighted by its number of sentences. The gradient equals that for the whole batch.

    The network may be the wrapper of accelerate that averages gradients over the processes. ``done`` is called at the
    end of each part of a step: collating, forward, backward, optimiser.
    """

    def __init__(
        self,
        model: Model,
        optimiser: torch.optim.Optimizer,
        schedule: Schedule,
        settings: TrainingSettings,
        *,
        network: nn.Module | None = None,
        n_processes: int = 1,
        process: int = 0,
        averaged: AveragedWeights | None = None,
        done: Callable[[str], None] = lambda part: None,
    ) -> None:
        self.model = model
        self.optimiser = optimiser
        self.schedule = schedule
        self.settings = settings
        self.network: Any = model.network if network is None else network
        self.n_processes, self.process = n_processes, process
        self.averaged = averaged
        self.done = done
        self.parameters = list(model.network.parameters())
        self.device = self.parameters[0].device
        self.totals = torch.zeros(len(LOSS_PARTS), device=self.device)
        self.cuda_graphs: list[CudaGraphs] = self._make_cuda_graphs()
        self.division = self._make_division()
        # One thread is enough, because Python is idle while gradients are computed.
        self._collating = ThreadPoolExecutor(1, "collating")
        self._ahead: tuple[int, Future[list[tuple[int, Batch]]]] | None = None

    def _make_cuda_graphs(self) -> list[CudaGraphs]:
        """Return CUDA graphs of the encoders that are trained, on a GPU that exchanges no gradients with others."""
        # Graphs of an earlier training would take the gradients of this one.
        self.release()
        if self.device.type != "cuda" or self.n_processes > 1 or not self.settings.cuda_graphs:
            return []
        return [
            encoder.capture_cuda_graphs()
            for encoder in self._encoders()
            if any(p.requires_grad for p in encoder.parameters())
        ]

    def _encoders(self) -> list[PretrainedEncoder]:
        return [module for module in self.model.network.modules() if isinstance(module, PretrainedEncoder)]

    def _make_division(self) -> Division:
        if self.cuda_graphs:
            return FewShapes(min(GRAPH_WINDOWS, -(-self.settings.batch_size // self.settings.accumulation)))
        return LeastWork(PASS_OVERHEAD[self.device.type])

    def release(self) -> None:
        """Free the memory of the CUDA graphs."""
        self.cuda_graphs = []
        for encoder in self._encoders():
            encoder.cuda_graphs = None

    @torch.no_grad()
    def rehearse(self, batch: Sequence[Example]) -> None:
        """Compute the loss of a batch, without gradients."""
        for _, tensors in self._collate(batch, 0):
            self.model.network(tensors.to(self.device), self.model.settings.loss_weights)

    def settle(self) -> None:
        """Wait until nothing is being collated. Other threads must not use the tokenizer at the same time."""
        if self._ahead is not None:
            wait([self._ahead[1]])

    def __call__(self, batch: Sequence[Example], number: int = 0, following: Sequence[Example] = ()) -> None:
        """Take a step with the sentences of all processes together.

        The number of the step and the seed determine corrupted entities, negatives and masked words. ``following`` is
        the batch of the next step, if it is known. It is collated in parallel.
        """
        self.optimiser.zero_grad(set_to_none=True)
        for cuda_graphs in self.cuda_graphs:
            cuda_graphs.begin_step()
        ahead, self._ahead = self._ahead, None
        parts = ahead[1].result() if ahead is not None and ahead[0] == number else self._collate(batch, number)
        if following:
            self._ahead = number + 1, self._collating.submit(self._collate, following, number + 1)
        for at, (n_own, tensors) in enumerate(parts):
            # Gradients are exchanged with the other processes after the last part only.
            is_last = at == len(parts) - 1
            with nullcontext() if is_last or self.n_processes == 1 else self.network.no_sync():
                self._add_gradients(tensors.to(self.device), n_own, len(batch))
        for cuda_graphs in self.cuda_graphs:
            cuda_graphs.end_step()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_gradient_norm)
        self.optimiser.step()
        self.schedule.step()
        if self.averaged is not None:
            self.averaged.update()
        self.done("optimiser")

    def _collate(self, batch: Sequence[Example], number: int) -> list[tuple[int, Batch]]:
        """Collate the parts of a batch that belong to this process, each with its number of sentences."""
        settings = self.settings
        batch_settings = BatchSettings(
            candidates=settings.candidates,
            joint=self.model.network.relations is not None,
            corruption=settings.corruption,
            negatives=settings.negatives,
            masking=settings.masking,
            division=self.division,
        )
        rng = random.Random(f"{settings.seed}, step {number}, process {self.process}")
        n_parts = min(settings.accumulation, -(-len(batch) // self.n_processes))
        parts = []
        for part in range(n_parts):
            own = batch[part * self.n_processes + self.process :: n_parts * self.n_processes]
            # A process without sentences still has to contribute gradients to the exchange. They are weighted by 0.
            parts.append((len(own), self.model.collator.training_batch(own or batch[:1], batch_settings, rng)))
        return parts

    def _add_gradients(self, tensors: Batch, n_own: int, n_batch: int) -> None:
        """Add the gradients of this process's sentences, weighted by their share of the batch."""
        bf16 = self.settings.precision == "bf16"
        self.done("collating")
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16):
            loss: CascadeLoss = self.network(tensors, self.model.settings.loss_weights)
        self.done("forward")
        share = n_own * self.n_processes / n_batch
        (loss.total if share == 1 else loss.total * share).backward()
        self.done("backward")
        parts = torch.stack([getattr(loss, name) for name in LOSS_PARTS])
        self.totals.add_(parts.detach(), alpha=n_own)

    def take_totals(self) -> Tensor:
        """Return the losses summed over this process's sentences since the last call. Shape: (n_parts,)."""
        totals = self.totals
        self.totals = torch.zeros_like(totals)
        return totals
