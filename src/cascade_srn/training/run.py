"""Training: of a model in memory, and of a recipe to a run folder."""

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from torch import Tensor

from cascade_srn.config import FRESH, ModelSettings, SearchLimits
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.evaluation.calibration.calibrate import calibrate
from cascade_srn.evaluation.calibration.precision import measure_precision
from cascade_srn.model.folder import CARD_FILE
from cascade_srn.model.model import Model
from cascade_srn.model.start import OPTION, Start
from cascade_srn.network.examples import Example
from cascade_srn.runs.device import find_device
from cascade_srn.runs.environment import RunContext, shareable
from cascade_srn.runs.folder import SUMMARY
from cascade_srn.storage.atomic import leaving_no_folders
from cascade_srn.text.forms import model_words
from cascade_srn.training.card import score_split, score_with_noise, training_card
from cascade_srn.training.checkpoint import load_state, save_state
from cascade_srn.training.corpus import Corpus, read_corpus, training_examples
from cascade_srn.training.defaults import default_training
from cascade_srn.training.loop import Loop
from cascade_srn.training.mixing import Mixture
from cascade_srn.training.preflight import preflight, require_entities
from cascade_srn.training.progress import (
    TrainingProgress,
    can_draw,
    choose_trackers,
    draw_curves,
    flatten,
    tracker_options,
)
from cascade_srn.training.recipe import FreshEncoderSettings, Recipe
from cascade_srn.training.run_folder import BEST, CURVES, DATA, ENVIRONMENT, PREFLIGHT, RunFolder
from cascade_srn.training.settings import DistillationSettings, TrainingSettings
from cascade_srn.types import Document

# Lowest limit on the words of an entity, because few annotations have few long entities.
_SHORTEST_LIMIT = 10


def train(
    model: Model, documents: Iterable[Document], dev: Iterable[Document] = (), settings: TrainingSettings | None = None
) -> Iterator[TrainingProgress]:
    """Train a model in place. Nothing is written to disk.

    In the end the model has the weights with the highest sum of NER and strict RE F1 on ``dev``, as in the paper, or
    the last weights if ``dev`` is empty. A caller who stops early gets the best weights so far.

    Args:
        model: The model to train.
        documents: Annotated documents to learn from.
        dev: Annotated documents to choose the best weights on.
        settings: How to train. None: by the number of sentences and the size of the encoder
            (:func:`~cascade_srn.training.defaults.default_training`).

    Yields:
        A progress report after every epoch and every evaluation.

    Raises:
        DataError: if there is nothing to learn from.
        SchemaError: if the documents have labels that the model does not have.
    """
    if not isinstance(settings, TrainingSettings | None):
        raise ConfigError(
            f"settings is a {type(settings).__name__}, but TrainingSettings was expected",
            "Use TrainingSettings(…) or TrainingSettings.from_dict(…)",
            option="settings",
        )
    examples, dev_examples = training_examples(model, documents, dev)
    if settings is None:
        values = default_training(
            len(examples),
            width=model.network.encoder.config.hidden_size,
            n_dev=len(dev_examples),
            is_gpu=find_device("auto").type == "cuda",
        )
        settings = TrainingSettings.from_dict(values)
    model.forget_card()
    return _train_in_memory(Loop(model, examples, dev_examples, settings))


def _train_in_memory(loop: Loop) -> Iterator[TrainingProgress]:
    """Run a loop, keep a copy of the best weights, and give them to the model in the end."""
    best: dict[str, Tensor] | None = None

    def restore_best() -> None:
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
                restore_best()
            if progress.epoch_done or progress.dev is not None or progress.finished:
                yield progress
    finally:
        restore_best()


def create_model(
    recipe: Recipe, corpus: Corpus, *, accelerator: Accelerator, folder: Path, start: Start | None = None
) -> Model:
    """Create the model of a recipe. Parameters that are not pretrained are random, by the recipe's seed.

    All processes must call this. A fresh encoder is passed to them through the shared ``folder``. ``start`` is the
    trained model that the recipe names.
    """
    settings, seed = limit_length(recipe.model, corpus.train), recipe.training.seed
    if start is not None:
        return start.build(corpus.schema, settings, seed=seed)
    if settings.encoder.name != FRESH:
        return Model.create(settings, corpus.schema, seed=seed)
    with _fresh_encoder(recipe, corpus, accelerator, folder) as name:
        named = replace(settings, encoder=replace(settings.encoder, name=name))
        # The encoder's folder is temporary, so the model keeps the name in the recipe.
        return replace(Model.create(named, corpus.schema, seed=seed), settings=settings)


