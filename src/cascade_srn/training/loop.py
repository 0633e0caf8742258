"""The training loop: steps, evaluations and progress reports."""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object

from cascade_srn.errors import CascadeError
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.inference.batching import explain_out_of_memory
from cascade_srn.model.build import family_of
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.runs.device import few_threads, matmul_precision, without_onednn
from cascade_srn.runs.process import make_accelerator, seed_everything
from cascade_srn.training.mixing import Gold, Mixture, Picked
from cascade_srn.training.progress import TrainingProgress, selection_score
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import LOSS_PARTS, AveragedWeights, Step, frozen_layers, make_optimiser
from cascade_srn.training.swapping import EntitySwaps


@dataclass
class LoopState:
    """Everything that changes from step to step, except tensors and random numbers."""

    step: int = 0  # Number of steps taken
    epoch: int = 0  # Current epoch, counted from 1; 0 before the first step
    order: list[int] = field(default_factory=list)  # Numbers of the sentences of this epoch, in order
    seen: int = 0  # Number of them that were used
    sums: list[float] = field(default_factory=lambda: [0.0] * len(LOSS_PARTS))  # Losses summed over those, by part
    best: float = -1.0  # Highest selection score so far
    stale: int = 0  # Number of evaluations since then
    seconds: float = 0.0  # Time since the start of training


