"""One step of training: a batch through the model, in this process and its neighbours, and the weights moved."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from cascade_srn.cascade import CascadeLoss
from cascade_srn.data.batch import BatchSettings
from cascade_srn.data.examples import Example
from cascade_srn.encoder.cuda_graphs import CudaGraphs
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.encoder.windows import Division, FewShapes, LeastWork
from cascade_srn.inference.cascade_search import TorchModule
from cascade_srn.model.family import Batch
from cascade_srn.model.model import Model
from cascade_srn.training.optimiser import Schedule
from cascade_srn.training.settings import TrainingSettings


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


# The parts of the loss, in the order of the totals.
LOSS_PARTS = tuple(field.name for field in fields(CascadeLoss))


# What another pass of the encoder costs, in pieces: on a GPU it is some hundred launches, elsewhere next to nothing.
PASS_OVERHEAD = defaultdict(lambda: 4000, cpu=64)
# Windows of a recorded pass at most: where a batch has more of them, those of similar length are read together.
RECORDED_WINDOWS = 64


def _nothing(part: str) -> None:
    pass


class Step:
    """Takes steps, and adds up the losses without ever waiting for the device.

    A batch is shared out among the processes, and in each among the parts it is accumulated from. The loss being a
    mean over sentences, each part counts by its number of sentences: the gradient is that of the whole batch,
    however it was divided. ``network`` is the model's network or what accelerate wrapped it in, which takes the
    mean of the gradients over the processes.

    ``done`` is told the end of each part of a step: collating, forward, backward, optimiser.
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
        done: Callable[[str], None] = _nothing,
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
        self.cuda_graphs: list[CudaGraphs] = self._recordings()
        self.division = self._division()
        # A thread is enough: while gradients are computed, Python has nothing else to do.
        self._beside = ThreadPoolExecutor(1, "collating")
        self._ahead: tuple[int, Future[list[tuple[int, Batch]]]] | None = None

    def _recordings(self) -> list[CudaGraphs]:
        """Of the encoders, where their work can be recorded: on a GPU that exchanges no gradients with others."""
        # Those of a training before, if any were left, would take this one's gradients.
        self.release()
        if self.device.type != "cuda" or self.n_processes > 1 or not self.settings.cuda_graphs:
            return []
        return [encoder.record() for encoder in self._encoders() if any(p.requires_grad for p in encoder.parameters())]

    def _encoders(self) -> list[PretrainedEncoder]:
        return [module for module in self.model.network.modules() if isinstance(module, PretrainedEncoder)]

    def _division(self) -> Division:
        if self.cuda_graphs:
            return FewShapes(min(RECORDED_WINDOWS, -(-self.settings.batch_size // self.settings.accumulation)))
        return LeastWork(PASS_OVERHEAD[self.device.type])

    def release(self) -> None:
        """Give back what recordings take, once no more steps are to be taken soon."""
        self.cuda_graphs = []
        for encoder in self._encoders():
            encoder.cuda_graphs = None

    @torch.no_grad()
    def rehearse(self, batch: Sequence[Example]) -> None:
        """The way of a batch to its loss, and no further."""
        for _, tensors in self._collated(batch, 0):
            self.model.network(tensors.to(self.device), self.model.settings.loss_weights)

    def settle(self) -> None:
        """Wait until nothing is being collated: others may want the tokenizer, which is one thread's at a time."""
        if self._ahead is not None:
            wait([self._ahead[1]])

    def __call__(self, batch: Sequence[Example], number: int = 0, following: Sequence[Example] = ()) -> None:
        """Take a step on these sentences, which are those of all processes together.

        The ``number`` of the step decides, with the seed, which mistakes and negatives are drawn. The batch of the
        next step, where it is known, is collated beside this one.
        """
        self.optimiser.zero_grad(set_to_none=True)
        for cuda_graphs in self.cuda_graphs:
            cuda_graphs.begin_step()
        parts = self._taken(batch, number)
        if following:
            self._ahead = number + 1, self._beside.submit(self._collated, following, number + 1)
        for at, (n_own, tensors) in enumerate(parts):
            with nullcontext() if at == len(parts) - 1 else self._without_exchange():
                self._add_gradients(tensors.to(self.device), n_own, len(batch))
        for cuda_graphs in self.cuda_graphs:
            cuda_graphs.end_step()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_gradient_norm)
        self.optimiser.step()
        self.schedule.step()
        if self.averaged is not None:
            self.averaged.update()
        self.done("optimiser")

    def _taken(self, batch: Sequence[Example], number: int) -> list[tuple[int, Batch]]:
        """The parts of a batch, from where they were collated ahead, or made now."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == number:
            return ahead[1].result()
        return self._collated(batch, number)

    def _collated(self, batch: Sequence[Example], number: int) -> list[tuple[int, Batch]]:
        """This process's parts of a batch, each with how many sentences count."""
        settings = self.settings
        made_of = BatchSettings(
            candidates=settings.candidates,
            joint=self.model.network.relations is not None,
            corruption=settings.corruption,
            negatives=settings.negatives,
            masking=settings.masking,
            division=self.division,
        )
        rng = random.Random(f"{settings.seed}, step {number}, process {self.process}")
        n_parts = min(settings.accumulation, -(-len(batch) // self.n_processes))
        found = []
        for part in range(n_parts):
            own = batch[part * self.n_processes + self.process :: n_parts * self.n_processes]
            tensors = self.model.collator.training_batch(
                # Where there is nothing to do, the exchange of gradients still expects a contribution: one of zeros.
                own or batch[:1],
                made_of,
                rng,
            )
            found.append((len(own), tensors))
        return found

    def _add_gradients(self, tensors: Batch, n_own: int, n_batch: int) -> None:
        """The gradients of this process's sentences, as their share of the batch's."""
        half = self.settings.precision == "bf16"
        self.done("collating")
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half):
            loss: CascadeLoss = self.network(tensors, self.model.settings.loss_weights)
        self.done("forward")
        share = n_own * self.n_processes / n_batch
        (loss.total if share == 1 else loss.total * share).backward()
        self.done("backward")
        parts = torch.stack([getattr(loss, name) for name in LOSS_PARTS])
        self.totals.add_(parts.detach(), alpha=n_own)

    def _without_exchange(self) -> Any:
        """While gradients are still being accumulated, they stay in their process."""
        return self.network.no_sync() if self.n_processes > 1 else nullcontext()

    def take_totals(self) -> Tensor:
        """The losses summed over this process's sentences since the last call. Shape: (n_parts,)."""
        totals = self.totals
        self.totals = torch.zeros_like(totals)
        return totals