def limit_length(settings: ModelSettings, documents: Iterable[Document]) -> ModelSettings:
    """Return settings with which a model finds no entities that are much longer than the longest annotated one.

    In text without punctuation it would else join the words of whole sentences. A limit of the recipe is kept.
    """
    if settings.limits.entity_words != SearchLimits.entity_words:
        return settings
    lengths = (e.end - e.start for document in documents for sentence in document.sentences for e in sentence.entities)
    longest = max(lengths, default=0)
    n_words = max(_SHORTEST_LIMIT, longest + 2, round(1.15 * longest))
    return replace(settings, limits=replace(settings.limits, entity_words=n_words))


@contextmanager
def _fresh_encoder(recipe: Recipe, corpus: Corpus, accelerator: Accelerator, folder: Path) -> Iterator[str]:
    """Yield the folder of a small encoder with a vocabulary of the training words, made by the main process."""
    shape = FreshEncoderSettings() if recipe.fresh is None else recipe.fresh
    made = folder / ".fresh-encoder.tmp"
    with leaving_no_folders(folder) if accelerator.is_main_process else nullcontext():
        if accelerator.is_main_process:
            sentences = [sentence for document in corpus.train for sentence in document.sentences]
            words = [word for sentence in sentences for word in model_words(sentence.words, recipe.model.text_form)]
            create_encoder(words, made, seed=recipe.training.seed, **shape.to_dict())
        accelerator.wait_for_everyone()
        try:
            yield str(made)
            accelerator.wait_for_everyone()
        finally:
            if accelerator.is_main_process:
                shutil.rmtree(made)