class Loop:
    """Iterate over it to train. Its state can be saved between two iterations (:mod:`cascade_srn.training.checkpoint`).

    Under ``accelerate launch`` each process takes its share of every batch. All processes are at the same step, have
    the same weights and yield the same progress.
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
        gold = (example.sentence for example in self.material.gold)
        self.swaps = EntitySwaps(gold) if settings.swapping else None
        self.accelerator = make_accelerator() if accelerator is None else accelerator
        self.on_step = on_step
        self.loop_state = LoopState()
        self.n_steps = settings.epochs * math.ceil(self.material.epoch_size(settings.batch_size) / settings.batch_size)
        self.shuffling = random.Random(settings.seed)
        network: Any = model.network
        # Until training is finished, or the loop is garbage collected.
        self._freezing = ExitStack()
        self._freezing.enter_context(frozen_layers(model.network, settings.frozen))
        if self.accelerator.num_processes > 1:
            network.to(self.accelerator.device)
            # The wrapper exchanges gradients between the processes.
            network = self.accelerator.prepare_model(network)
        self.optimiser, self.schedule = make_optimiser(
            model.network,
            settings,
            self.n_steps,
            label_weights=family_of(model.settings.method).label_rows(model.settings),
        )
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

    def __iter__(self) -> Iterator[TrainingProgress]:
        if self.loop_state.step == 0:
            # Dropout differs between processes. A single process uses the seed itself.
            seed_everything(self.settings.seed + self.accelerator.process_index)
        try:
            while not self._finished:
                started = time.perf_counter()
                n_sentences, n_words = self._steps_until_due()
                # Reading the losses waits for the device, so this measures the time of the steps.
                losses = self._losses(n_sentences)
                words_per_second = n_words / (time.perf_counter() - started)
                dev, best = self._evaluate() if self._evaluation_due else (None, False)
                self.model.network.eval()
                self.loop_state.seconds += time.perf_counter() - started
                yield self._progress(losses, words_per_second, dev, best)
            self._freezing.close()
        finally:
            self.take_step.release()

    def rehearse(self) -> None:
        """Compute the loss of a few sentences, so that errors in the data or settings show before the first step."""
        self.model.network.eval()
        self.take_step.rehearse(Picked(self.material, self.material.samples()))

    def _steps_until_due(self) -> tuple[int, int]:
        """Take steps until a progress report is due. Return the numbers of sentences and words."""
        loop_state, settings = self.loop_state, self.settings
        n_sentences = n_words = 0
        self.model.network.train()
        device = self.take_step.device
        with matmul_precision(settings.precision), few_threads(device), without_onednn(device):
            while True:
                if loop_state.seen == len(loop_state.order):
                    self._begin_epoch()
                batch = self._batch_at(loop_state.seen)
                # At the end of an epoch the next batch is not known yet, and is not collated ahead.
                following = self._batch_at(loop_state.seen + len(batch))
                with explain_out_of_memory(partial(_out_of_memory, batch)):
                    self.take_step(batch, loop_state.step, following)
                loop_state.seen += len(batch)
                loop_state.step += 1
                n_sentences += len(batch)
                n_words += sum(batch.lengths())
                self.on_step(loop_state.step)
                if self._due:
                    self.take_step.settle()
                    return n_sentences, n_words

    def _batch_at(self, seen: int) -> Picked:
        settings = self.settings
        numbers = self.loop_state.order[seen : seen + settings.batch_size]
        # The same noise after a resumption.
        key = f"{settings.seed} {self.loop_state.epoch}"
        return Picked(
            self.material, numbers, noise=settings.noise, swapping=settings.swapping, swaps=self.swaps, key=key
        )

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
        stops_early = patience is not None and self.loop_state.stale >= patience
        return stops_early or self.loop_state.step == self.n_steps

    @property
    def _due(self) -> bool:
        log_due = every(self.settings.log_steps, self.loop_state.step)
        return log_due or self._epoch_done or self._evaluation_due or self._save_due

    @property
    def _evaluation_due(self) -> bool:
        loop_state, settings = self.loop_state, self.settings
        at_end = self._epoch_done and (
            every(settings.evaluate_every, loop_state.epoch) or loop_state.step == self.n_steps
        )
        return bool(self.dev) and (at_end or every(settings.evaluate_steps, loop_state.step))

    @property
    def _save_due(self) -> bool:
        loop_state, settings = self.loop_state, self.settings
        at_end = self._epoch_done and every(settings.save_every, loop_state.epoch)
        return at_end or every(settings.save_steps, loop_state.step)

    def _losses(self, n_sentences: int) -> dict[str, float]:
        """Return the mean loss per sentence since the last report, over all processes, by part and in total."""
        totals = self.take_step.take_totals()
        if self.accelerator.num_processes > 1:
            totals = self.accelerator.reduce(totals, reduction="sum")
        recent = totals.tolist()
        if not all(math.isfinite(value) for value in recent):
            raise CascadeError(
                f"the loss is not a finite number at step {self.loop_state.step}",
                "Lower training.learning_rate and training.encoder_learning_rate, or use float32",
                option="training.precision",
            )
        self.loop_state.sums = [before + now for before, now in zip(self.loop_state.sums, recent, strict=True)]
        means = {name: value / n_sentences for name, value in zip(LOSS_PARTS, recent, strict=True)}
        return {**means, "total": sum(means.values())}

    def _evaluate(self) -> tuple[Scores, bool]:
        """Score the development documents. Return the scores and whether the weights are the best so far."""
        loop_state = self.loop_state
        scores = self.evaluate(self.dev)
        now, before = selection_score(scores), loop_state.best
        loop_state.best = max(before, now)
        loop_state.stale = 0 if now > before else loop_state.stale + 1
        # As long as nothing is found, the latest weights count as the best.
        return scores, now > before or now == before == 0

    def _progress(
        self, losses: dict[str, float], words_per_second: float, dev: Scores | None, best: bool
    ) -> TrainingProgress:
        loop_state = self.loop_state
        return TrainingProgress(
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
        """Give the model the weights that are evaluated and saved: the averages, if the settings ask for them."""
        return nullcontext() if self.averaged is None else self.averaged.in_place()

    def evaluate(self, examples: Sequence[Example]) -> Scores:
        """Score the model end to end on annotated sentences. Each process predicts its share of them.

        Overlapping entities are all kept unless the recipe says otherwise: calibration chooses their treatment later.
        """
        overlaps = self.model.settings.overlaps or "all"
        with self.evaluated_weights():
            n, process = self.accelerator.num_processes, self.accelerator.process_index
            if n == 1:
                return evaluate(self.model, examples, overlaps=overlaps)
            self.model.network.eval()
            own = range(process, len(examples), n)
            predicted = self.model.predictor(overlaps=overlaps).predict([examples[i] for i in own])
            everywhere = dict(gather_object(list(zip(own, predicted, strict=True))))
            gold = [example.sentence for example in examples]
            return score(gold, [everywhere[i] for i in range(len(gold))], schema=self.model.schema)


def evaluate(model: Model, examples: Sequence[Example], *, overlaps: str | None = None) -> Scores:
    """Score a model end to end on annotated sentences."""
    model.network.eval()
    predicted = model.predictor(overlaps=overlaps).predict(examples)
    return score([e.sentence for e in examples], predicted, schema=model.schema)


def _out_of_memory(batch: Picked) -> CascadeError:
    return CascadeError(
        f"the device ran out of memory on a batch of {len(batch)} sentences of up to {max(batch.lengths())} words",
        "Split batches into more parts, or lower training.batch_size or training.negatives",
        option="training.accumulation",
    )


def every(interval: int | None, number: int) -> bool:
    """Return whether something is due that happens at intervals, if there is one."""
    return bool(interval) and number % interval == 0  # type: ignore[operator]
