"""A whole training run: from a recipe to a folder with the model, its scores, and all that led to them."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import Tensor

from cascade_srn.calibration.choose import calibrate
from cascade_srn.config import FRESH
from cascade_srn.data.examples import Example, examples_of
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.evaluation.scores import Scores
from cascade_srn.model.model import Model
from cascade_srn.runs.environment import RunContext, shareable
from cascade_srn.runs.folder import SUMMARY
from cascade_srn.storage.folders import leaving_no_folders
from cascade_srn.training.checkpoint import load_state, save_state
from cascade_srn.training.corpus import Corpus, read_corpus, training_examples
from cascade_srn.training.loop import Loop, evaluate
from cascade_srn.training.mixing import Mixture
from cascade_srn.training.preflight import preflight, require_entities
from cascade_srn.training.progress import (
    Progress,
    can_draw,
    check_trackers,
    draw_curves,
    flatten,
    start_trackers,
    tracker_options,
)
from cascade_srn.training.recipe import FreshEncoderSettings, Recipe
from cascade_srn.training.run_folder import CURVES, DATA, ENVIRONMENT, PREFLIGHT, RunFolder
from cascade_srn.training.settings import DistillationSettings, TrainingSettings
from cascade_srn.types import Document


def train(
    model: Model,
    documents: Iterable[Document],
    dev: Iterable[Document] = (),
    settings: TrainingSettings | None = None,
) -> Iterator[Progress]:
    """Train a model in place, yielding after every epoch and every evaluation.

    With ``dev`` the weights that did best there, by the sum of NER and strict RE F1 end to end (the paper's
    choice), are the ones the model is left with, also by a caller who stops early; without, the last ones.
    """
    settings = TrainingSettings() if settings is None else settings
    if not isinstance(settings, TrainingSettings):
        raise ConfigError(
            f"settings is a {type(settings).__name__}; give TrainingSettings(…), or TrainingSettings.from_dict(…)"
        )
    examples, dev_examples = training_examples(model, documents, dev)
    return _in_memory(Loop(model, examples, dev_examples, settings))


def _in_memory(loop: Loop) -> Iterator[Progress]:
    """The loop with the best weights kept beside the model, nothing being written."""
    best: dict[str, Tensor] | None = None

    def put_back() -> None:
        if best is not None:
            loop.model.network.load_state_dict(best)
        elif loop.averaged is not None:
            loop.averaged.copy_to_module()

    try:
        for progress in loop:
            if progress.best:
                with loop.evaluated_weights():
                    best = {name: value.detach().clone() for name, value in loop.model.network.state_dict().items()}
            if progress.finished:
                put_back()
            if progress.epoch_done or progress.dev is not None or progress.finished:
                yield progress
    finally:
        put_back()


def create_model(recipe: Recipe, corpus: Corpus, *, accelerator: Accelerator, folder: Path) -> Model:
    """The model of a recipe before training; what is not pretrained starts at random, by the recipe's seed.

    All processes call this. A fresh encoder passes through the ``folder`` that they share.
    """
    settings, seed = recipe.model, recipe.training.seed
    if settings.encoder.name != FRESH:
        return Model.create(settings, corpus.schema, seed=seed)
    with _fresh_encoder(recipe, corpus, accelerator, folder) as name:
        named = replace(settings, encoder=replace(settings.encoder, name=name))
        # The encoder's folder is gone in a moment: the model keeps the name that the recipe gives.
        return replace(Model.create(named, corpus.schema, seed=seed), settings=settings)


@contextmanager
def _fresh_encoder(recipe: Recipe, corpus: Corpus, accelerator: Accelerator, folder: Path) -> Iterator[str]:
    """The folder of a small encoder over the training words, made by the main process alone: transformers has no
    other process write."""
    shape = FreshEncoderSettings() if recipe.fresh is None else recipe.fresh
    made = folder / ".fresh-encoder.tmp"
    with leaving_no_folders(folder) if accelerator.is_main_process else nullcontext():
        if accelerator.is_main_process:
            words = [word for document in corpus.train for sentence in document.sentences for word in sentence.words]
            create_encoder(words, made, seed=recipe.training.seed, **shape.to_dict())
        accelerator.wait_for_everyone()
        try:
            yield str(made)
            accelerator.wait_for_everyone()
        finally:
            if accelerator.is_main_process:
                shutil.rmtree(made)


# Weights are float32, and so are Adam's two moments and the averages.
_N_MOMENTS = 2


class Run:
    """One run of a recipe. Iterate over it to train; then its folder holds everything, ``summary.json`` last.

    Raises what is wrong with the recipe, the data or the folder before the first step is taken. Under ``accelerate
    launch`` every process makes the same run, and the main one writes. Until the run is finished or forgotten, no other
    process can write into its folder.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        resume: bool = False,
        overwrite: bool = False,
        device: str = "auto",
        command: str | None = None,
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.recipe = recipe
        self.folder = RunFolder(recipe.output)
        check_trackers(recipe.training.trackers)
        self.context = RunContext(device, command, **tracker_options(recipe.training.trackers, self.folder.path))
        self.accelerator, self.device = self.context.accelerator, self.context.device
        with ExitStack() as held:
            if self.context.is_main:
                held.enter_context(self.folder.lock())
                self.folder.check(recipe, resume=resume, overwrite=overwrite)
            self._prepare(on_step)
            if self.context.is_main:
                self._check_space()
                if not overwrite:
                    self._check_data()
                self.folder.begin(recipe, overwrite=overwrite)
            self.accelerator.wait_for_everyone()
            state = load_state(self.loop, self.folder.last)
            self.resumed_at = None if state is None else self.loop.loop_state.step
            if self.context.is_main:
                self.folder.restore_log(state)
                self._describe()
            self._held = held.pop_all()

    def _prepare(self, on_step: Callable[[int], None]) -> None:
        """Data, model and loop."""
        recipe = self.recipe
        self.corpus = read_corpus(recipe.data)
        require_entities(self.corpus)
        self.model = create_model(recipe, self.corpus, accelerator=self.accelerator, folder=self.folder.path)
        self.model.network.to(self.device)
        self.preflight = preflight(self.model, self.corpus)
        examples, dev = training_examples(self.model, self.corpus.train, self.corpus.dev)
        self.mixture = self._mixture(examples)
        material = examples if self.mixture is None else self.mixture
        self.loop = Loop(self.model, material, dev, recipe.training, accelerator=self.accelerator, on_step=on_step)
        self.loop.rehearse()

    def _mixture(self, examples: list[Example]) -> Mixture | None:
        """Gold sentences with those of labelled text, where there is any."""
        labelled = self.corpus.labelled
        if labelled is None:
            return None
        if self.model.network.relations is not None and not labelled.joint:
            raise ModelError(
                f"data.labels, {self.recipe.data.labels!r}, come from teachers that find entities alone, and the "
                "student is to find relations as well; use other teachers, or train with model.joint=false"
            )
        settings = self.recipe.distillation or DistillationSettings()
        mixture = Mixture(examples, labelled, settings, context_words=self.recipe.model.encoder.context_words)
        self.preflight = self.preflight.with_uncertain(mixture.n_uncertain, settings.confidence)
        return mixture

    def __iter__(self) -> Iterator[Progress]:
        start_trackers(self.accelerator, from_step=self.loop.loop_state.step)
        for progress in self.loop:
            self._keep(progress)
            yield progress
        self._finish()

    def _check_data(self) -> None:
        """Resuming is going on with the same data."""
        self.folder.refuse_other_data(self.corpus.checksums)

    def _describe(self) -> None:
        """What is known before the first step."""
        described = self.corpus.to_dict()
        if self.mixture is not None:
            described["labels"] |= {"learned": len(self.mixture.kept), "uncertain": self.mixture.n_uncertain}
        self.folder.write_json(DATA, described)
        self.folder.write_json(PREFLIGHT, self.preflight.to_dict())
        self.folder.write_json(ENVIRONMENT, self.context.environment())

    def _check_space(self) -> None:
        training = self.recipe.training
        n_bytes = sum(p.numel() * p.element_size() for p in self.model.network.parameters())
        copies = 1 + _N_MOMENTS + (training.ema is not None)
        saves = bool(training.save_every or training.save_steps)
        self.folder.check_space(n_model_bytes=n_bytes, n_state_bytes=saves * copies * n_bytes)

    def _keep(self, progress: Progress) -> None:
        """Write what a moment of training calls for: a line of the log, the best model, the state."""
        values = progress.to_dict()
        self.accelerator.log(flatten(values), step=progress.step)
        log_bytes = 0
        if self.context.is_main:
            log_bytes = self.folder.log(values, durable=progress.save)
            # Without development documents the last weights are the best there are.
            if progress.best or (progress.finished and not self.loop.dev):
                with self.folder.writing(), self.loop.evaluated_weights():
                    self.model.save(self.folder.best)
        if progress.save:
            with self.folder.writing():
                save_state(self.loop, self.folder.last, log_bytes=log_bytes)

    def _finish(self) -> None:
        """Score the best weights and write how it all went."""
        self.accelerator.wait_for_everyone()
        if self.context.is_main:
            best = self._best()
            scores = {
                split: _scores(best, documents).to_dict()
                for split, documents in (("dev", self.corpus.dev), ("test", self.corpus.test))
                if documents
            }
            log = self.folder.read_log()
            self._draw(log)
            loop_state = self.loop.loop_state
            summary = {
                "command": self.context.command,
                "recipe": self.recipe.to_dict(),
                "seed": self.recipe.training.seed,
                **scores,
                "thresholds": best.settings.thresholds.to_dict(),
                "temperatures": best.settings.temperatures.to_dict(),
                "steps": loop_state.step,
                "epochs": loop_state.epoch,
                "best_step": next((line["step"] for line in reversed(log) if line.get("best")), loop_state.step),
                "seconds": round(loop_state.seconds, 1),
                "environment": self.folder.read_json(ENVIRONMENT),
                "data": self.folder.read_json(DATA),
            }
            self.folder.write_json(SUMMARY, shareable(summary))
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self._held.close()
        self.accelerator.wait_for_everyone()

    def _best(self) -> Model:
        """The best model, calibrated where it is to be."""
        model = Model.load(self.folder.best)
        model.network.to(self.device)
        if self.recipe.training.calibrate and self.loop.dev:
            # From the recipe's own, whatever an interrupted run may have left.
            given = self.recipe.model
            as_given = replace(model.settings, thresholds=given.thresholds, temperatures=given.temperatures)
            by_label = self.recipe.training.calibrate_labels
            model = calibrate(replace(model, settings=as_given), self.loop.dev, by_label=by_label)
            with self.folder.writing():
                model.save(self.folder.best)
        return model

    def _draw(self, log: list[dict[str, Any]]) -> None:
        if can_draw():
            with self.folder.writing():
                draw_curves(log, self.folder.path / CURVES)
        else:
            warnings.warn(
                f"{CURVES} is not drawn, because matplotlib is not installed; install it by pip install "
                "'cascade-srn[report]'",
                stacklevel=2,
            )


def _scores(model: Model, documents: list[Document]) -> Scores:
    return evaluate(model, examples_of(documents, model.settings.encoder.context_words))