class Run:
    """One run of a recipe. Iterate over it to train; ``summary.json`` in its folder is written last.

    The constructor raises errors in the recipe, the data or the folder. Under ``accelerate launch`` every process
    creates the same run, and the main process writes. The folder is locked until the run is finished or garbage
    collected. ``command`` is the command for the summary; by default that of this process. ``on_step`` is called with
    the number of each step.

    Example:
        >>> for progress in Run(load_recipe("recipes/news.yaml")):
        ...     print(progress.step, progress.loss)
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
        trackers = choose_trackers(recipe.training.trackers)
        self.context = RunContext(device, command, **tracker_options(trackers, self.folder.path))
        self.accelerator, self.device = self.context.accelerator, self.context.device
        with ExitStack() as locks:
            if self.context.is_main:
                locks.enter_context(self.folder.lock())
                self.folder.check(recipe, resume=resume, overwrite=overwrite)
            self._prepare(on_step)
            if self.context.is_main:
                if not overwrite:
                    self.folder.refuse_other_data(self._checksums())
                self.folder.begin(recipe, overwrite=overwrite)
            self.accelerator.wait_for_everyone()
            state = load_state(self.loop, self.folder.last)
            self.resumed_at = None if state is None else self.loop.loop_state.step
            if self.context.is_main:
                self.folder.restore_log(state)
                self._describe()
            self._locks = locks.pop_all()

    def _prepare(self, on_step: Callable[[int], None]) -> None:
        recipe = self.recipe
        self.start = None if recipe.model.start is None else Start(recipe.model.start)
        self.corpus = read_corpus(recipe.data)
        require_entities(self.corpus)
        self.model = create_model(
            recipe, self.corpus, accelerator=self.accelerator, folder=self.folder.path, start=self.start
        )
        self.model.network.to(self.device)
        self.preflight = preflight(self.model, self.corpus)
        if self.start is not None:
            self.started_labels = self.start.labels(self.corpus.schema, joint=self.model.network.relations is not None)
            self.preflight = self.preflight.with_start(self.start.name, self.started_labels)
        examples, dev = training_examples(self.model, self.corpus.train, self.corpus.dev)
        self.mixture = self._mixture(examples)
        material = examples if self.mixture is None else self.mixture
        self.loop = Loop(self.model, material, dev, recipe.training, accelerator=self.accelerator, on_step=on_step)
        self.loop.rehearse()

    def _checksums(self) -> dict[str, tuple[str, str]]:
        """Return paths and checksums of everything that the run learns from, by setting."""
        started = {} if self.start is None else {OPTION: (self.start.name, self.start.sha256)}
        return {f"data.{name}": found for name, found in self.corpus.checksums.items()} | started

    def _mixture(self, examples: list[Example]) -> Mixture | None:
        """Mix gold sentences with labelled ones, if the recipe has data.labels."""
        labelled = self.corpus.labelled
        if labelled is None:
            return None
        if self.model.network.relations is not None and not labelled.joint:
            raise ModelError(
                f"the labels in data.labels, {self.recipe.data.labels!r}, have no relations, but the student learns "
                "relations",
                "Use other teachers, or set it to false",
                option="model.joint",
            )
        settings = self.recipe.distillation or DistillationSettings()
        mixture = Mixture(examples, labelled, settings, context_words=self.recipe.model.encoder.context_words)
        self.preflight = self.preflight.with_uncertain(mixture.n_uncertain, settings.confidence)
        return mixture

    def __iter__(self) -> Iterator[TrainingProgress]:
        # TensorBoard drops the steps that are taken again after a resumption.
        purge = {"purge_step": self.loop.loop_state.step + 1}
        self.accelerator.init_trackers("cascade-srn", init_kwargs={"tensorboard": purge})
        for progress in self.loop:
            self._write(progress)
            yield progress
        self._finish()

    def _describe(self) -> None:
        described = self.corpus.to_dict()
        if self.mixture is not None:
            described["labels"] |= {"learned": len(self.mixture.kept), "uncertain": self.mixture.n_uncertain}
        if self.start is not None:
            origin = {"path": self.start.name, "sha256": self.start.sha256}
            described["start"] = origin | self.started_labels.to_dict()
        self.folder.write_json(DATA, described)
        self.folder.write_json(PREFLIGHT, self.preflight.to_dict())
        self.folder.write_json(ENVIRONMENT, self.context.environment())

    def _write(self, progress: TrainingProgress) -> None:
        """Write a line of the log and, if they are due, the best model and the state."""
        values = progress.to_dict()
        self.accelerator.log(flatten(values), step=progress.step)
        log_bytes = 0
        if self.context.is_main:
            log_bytes = self.folder.log(values, durable=progress.save)
            # Without development documents the last weights are kept.
            if progress.best or (progress.finished and not self.loop.dev):
                with self.folder.writing(), self.loop.evaluated_weights():
                    self.model.save(self.folder.best)
        if progress.save:
            with self.folder.writing():
                save_state(self.loop, self.folder.last, log_bytes=log_bytes)

    def _finish(self) -> None:
        """Score the best weights and write the summary."""
        self.accelerator.wait_for_everyone()
        if self.context.is_main:
            best = self._load_best()
            splits = {"dev": self.corpus.dev, "test": self.corpus.test}
            results = {split: score_split(best, documents) for split, documents in splits.items() if documents}
            log, loop_state = self.folder.read_log(), self.loop.loop_state
            self._draw(log)
            summary = {
                "command": self.context.command,
                "recipe": self.recipe.to_dict(),
                "seed": self.recipe.training.seed,
                **{split: result.scores.to_dict() for split, result in results.items()},
                **self._score_noise(best),
                "thresholds": best.settings.thresholds.to_dict(),
                "temperatures": best.settings.temperatures.to_dict(),
                "overlaps": best.overlaps,
                "constraints": best.settings.constraints,
                "steps": loop_state.step,
                "epochs": loop_state.epoch,
                "best_step": next((line["step"] for line in reversed(log) if line.get("best")), loop_state.step),
                "seconds": round(loop_state.seconds, 1),
                "environment": self.folder.read_json(ENVIRONMENT),
                "data": self.folder.read_json(DATA),
            }
            described = shareable(summary)
            card = training_card(best, self.recipe, self.corpus, results, described)
            self.folder.write_text(f"{BEST}/{CARD_FILE}", card)
            self.folder.write_json(SUMMARY, described)
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self._locks.close()
        self.accelerator.wait_for_everyone()

    def _score_noise(self, best: Model) -> dict[str, Any]:
        """Return the scores with noise, if the model was trained with noise."""
        if not self.recipe.training.noise or not self.corpus.dev:
            return {}
        return {"noise": score_with_noise(best, self.corpus.dev)}

    def _load_best(self) -> Model:
        """Load the best model, and calibrate it if the recipe says so."""
        model = Model.load(self.folder.best)
        model.network.to(self.device)
        if self.recipe.training.calibrate and self.loop.dev:
            # Start from the thresholds of the recipe. An interrupted run may have saved others.
            initial = self.recipe.model
            settings = replace(
                model.settings,
                thresholds=initial.thresholds,
                temperatures=initial.temperatures,
                constraints=initial.constraints,
            )
            model = calibrate(
                replace(model, settings=settings),
                self.loop.dev,
                by_label=self.recipe.training.calibrate_labels,
                overlaps=initial.overlaps,
            )
            model = replace(model, precision_record=measure_precision(model, self.corpus.dev))
            with self.folder.writing():
                model.save(self.folder.best)
        return model

    def _draw(self, log: list[dict[str, Any]]) -> None:
        if can_draw():
            with self.folder.writing():
                draw_curves(log, self.folder.path / CURVES)
        else:
            warnings.warn(
                f"{CURVES} is not drawn, because matplotlib is not installed. Install it with pip install "
                "'cascade-srn[report]'.",
                stacklevel=2,
            )
