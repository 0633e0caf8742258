"""The training loop of an adaptation, and the perplexity of held-out text."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from cascade_srn.errors import CascadeError
from cascade_srn.inference.batching import explain_out_of_memory
from cascade_srn.runs.device import matmul_precision
from cascade_srn.runs.process import make_accelerator, seed_everything
from cascade_srn.training.adapt.network import MaskedBatch, MaskedNetwork, Masking
from cascade_srn.training.adapt.packing import Packed, Sequences
from cascade_srn.training.adapt.settings import AdaptProgress, AdaptSettings
from cascade_srn.training.loop import every
from cascade_srn.training.optimiser import Schedule, decay_groups, schedule_shape

# The same words of the held-out text are masked in every run, so that perplexities are comparable.
_SEED = 41_003
# Limit of the mean loss; the exponential of larger values overflows.
_HIGHEST = 700.0


class HeldOutText:
    """Held-out sequences. The same words are masked in every measurement, for every seed."""

    def __init__(self, sequences: Sequences, masking: Masking, *, batch_size: int, precision: str) -> None:
        self.masked = masking(sequences, np.arange(len(sequences)), seed=[_SEED])
        self.batch_size = batch_size
        self.precision = precision

    @torch.no_grad()
    def perplexity(self, network: MaskedNetwork, accelerator: Accelerator) -> float:
        """Return the exponential of the mean loss of a masked piece. Each process measures its share of the text."""
        network.eval()
        device = next(network.parameters()).device
        n_rows, n_processes = len(self.masked.ids), accelerator.num_processes
        total = torch.zeros(2, dtype=torch.float64, device=device)
        with matmul_precision(self.precision):
            for at in range(accelerator.process_index * self.batch_size, n_rows, n_processes * self.batch_size):
                batch = self.masked.rows(at, min(at + self.batch_size, n_rows)).to(device)
                loss = masked_loss(network, batch, precision=self.precision)
                total += torch.stack([loss.double(), total.new_tensor(float(len(batch.targets)))])
        if n_processes > 1:
            total = accelerator.reduce(total, reduction="sum")
        loss_sum, n_masked = total.tolist()
        return math.exp(min(loss_sum / max(1.0, n_masked), _HIGHEST))


def masked_loss(network: torch.nn.Module, batch: MaskedBatch, *, precision: str) -> Tensor:
    """Return the sum of the losses of the masked pieces. ``network`` may be wrapped by accelerate."""
    with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
        logits = network(batch.ids, batch.hidden)
    return functional.cross_entropy(logits.float(), batch.targets, reduction="sum")


# A new head is first trained alone, at this multiple of the learning rate.
_HEAD_RATE = 10.0


class AdaptLoop:
    """The training loop. Iterate over it to adapt; its state can be saved between two iterations.

    The masked words depend on the seed, the epoch and the batch only, so the state consists of the weights, the
    optimiser and the random numbers of dropout. With ``accelerate launch`` each process takes a share of every batch.
    """

    def __init__(
        self,
        network: MaskedNetwork,
        packed: Packed,
        masking: Masking,
        settings: AdaptSettings,
        *,
        accelerator: Accelerator | None = None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.network, self.packed, self.masking, self.settings = network, packed, masking, settings
        self.accelerator = make_accelerator() if accelerator is None else accelerator
        self.on_step = on_step
        self.batch_size = min(settings.batch_size, len(packed.train))
        # The last incomplete batch of an epoch is dropped. It has other sequences in each epoch.
        self.n_batches = len(packed.train) // self.batch_size
        n_steps = settings.epochs * self.n_batches if settings.steps is None else settings.steps
        self.n_head_steps = settings.head_steps if network.new_head else 0
        self.n_steps = self.n_head_steps + n_steps
        self.held_out = HeldOutText(
            packed.held_out,
            masking,
            batch_size=max(1, self.batch_size // settings.accumulation),
            precision=settings.precision,
        )
        self._wrapped: Any = network
        if self.accelerator.num_processes > 1:
            network.to(self.accelerator.device)
            self._wrapped = self.accelerator.prepare_model(network)
        self.parameters = list(network.parameters())
        self.device = self.parameters[0].device
        groups = decay_groups(self.parameters, settings.weight_decay)
        groups[0]["name"] = "all"
        fused = self.device.type == "cuda" or None
        self.optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=fused)
        shape = schedule_shape("linear", warmup=settings.warmup, n_steps=n_steps)
        self.schedule = Schedule(
            self.optimiser, lambda step: _HEAD_RATE if step < self.n_head_steps else shape(step - self.n_head_steps)
        )
        self._order: tuple[int, NDArray[np.int64]] | None = None
        self.go_to(0, seconds=0.0)

    def go_to(self, step: int, *, seconds: float) -> None:
        """Continue after ``step`` steps that took ``seconds``."""
        self.step, self.seconds = step, seconds
        self.schedule.go_to(step)

    def __iter__(self) -> Iterator[AdaptProgress]:
        if self.step == 0:
            started = time.perf_counter()
            perplexity = self._perplexity()
            self.seconds += time.perf_counter() - started
            # Each process has its own dropout.
            seed_everything(self.settings.seed + self.accelerator.process_index)
            yield AdaptProgress(0, self.n_steps, 1, perplexity=perplexity, seconds=self.seconds)
        while self.step < self.n_steps:
            started = time.perf_counter()
            before = self.step
            # Reading the loss waits for the device, so this is the time of the steps.
            loss = self._steps_until_due()
            taken = time.perf_counter() - started
            perplexity_now = self._perplexity() if self._evaluation_due else None
            self.seconds += time.perf_counter() - started
            yield AdaptProgress(
                self.step,
                self.n_steps,
                (self.step - 1) // self.n_batches + 1,
                loss=loss,
                perplexity=perplexity_now,
                learning_rate=self.schedule.last_rates["all"],
                pieces_per_second=(self.step - before) * self.batch_size * self.settings.sequence_pieces / taken,
                seconds=self.seconds,
                save=every(self.settings.save_steps, self.step),
            )

    def _perplexity(self) -> float:
        return self.held_out.perplexity(self.network, self.accelerator)

    @property
    def _evaluation_due(self) -> bool:
        return self.step in (self.n_head_steps, self.n_steps) or every(self.settings.evaluate_steps, self.step)

    @property
    def _due(self) -> bool:
        is_logged = every(self.settings.log_steps, self.step) or every(self.settings.save_steps, self.step)
        return is_logged or self._evaluation_due

    def _steps_until_due(self) -> float:
        """Take steps until the next report; return the mean loss of a masked piece."""
        self.network.train()
        total, n_masked = torch.zeros((), device=self.device), 0
        with matmul_precision(self.settings.precision):
            while True:
                batch = self._batch()
                total += self._take_step(batch)
                n_masked += len(batch.targets)
                self.step += 1
                self.on_step(self.step)
                if self._due:
                    break
        if self.accelerator.num_processes > 1:
            total = self.accelerator.reduce(total, reduction="sum")
        loss = float(total)
        if not math.isfinite(loss):
            raise CascadeError(
                f"the loss is not a number at step {self.step}",
                "Lower the learning rate, or use precision float32",
                option="learning_rate",
            )
        return loss / max(1, n_masked)

    def _batch(self) -> MaskedBatch:
        epoch, number = divmod(self.step, self.n_batches)
        if self._order is None or self._order[0] != epoch:
            order = np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.packed.train))
            self._order = (epoch, order)
        chosen = self._order[1][number * self.batch_size : (number + 1) * self.batch_size]
        return self.masking(self.packed.train, chosen, seed=[self.settings.seed, epoch, number])

    def _take_step(self, batch: MaskedBatch) -> Tensor:
        """Update the weights; return the sum of the losses of this process."""
        self.optimiser.zero_grad(set_to_none=True)
        n_rows, n_processes = len(batch.ids), self.accelerator.num_processes
        n_parts = min(self.settings.accumulation, -(-n_rows // n_processes))
        total = torch.zeros((), device=self.device)
        with explain_out_of_memory(lambda: _out_of_memory(batch)):
            for part in range(n_parts):
                first = part * n_processes + self.accelerator.process_index
                own = batch.rows(first, n_rows, n_parts * n_processes)
                last = part == n_parts - 1
                with nullcontext() if last or n_processes == 1 else self._wrapped.no_sync():
                    total += self._add_gradients(own, batch)
        if self.step < self.n_head_steps:
            # Without a gradient, the optimiser changes neither the weights nor their statistics.
            for parameter in self.network.encoder_parameters():
                parameter.grad = None
        torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_gradient_norm)
        self.optimiser.step()
        self.schedule.step()
        return total

    def _add_gradients(self, own: MaskedBatch, batch: MaskedBatch) -> Tensor:
        """Add the gradients of this process, weighted by its share of the masked pieces of the batch.

        Gradients are averaged over the processes, and each process must contribute. A process without sequences
        contributes zeros.
        """
        idle = not len(own.ids)
        share = 0.0 if idle else self.accelerator.num_processes / max(1, len(batch.targets))
        members = (batch.rows(0, 1) if idle else own).to(self.device)
        loss = masked_loss(self._wrapped, members, precision=self.settings.precision)
        (loss * share).backward()
        return loss.detach() * (not idle)


def _out_of_memory(batch: MaskedBatch) -> CascadeError:
    return CascadeError(
        f"the device ran out of memory on a batch of {len(batch.ids)} sequences of {batch.ids.shape[1]} pieces",
        "Split batches into more parts, or lower batch_size",
        option="accumulation",
    )
