"""The training loop: a generator that yields progress, so that the caller decides what to show and when to stop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.data.collate import CANDIDATES
from cascade_srn.data.examples import Example, examples_of
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.model import Model
from cascade_srn.schema import Schema
from cascade_srn.training.optimiser import make_optimiser
from cascade_srn.types import Document

PRECISIONS = ("float32", "tf32", "bf16")


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How a model is trained.

    The pretrained encoder learns at ``encoder_learning_rate``, everything else at ``learning_rate``; both rise
    over the first ``warmup`` share of the steps and then fall to zero. ``candidates`` says whose objects the
    object turn learns: those of all gold "entities", or of gold "subjects" only (the paper's ablation).
    ``precision`` "tf32" rounds the factors of matrix products on a GPU, and is the fastest for small batches there;
    "bf16" computes in half precision, and is for large models and batches.
    """

    epochs: int = 30
    batch_size: int = 8
    learning_rate: float = 5e-4
    encoder_learning_rate: float = 3e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_gradient_norm: float = 5.0
    candidates: str = "entities"
    precision: str = "float32"
    evaluate_every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "evaluate_every"):
            require_range(name, getattr(self, name), 1)
        for name in ("learning_rate", "encoder_learning_rate", "weight_decay"):
            require_range(name, getattr(self, name), 0)
        require_range("warmup", self.warmup, 0, 1)
        require_choice("candidates", self.candidates, CANDIDATES)
        require_choice("precision", self.precision, PRECISIONS)
        if self.max_gradient_norm <= 0:
            raise ConfigError(f"max_gradient_norm is {self.max_gradient_norm!r}; give a number above 0")


@dataclass(frozen=True)
class Progress:
    """Where training stands at the end of an epoch. ``dev`` is there where the epoch was evaluated."""

    epoch: int
    epochs: int
    loss: float
    dev: Scores | None = None
    best: bool = False


def train(
    model: Model,
    documents: Iterable[Document],
    dev: Iterable[Document] = (),
    settings: TrainingSettings | None = None,
) -> Iterator[Progress]:
    """Train a model in place, yielding after every epoch.

    With ``dev`` the weights that did best there, by the sum of NER and strict RE F1 end to end (the paper's
    choice), are the ones the model is left with; without, the last ones.
    """
    settings = TrainingSettings() if settings is None else settings
    context = model.settings.encoder.context_words
    examples = [e for e in examples_of(documents, context) if len(e.sentence)]
    dev_examples = examples_of(dev, context)
    _check(model.schema, examples, "training")
    _check(model.schema, dev_examples, "development")
    if not examples:
        raise DataError("the training documents hold no sentence with words; give annotated sentences to learn from")
    return _epochs(model, examples, dev_examples, settings)


def _epochs(
    model: Model, examples: list[Example], dev: list[Example], settings: TrainingSettings
) -> Iterator[Progress]:
    torch.manual_seed(settings.seed)
    shuffling = random.Random(settings.seed)
    n_steps = settings.epochs * math.ceil(len(examples) / settings.batch_size)
    optimiser, schedule = make_optimiser(
        model.cascade,
        learning_rate=settings.learning_rate,
        encoder_learning_rate=settings.encoder_learning_rate,
        weight_decay=settings.weight_decay,
        warmup=settings.warmup,
        n_steps=n_steps,
    )
    best_score, best_weights = -1.0, None
    for epoch in range(1, settings.epochs + 1):
        order = list(examples)
        shuffling.shuffle(order)
        loss = train_epoch(model, order, optimiser, schedule, settings)
        scores, is_best = None, False
        if dev and (epoch % settings.evaluate_every == 0 or epoch == settings.epochs):
            scores = evaluate(model, dev)
            reached = scores.ner.counts.f1 + scores.re_strict.counts.f1
            is_best = reached > best_score
            if is_best:
                best_score, best_weights = reached, _copied(model)
        if epoch == settings.epochs and best_weights is not None:
            model.cascade.load_state_dict(best_weights)
        model.cascade.eval()
        yield Progress(epoch, settings.epochs, loss, scores, is_best)


def train_epoch(
    model: Model,
    examples: Sequence[Example],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    settings: TrainingSettings,
    done: Callable[[str], None] = lambda part: None,
) -> float:
    """One pass over the examples; the mean loss of a sentence.

    ``done`` is told the end of each part of a step: collating, forward, backward, optimiser.
    """
    cascade = model.cascade.train()
    device = next(cascade.parameters()).device
    total = torch.zeros((), device=device)
    with _matrix_products(settings.precision):
        for at in range(0, len(examples), settings.batch_size):
            members = examples[at : at + settings.batch_size]
            batch = model.collator.training_batch(
                members, candidates=settings.candidates, joint=cascade.relations is not None
            ).to(device)
            done("collating")
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=settings.precision == "bf16"):
                loss = cascade(batch, model.settings.loss_weights).total
            done("forward")
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            done("backward")
            torch.nn.utils.clip_grad_norm_(cascade.parameters(), settings.max_gradient_norm)
            optimiser.step()
            schedule.step()
            total += loss.detach() * len(members)
            done("optimiser")
    return float(total) / len(examples)


@contextmanager
def _matrix_products(precision: str) -> Iterator[None]:
    """Factors of float32 matrix products rounded to tf32 on a GPU, where asked for, and as before afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def evaluate(model: Model, examples: Sequence[Example]) -> Scores:
    """Scores of a model end to end, on sentences with gold annotation."""
    model.cascade.eval()
    predicted = model.predictor().predict(examples)
    return score([e.sentence for e in examples], predicted, schema=model.schema)


def _copied(model: Model) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.cascade.state_dict().items()}


def _check(schema: Schema, examples: Sequence[Example], which: str) -> None:
    for number, example in enumerate(examples):
        start = " ".join(example.sentence.words[:6])
        schema.check(example.sentence, f"sentence {number} of the {which} documents ({start!r} …)")
