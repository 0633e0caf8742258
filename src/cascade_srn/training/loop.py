"""The training loop: steps, evaluations, and what there is to tell of them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from cascade_srn.data.examples import Example
from cascade_srn.errors import CascadeError
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.inference.batching import explain_out_of_memory
from cascade_srn.model.model import Model
from cascade_srn.runs.device import few_threads, matmul_precision
from cascade_srn.runs.process import make_accelerator, seed_everything
from cascade_srn.training.mixing import Gold, Mixture, Picked
from cascade_srn.training.optimiser import Schedule, make_optimiser
from cascade_srn.training.progress import Progress, reached
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import LOSS_PARTS, AveragedWeights, Step


@dataclass
class LoopState:
    """Where a loop stands: all that changes from step to step but for tensors and random numbers."""

    step: int = 0
    epoch: int = 0
    # The sentences in this epoch's order, and how many of them have been seen.
    order: list[int] = field(default_factory=list)
    seen: int = 0
    # Losses summed over those, by part.
    sums: list[float] = field(default_factory=lambda: [0.0] * len(LOSS_PARTS))
    best: float = -1.0
    # Evaluations since the best one.
    stale: int = 0
    seconds: float = 0.0


class Loop:
    """Iterate over it to train; between two iterations it can be saved (:mod:`cascade_srn.training.checkpoint`).

    Under ``accelerate launch`` each process takes its share of every batch; all of them stand at the same step
    with the same weights, and yield the same progress.
    """

    def __init__(
        self,
        model: Model,
        examples: Sequence[Example] | Mixture,
        dev: Sequence[Example],
        settings: TrainingSettings,
        *,
        accelerator: Accelerator | None = None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.model, self.dev, self.settings = model, dev, settings
        self.material = examples if isinstance(examples, Mixture) else Gold(examples)
        self.accelerator = make_accelerator() if accelerator is None else accelerator
        self.on_step = on_step
        self.loop_state = LoopState()
        self.n_steps = settings.epochs * math.ceil(self.material.epoch_size(settings.batch_size) / settings.batch_size)
        self.shuffling = random.Random(settings.seed)
        network: Any = model.network  # or the wrapper that exchanges gradients between processes
        if self.accelerator.num_processes > 1:
            network.to(self.accelerator.device)
            network = self.accelerator.prepare_model(network)
        self.optimiser, self.schedule = _optimiser(model, settings, self.n_steps)
        self.averaged = None if settings.ema is None else AveragedWeights(model.network, settings.ema)
        self.take_step = Step(
            model,
            self.optimiser,
            self.schedule,
            settings,
            network=network,
            n_processes=self.accelerator.num_processes,
            process=self.accelerator.process_index,
            averaged=self.averaged,
        )

    def __iter__(self) -> Iterator[Progress]:
        if self.loop_state.step == 0:
            # Each process drops out something else; alone, it is the seed itself that counts.
            seed_everything(self.settings.seed + self.accelerator.process_index)
        try:
            while not self._finished:
                started = time.perf_counter()
                n_sentences, n_words = self._steps_until_due()
                # Reading the losses waits for the device, so the time is that of the steps.
                losses = self._losses(n_sentences)
                words_per_second = n_words / (time.perf_counter() - started)
                dev, best = self._evaluated() if self._evaluation_due else (None, False)
                self.model.network.eval()
                self.loop_state.seconds += time.perf_counter() - started
                yield self._progress(losses, words_per_second, dev, best)
        finally:
            self.take_step.release()

    def rehearse(self) -> None:
        """Read a few sentences without learning from them, so that what cannot be trained is refused at once."""
        self.model.network.eval()
        self.take_step.rehearse(Picked(self.material, self.material.samples()))

    def _steps_until_due(self) -> tuple[int, int]:
        """Take steps until there is something to tell; the sentences and words that went by."""
        loop_state, settings = self.loop_state, self.settings
        n_sentences = n_words = 0
        self.model.network.train()
        with matmul_precision(settings.precision), few_threads(self.take_step.device):
            while True:
                if loop_state.seen == len(loop_state.order):
                    self._begin_epoch()
                batch = self._batch_at(loop_state.seen)
                # The first batch of the next epoch is not known yet, and is not collated ahead.
                self._take_step(batch, self._batch_at(loop_state.seen + len(batch)))
                loop_state.seen += len(batch)
                loop_state.step += 1
                n_sentences += len(batch)
                n_words += sum(batch.lengths())
                self.on_step(loop_state.step)
                if self._due:
                    self.take_step.settle()
                    return n_sentences, n_words

    def _batch_at(self, seen: int) -> Picked:
        """The batch of this epoch that comes when so many sentences have been seen."""
        return Picked(self.material, self.loop_state.order[seen : seen + self.settings.batch_size])

    def _take_step(self, batch: Picked, following: Picked) -> None:
        """A step, the batch of the next one being collated meanwhile."""
        with explain_out_of_memory(lambda: _out_of_memory(batch)):
            self.take_step(batch, self.loop_state.step, following)

    def _begin_epoch(self) -> None:
        self.loop_state.epoch += 1
        self.loop_state.order = self.material.order(self.settings.batch_size, self.shuffling)
        self.loop_state.seen = 0
        self.loop_state.sums = [0.0] * len(LOSS_PARTS)

    @property
    def _epoch_done(self) -> bool:
        return self.loop_state.seen == len(self.loop_state.order)

    @property
    def _finished(self) -> bool:
        patience = self.settings.patience
        worn_out = patience is not None and self.loop_state.stale >= patience
        return worn_out or self.loop_state.step == self.n_steps

    @property
    def _due(self) -> bool:
        logged = _every(self.settings.log_steps, self.loop_state.step)
        return logged or self._epoch_done or self._evaluation_due or self._save_due

    @property
    def _evaluation_due(self) -> bool:
        loop_state, settings = self.loop_state, self.settings
        at_end = self._epoch_done and (
            _every(settings.evaluate_every, loop_state.epoch) or loop_state.step == self.n_steps
        )
        return bool(self.dev) and (at_end or _every(settings.evaluate_steps, loop_state.step))

    @property
    def _save_due(self) -> bool:
        loop_state, settings = self.loop_state, self.settings
        at_end = self._epoch_done and _every(settings.save_every, loop_state.epoch)
        return at_end or _every(settings.save_steps, loop_state.step)

    def _losses(self, n_sentences: int) -> dict[str, float]:
        """The mean loss of the last sentences, of all processes, by part and in total."""
        totals = self.take_step.take_totals()
        if self.accelerator.num_processes > 1:
            totals = self.accelerator.reduce(totals, reduction="sum")
        recent = totals.tolist()
        if not all(math.isfinite(value) for value in recent):
            raise CascadeError(
                f"the loss is no longer a number at step {self.loop_state.step}; lower learning_rate and "
                "encoder_learning_rate, or train with precision float32"
            )
        self.loop_state.sums = [before + now for before, now in zip(self.loop_state.sums, recent, strict=True)]
        means = {name: value / n_sentences for name, value in zip(LOSS_PARTS, recent, strict=True)}
        return {**means, "total": sum(means.values())}

    def _evaluated(self) -> tuple[Scores, bool]:
        """Scores on the development documents, and whether the weights are the best so far."""
        loop_state = self.loop_state
        scores = self.evaluate(self.dev)
        now, before = reached(scores), loop_state.best
        loop_state.best = max(before, now)
        loop_state.stale = 0 if now > before else loop_state.stale + 1
        # Of weights that find nothing right yet, those that learned longest are closest to it.
        return scores, now > before or now == before == 0

    def _progress(self, losses: dict[str, float], words_per_second: float, dev: Scores | None, best: bool) -> Progress:
        loop_state = self.loop_state
        return Progress(
            epoch=loop_state.epoch,
            epochs=self.settings.epochs,
            loss=sum(loop_state.sums) / loop_state.seen,
            dev=dev,
            best=best,
            step=loop_state.step,
            steps=self.n_steps,
            epoch_done=self._epoch_done,
            finished=self._finished,
            save=self._save_due,
            parts=losses,
            rates=self.schedule.last_rates,
            seconds=loop_state.seconds,
            words_per_second=words_per_second,
        )

    def evaluated_weights(self) -> AbstractContextManager[None]:
        """The model with the weights that are evaluated and saved: the averaged ones, where there are any."""
        return nullcontext() if self.averaged is None else self.averaged.in_place()

    def evaluate(self, examples: Sequence[Example]) -> Scores:
        """Scores end to end on sentences with gold annotation, each process predicting its share of them."""
        with self.evaluated_weights():
            n, process = self.accelerator.num_processes, self.accelerator.process_index
            if n == 1:
                return evaluate(self.model, examples)
            self.model.network.eval()
            own = range(process, len(examples), n)
            predicted = self.model.predictor().predict([examples[i] for i in own])
            everywhere = dict(gather_object(list(zip(own, predicted, strict=True))))
            gold = [example.sentence for example in examples]
            return score(gold, [everywhere[i] for i in range(len(gold))], schema=self.model.schema)


def evaluate(model: Model, examples: Sequence[Example]) -> Scores:
    """Scores of a model end to end, on sentences with gold annotation."""
    model.network.eval()
    predicted = model.predictor().predict(examples)
    return score([e.sentence for e in examples], predicted, schema=model.schema)


def _optimiser(model: Model, settings: TrainingSettings, n_steps: int) -> tuple[torch.optim.Optimizer, Schedule]:
    return make_optimiser(
        model.network,
        learning_rate=settings.learning_rate,
        encoder_learning_rate=settings.encoder_learning_rate,
        weight_decay=settings.weight_decay,
        warmup=settings.warmup,
        n_steps=n_steps,
        layer_decay=settings.layer_decay,
        optimiser=settings.optimiser,
        schedule=settings.schedule,
    )


def _out_of_memory(batch: Picked) -> CascadeError:
    return CascadeError(
        f"the device ran out of memory on a batch of {len(batch)} sentences of up to {max(batch.lengths())} words",
        "Split batches into more parts, or lower training.batch_size or training.negatives",
        option="training.accumulation",
    )


def _every(interval: int | None, number: int) -> bool:
    return bool(interval) and number % interval == 0  # type: ignore[operator]
