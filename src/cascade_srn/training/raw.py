"""Train with raw text: adapt the encoder to it, label it, and keep each step that raises the scores on dev."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from cascade_srn.config import FRESH
from cascade_srn.encoder.pretrained import PretrainedEncoder, load_encoder, quiet_transformers
from cascade_srn.errors import ConfigError, DataError, ModelError
from cascade_srn.formats.registry import write_documents
from cascade_srn.inputs.texts import find_texts, read_texts
from cascade_srn.model.model import Model
from cascade_srn.model.start import Start
from cascade_srn.runs.display import show_progress
from cascade_srn.runs.environment import RunContext, shareable
from cascade_srn.runs.folder import SUMMARY, OutputFolder, differences, remove
from cascade_srn.storage.atomic import replacing_folder
from cascade_srn.storage.files import checksum
from cascade_srn.training.adapt import AdaptProgress, AdaptSettings
from cascade_srn.training.adapt.run import Adaptation, AdaptFolder
from cascade_srn.training.corpus import compute_checksums, read_corpus
from cascade_srn.training.display import train_with_display
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.distil.labelling import LabelFolder, Labelling, LabelProgress
from cascade_srn.training.distil.sampling import sample_sentences
from cascade_srn.training.recipe import Recipe
from cascade_srn.training.run_folder import BEST, LABELS, RunFolder
from cascade_srn.types import Document

# Names of the stages, and of the folders of their runs.
ANNOTATIONS, ADAPTED, LABELLED = "annotations", "adapted", "labelled"
RECORD, HELD_OUT = "raw.json", "held-out.jsonl"
# The adapted encoder. With ``model.start``, also the encoder of that model, and the model with the adapted encoder.
ENCODER, START_ENCODER, START = "encoder", "start-encoder", "start"
_OWN = (ANNOTATIONS, ADAPTED, LABELLED, RECORD, HELD_OUT, ENCODER, START_ENCODER, START, LABELS, BEST, SUMMARY)
# Share of the training documents that measures the stages if the recipe has no dev.
_DEV_SHARE = 0.2
# Words of raw text for each step of the adaptation: about three passes over the text.
_WORDS_PER_STEP = 1000
# Least number of passes over the labelled sentences.
_FEWEST_EPOCHS = 2


@dataclass(frozen=True)
class RawSettings:
    """How raw text is used.

    Attributes:
        field: Field of a JSON record that contains the text.
        adapt_words: Least number of words to adapt the encoder to.
        min_steps: Least number of steps of the adaptation.
        max_steps: Largest number of steps of the adaptation.
        sequence_pieces: Pieces per sequence of the adaptation.
        label_sentences: Least number of sentences to label.
        max_sentences: Largest number of sentences to label, evenly spaced over the text.
    """

    field: str = "text"
    adapt_words: int = 100_000
    min_steps: int = 500
    max_steps: int = 3000
    sequence_pieces: int = 128
    label_sentences: int = 200
    max_sentences: int = 10_000


@dataclass(frozen=True)
class Stage:
    """One stage: F1 of NER and strict RE on dev, or the reason why it was skipped, and whether its model was kept."""

    name: str
    ner: float | None = None
    re_strict: float | None = None
    kept: bool = False
    skipped: str = ""

    @property
    def score(self) -> float:
        """Sum of both scores, by which models are chosen."""
        return (self.ner or 0.0) + (self.re_strict or 0.0)


class RawFolder(OutputFolder):
    """The folder of a training with raw text, identified by its ``raw.json``. The runs of the stages are in it."""

    marker = RECORD
    kind = "a training with raw text"

    def is_own(self, member: Path) -> bool:
        """Return whether a file or folder was written by the training."""
        return member.name in _OWN or self.is_temporary(member)

    def is_temporary(self, member: Path) -> bool:
        """Return whether a killed process was writing this. Models are written to a folder beside them."""
        hidden = tuple(f".{name}-" for name in (BEST, START, START_ENCODER))
        return member.name.startswith(hidden) or super().is_temporary(member)

    def begin(self, record: dict[str, Any], *, overwrite: bool) -> None:
        """Prepare the folder, and refuse to continue with another recipe, other data or other text."""
        if self.is_begun and not overwrite:
            for key, old, new in differences(self.read_json(RECORD) or {}, record):
                changed = f"{key}={old!r} and cannot be continued with {key}={new!r}"
                if not key.startswith("recipe."):
                    changed = f"other {'raw text' if key == 'texts' else key}"
                raise ConfigError(
                    f"the training in {str(self.path)!r} was started with {changed}",
                    "Use the same recipe and text, start over, or choose another output folder",
                    option="overwrite",
                )
        self.prepare(overwrite=overwrite)
        self.write_json(RECORD, record)


class RawTraining:
    """Trains a recipe with the help of raw text. :meth:`run` trains.

    Stages: train on the annotations; adapt the encoder to the text and train again; label the text with the better
    model and train again on both. A stage that does not raise the sum of NER and strict RE F1 on dev is undone.
    ``best`` in the output folder is the model that is kept. Sentences of dev and test are removed from the text.

    A training that was killed continues where it stopped. The folder is locked until this object is garbage collected.

    Args:
        recipe: The recipe. Without ``data.dev``, a fifth of the training documents is held out.
        texts: Files and folders of raw text.
        settings: From how much text on a stage is worth its time.
        overwrite: Start over.
        device: Where to train.
        console: Where progress is shown. None: nowhere.

    Raises:
        ConfigError: If the recipe, the options or the output folder do not fit.
        DataError: If data or texts cannot be read.
    """

    def __init__(
        self,
        recipe: Recipe,
        texts: Sequence[str | Path],
        settings: RawSettings | None = None,
        *,
        overwrite: bool = False,
        device: str = "auto",
        console: Console | None = None,
    ) -> None:
        self.settings = RawSettings() if settings is None else settings
        self.console = Console(quiet=True) if console is None else console
        self.recipe, self.texts, self.device = recipe, list(texts), device
        self.folder, self.stages = RawFolder(recipe.output), list[Stage]()
        self.stage = ANNOTATIONS
        self._refuse_unsupported()
        self.folder.refuse_sources(self.texts)
        files = find_texts(self.texts)
        if recipe.data.dev is None:
            self.recipe = replace(recipe, data=replace(recipe.data, dev=_DEV_SHARE))
            self.console.print(
                f"The recipe has no data.dev. A share of {_DEV_SHARE:g} of the training documents is held out to "
                "measure the stages."
            )
        self.corpus = read_corpus(self.recipe.data)
        annotated = [*self.corpus.dev, *self.corpus.test]
        # Sentences as they are annotated, and as the raw text is split.
        self.held_out = [*annotated, *(Document.from_text(document.text) for document in annotated)]
        if overwrite or not self.folder.is_finished:
            self._count(files)
        self._lock = self.folder.lock()
        self.folder.check_writable(resume=True, overwrite=overwrite)
        self.folder.begin(self._record(files), overwrite=overwrite)
        if not self.folder.is_finished:
            write_documents(self.held_out, self.folder.path / HELD_OUT, "jsonl")

    def _count(self, files: Sequence[Path]) -> None:
        """Count sentences and words of the text, without those of dev and test."""
        texts = list(read_texts(files, field=self.settings.field))
        try:
            sampled = sample_sentences(texts, self.held_out, LabelSettings())
        except DataError as error:
            raise DataError(error.problem, "Give other texts, or train without raw text", option="raw") from error
        self.counts = sampled.counts
        self.n_words = sum(len(text.split()) for document in sampled.documents for text in document.sentences)

    def _refuse_unsupported(self) -> None:
        data = self.recipe.data
        if data.labels is not None:
            raise ConfigError(
                f"the recipe has data.labels, {data.labels!r}, but raw text is labelled by the trained model",
                "Remove one of the two",
                option="data.labels",
            )
        if data.folds is not None and data.fold is None:
            raise ConfigError("raw text and folds were given, but raw text is for one run", "Use one of the two")
        if RunContext(self.device).n_processes > 1:
            raise ConfigError("raw text cannot be used with accelerate launch", "Start a single process")

    def _record(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return what must be the same when the training continues."""
        recipe = self.recipe.to_dict()
        for name in ("output", "card"):
            recipe.pop(name)
        recipe["training"].pop("trackers")
        data = {name: sha256 for name, (_, sha256) in compute_checksums(self.recipe.data).items()}
        texts = [checksum(file) for file in files]
        record = {"recipe": recipe, "settings": asdict(self.settings), "texts": texts, **data}
        return dict(json.loads(json.dumps(record)))  # lists instead of tuples, to compare with the file

    def run(self) -> dict[str, Any]:
        """Run the stages that are not finished. Return the summary of the best model, with the stages."""
        if self.folder.is_finished:
            self.console.print(f"The training in {self.folder.path} is finished; there is nothing to resume.")
            summary = self.folder.read_json(SUMMARY) or {}
            self.stages = [Stage(**stage) for stage in summary["stages"]]
            return summary
        left_out = f" Left out: {self.counts.held_out:,} sentences of dev or test." if self.counts.held_out else ""
        self.console.print(
            f"Raw text: {self.counts.documents:,} documents, {self.counts.labelled:,} different sentences, "
            f"{self.n_words:,} words.{left_out}"
        )
        summary, recipe = self._train(ANNOTATIONS, self.recipe), self.recipe
        for name, why_not, prepare in (
            (ADAPTED, self._why_not_adapt, self._adapt),
            (LABELLED, self._why_not_label, self._label),
        ):
            self.stage = name
            changed, reason = None, why_not()
            if not reason:
                try:
                    changed = prepare(recipe)
                except ModelError as error:  # an encoder that cannot be adapted
                    reason = error.problem
            if changed is None:
                self.stages.append(Stage(name, skipped=reason))
                self.console.print(f"Stage {name!r} is skipped: {reason}.")
                continue
            found = self._train(name, changed)
            if self.stages[-1].kept:
                summary, recipe = found, changed
        return self._publish(summary)

    @property
    def best(self) -> Stage:
        """The last stage that was kept."""
        return next(stage for stage in reversed(self.stages) if stage.kept)

    def _train(self, name: str, recipe: Recipe) -> dict[str, Any]:
        """Train the run of a stage, unless it is finished, and decide whether it is kept. Return its summary."""
        output = self.folder.path / name
        if RunFolder(output).is_finished:
            self.console.print(f"Stage {name!r} is finished.")
            summary = RunFolder(output).read_summary()
        else:
            self.console.print(f"Stage {name!r}: training.")
            run = replace(recipe, output=str(output))
            summary = dict(train_with_display(run, self.console, resume=True, device=self.device))
        ner, strict = (summary["dev"][task]["micro"]["f1"] for task in ("ner", "re_strict"))
        self.console.print(f"Stage {name!r}: dev NER {100 * ner:.1f}, RE strict {100 * strict:.1f}.")
        stage = Stage(name, ner, strict)
        self.stages.append(replace(stage, kept=not self.stages or stage.score > self.best.score))
        return summary

    def _why_not_adapt(self) -> str:
        if self.recipe.model.encoder.name == FRESH and self.recipe.model.start is None:
            return "an encoder that is not pretrained is not adapted"
        if self.n_words < self.settings.adapt_words:
            few = f"{self.n_words:,} words are too few to adapt the encoder"
            return f"{few}; {self.settings.adapt_words:,} are enough"
        return ""

    def _adapt(self, recipe: Recipe) -> Recipe:
        """Adapt the encoder, unless that is finished. Return the recipe with it."""
        output = self.folder.path / ENCODER
        if recipe.model.start is None:
            self._run_adaptation(recipe.model.encoder.name, output)
            encoder = replace(recipe.model.encoder, name=str(output))
            return replace(recipe, model=replace(recipe.model, encoder=encoder))
        source, start = self.folder.path / START_ENCODER, self.folder.path / START
        if not (start / "config.json").is_file():
            trained = Model.load(Start(recipe.model.start).folder)
            model = next(
                part for part in trained.network.encoder.modules() if isinstance(part, PretrainedEncoder)
            ).model
            with self.folder.writing(), replacing_folder(source, marker="config.json") as fresh, quiet_transformers():
                model.save_pretrained(fresh)
                trained.tokenizer.save_pretrained(fresh)
            self._run_adaptation(str(source), output)
            model.load_state_dict(load_encoder(str(output)).model.state_dict())
            trained.save(start)
        return replace(recipe, model=replace(recipe.model, start=str(start)))

    def _run_adaptation(self, encoder: str, output: Path) -> None:
        if AdaptFolder(output).is_finished:
            return
        limits = self.settings
        settings = AdaptSettings(
            encoder=encoder,
            field=limits.field,
            sequence_pieces=limits.sequence_pieces,
            steps=max(limits.min_steps, min(limits.max_steps, self.n_words // _WORDS_PER_STEP)),
            precision=self.recipe.training.precision,
            seed=self.recipe.training.seed,
            save_steps=100,
        )
        self.console.print(f"Stage {ADAPTED!r}: adapting the encoder to the raw text.")
        holdout = [self.folder.path / HELD_OUT]
        adaptation = Adaptation(self.texts, settings, output, holdout=holdout, resume=True, device=self.device)
        with show_progress(self.console, AdaptProgress.row) as shown:
            adaptation.run(shown.progress, shown.step)

    def _why_not_label(self) -> str:
        if self.recipe.model.method != "cascade":
            return "baselines cannot label text"
        if self.counts.labelled < self.settings.label_sentences:
            few = f"{self.counts.labelled:,} sentences are too few to label"
            return f"{few}; {self.settings.label_sentences:,} are enough"
        return "" if self.best.ner else "the model finds no entity of dev"

    def _label(self, recipe: Recipe) -> Recipe:
        """Label the text with the best model, unless that is finished. Return the recipe of the student."""
        output = self.folder.path / LABELS
        if not LabelFolder(output).is_finished:
            labelling = Labelling(
                [self.folder.path / self.best.name / BEST],
                self.texts,
                output,
                LabelSettings(field=self.settings.field, max_sentences=self.settings.max_sentences),
                holdout=self.held_out,
                resume=True,
                device=self.device,
            )
            self.console.print(f"Stage {LABELLED!r}: {labelling}")
            with show_progress(self.console, LabelProgress.row) as shown:
                for progress in labelling:
                    shown.progress(progress)
            labelling.free()
        # An epoch is a pass over the labelled sentences. Gold sentences are seen as often as without them.
        n_gold = self.corpus.splits["train"].report.sentences
        n_labelled = LabelFolder(output).record()["counts"]["labelled"]
        training = recipe.training
        epochs = max(_FEWEST_EPOCHS, round(n_gold * training.epochs / n_labelled))
        every = training.evaluate_every
        training = replace(
            training,
            epochs=epochs,
            batch_size=max(2, training.batch_size),
            evaluate_every=None if every is None else max(1, every * epochs // training.epochs),
        )
        return replace(recipe, data=replace(recipe.data, labels=str(output)), training=training)

    def _publish(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Copy the best model to its place, remove the states of the runs, and write the summary."""
        path = self.folder.path
        with self.folder.writing(), replacing_folder(path / BEST, marker="config.json") as fresh:
            shutil.copytree(path / self.best.name / BEST, fresh, dirs_exist_ok=True)
        described = {"stage": self.best.name, "stages": [asdict(stage) for stage in self.stages]}
        result = {**summary, **described, "raw_text": {**asdict(self.counts), "words": self.n_words}}
        self.folder.write_json(SUMMARY, shareable(result))
        with self.folder.writing():
            for stage in self.stages:
                if (last := RunFolder(path / stage.name).last).is_dir():
                    remove(last)
        return result
