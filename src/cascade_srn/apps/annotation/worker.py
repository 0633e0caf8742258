"""Child process of a project: trains a model, scores it, and computes suggestions.

It works in the folder of its run and reads ``documents.jsonl`` of the project, but never its annotations.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from cascade_srn.apps.annotation import learning
from cascade_srn.apps.annotation.files import DOCUMENTS, read_lines, read_stored_documents, without_annotations
from cascade_srn.apps.annotation.selection import select
from cascade_srn.apps.annotation.suggestions import (
    SUGGESTIONS,
    read_priorities,
    remove_older,
    suggestion_line,
    write_priorities,
)
from cascade_srn.apps.annotation.units import UnitSettings
from cascade_srn.config import FRESH
from cascade_srn.errors import DataError, ModelError, describe_error
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.formats.registry import read_documents, read_schema
from cascade_srn.inference.precision import settings_checksum
from cascade_srn.model.folder import missing_for_torch, model_checksum, write_precision
from cascade_srn.runs.process import sigterm_as_exit
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model
from cascade_srn.types import Document

if TYPE_CHECKING:
    from cascade_srn.extractor import Extractor
    from cascade_srn.training.recipe import Recipe

# Sentences from which some are set apart to choose thresholds. With fewer, all of them are learned from, and the model
# suggests what is likelier than these scores: a wrong suggestion costs less than a missing one.
MIN_SENTENCES_FOR_DEV, DEV_SHARE = 100, 0.15
FEW_SHOT_THRESHOLDS = {"entity": 0.25, "subject": 0.05, "object": 0.05, "relation": 0.1}
# Held-out documents from which the bootstrap draws documents; of fewer, it draws sentences.
MIN_DRAWN_DOCUMENTS = 5
# Characters of a line of progress.
_LINE_WIDTH = 200


class _Lines(io.StringIO):
    """A file that reports each line that is written to it."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__()
        self._report, self._rest = report, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            self._report(line.strip())
        return len(text)


def project_sections(
    train: Sequence[Document],
    *,
    width: int,
    epochs: int | None,
    seed: int,
    is_gpu: bool = False,
    is_started: bool = False,
    has_new_labels: bool = True,
    is_fresh: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return settings of a recipe by section for documents of a project, from which dev is taken if they are enough.

    Args:
        train: Annotated documents to learn from.
        width: Width of the vectors of the encoder.
        epochs: Passes over the documents, or None to choose them.
        seed: Seed of the choice of dev.
        is_gpu: Whether a GPU trains.
        is_started: Whether training starts from a trained model.
        has_new_labels: Whether that model lacks most of the labels.
        is_fresh: Whether the weights of the encoder are random.
    """
    from cascade_srn.training.defaults import default_training

    n_sentences = _count_sentences(train)
    has_dev = n_sentences >= MIN_SENTENCES_FOR_DEV and len(train) > 1
    n_dev = round(DEV_SHARE * n_sentences) if has_dev else 0
    return {
        "model": {} if has_dev else {"thresholds": FEW_SHOT_THRESHOLDS},
        "data": {"dev": DEV_SHARE if has_dev else None, "split_seed": seed},
        "training": default_training(
            n_sentences - n_dev,
            width=width,
            n_dev=n_dev,
            epochs=epochs,
            is_awaited=is_started,
            has_new_labels=has_new_labels,
            is_gpu=is_gpu,
            is_fresh=is_fresh,
        ),
    }


class ProjectWorker:
    """One run in a folder.

    Args:
        run: Folder of the run.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self.project = run.parents[1]
        self.job: Mapping[str, Any] = json.loads((run / learning.JOB).read_text(encoding="utf-8"))
        self.schema = read_schema(run / learning.SCHEMA)
        self._progress = (run / learning.PROGRESS).open("a", encoding="utf-8")

    def report(self, message: str, **more: Any) -> None:
        """Write a line of progress."""
        self._progress.write(f"{to_json({'message': message, **more})}\n")
        self._progress.flush()

    def train(self) -> None:
        """Train a model, score it on the held-out documents, and compute suggestions."""
        if missing := missing_for_torch():
            raise ModelError(
                f"training needs {' and '.join(missing)}, which this installation does not have",
                "Run pip install 'cascade-srn[train]'",
            )
        from cascade_srn.extractor import Extractor

        train = list(read_documents(self.run / learning.TRAIN, "jsonl"))
        recipe = self.recipe(train)
        started = time.monotonic()
        stages = self._run(recipe)
        more = {"epoch": recipe.training.epochs, "n_epochs": recipe.training.epochs}
        extractor = Extractor.from_pretrained(self.run / learning.BEST)
        self.report("Scoring", **more)
        gold, taught = map(self._read_held_out, (learning.HELD_OUT, learning.TEACHER_HELD_OUT))
        predicted, repeated = (list(extractor.stream(map(without_annotations, one))) for one in (gold, taught))
        result = {
            "n_sentences": _count_sentences(train),
            "n_documents": len(train),
            **score(gold, predicted, self.schema),
            **({"teacher": score(taught, repeated, self.schema)} if taught else {}),
            learning.PRECISION: self.record_precision(extractor, gold, predicted),
            "seconds": round(time.monotonic() - started, 1),
            "start": self.job["model"] if self._is_named() else None,
            **({"stages": stages} if stages else {}),
        }
        unchecked = set(self.job["unchecked"])
        done = [document for document in train + gold if document.id not in unchecked]
        best = self.run / learning.BEST
        result["n_suggested"], result["n_open"] = self.suggest(extractor, best, done, **more)
        # Written last: a run without it is removed.
        with replacing(self.run / learning.RESULT) as handle:
            handle.write(to_json(result).encode())

    def _read_held_out(self, name: str) -> list[Document]:
        return list(read_documents(self.run / name, "jsonl")) if (self.run / name).exists() else []

    def _run(self, recipe: Recipe) -> list[dict[str, Any]]:
        """Train. Return the stages of a training with raw text, and an empty list without it."""
        if self.job["raw"] is None:
            from cascade_srn.training.run import Run

            for progress in Run(recipe, command="cascade-srn project train"):
                if progress.epoch_done or progress.finished:
                    self.report("Training", epoch=progress.epoch, n_epochs=progress.epochs)
            return []
        from rich.console import Console

        from cascade_srn.training.raw import RawTraining

        lines = cast(TextIO, _Lines(self.report))
        summary = RawTraining(recipe, [self.job["raw"]], console=Console(file=lines, width=_LINE_WIDTH)).run()
        return list(summary["stages"])

    def record_precision(
        self, extractor: Extractor, gold: Sequence[Document], predicted: Sequence[Document]
    ) -> list[dict[str, Any]]:
        """Store what the model promises from the held-out documents, if there are any, and return its curves."""
        if not gold:
            return []
        from cascade_srn.evaluation.calibration.precision import measure_curves, record_predictions

        settings = settings_checksum(extractor.model.settings, extractor.overlaps, extractor.constraints)
        record = record_predictions(gold, predicted, extractor.schema, settings)
        write_precision(self.run / learning.BEST, record)
        return [curve.to_dict() for curve in measure_curves(record, record, gold)]

    def _is_named(self) -> bool:
        return self.job["model"] is not None and not str(self.job["model"]).startswith(".")

    def recipe(self, train: Sequence[Document]) -> Recipe:
        """Return the settings of the training."""
        from cascade_srn.encoder.pretrained import encoder_width
        from cascade_srn.model.start import Start
        from cascade_srn.runs.device import find_device
        from cascade_srn.training.defaults import SMALL_WIDTH
        from cascade_srn.training.recipe import Recipe

        start = None if self.job["model"] is None else Start(self.job["model"])
        if start is None:
            model: dict[str, Any] = {"encoder": {"name": self.job["encoder"]}}
            width, has_new_labels = encoder_width(self.job["encoder"]) or SMALL_WIDTH, True
        else:
            labels = start.labels(self.schema)
            model, width, has_new_labels = {"start": start.name}, start.width, len(labels.new) > len(labels.kept)
        sections = project_sections(
            train,
            width=width,
            epochs=self.job["epochs"],
            seed=self.job["seed"],
            is_gpu=find_device("auto").type == "cuda",
            is_started=start is not None,
            has_new_labels=has_new_labels,
            is_fresh=start is None and self.job["encoder"] == FRESH,
        )
        return Recipe.from_dict(
            {
                "model": model | sections["model"],
                "data": {"train": learning.TRAIN, "format": "jsonl", "schema": learning.SCHEMA} | sections["data"],
                "training": sections["training"] | {"save_every": 0, "seed": self.job["seed"], "trackers": []},
                "output": learning.BEST.parent.as_posix(),
            }
        )

    def suggest(self, extractor: Extractor, model: Path, annotated: Sequence[Document], **more: Any) -> tuple[int, int]:
        """Write suggestions for all documents, and the order in which to annotate them.

        A model that finds nothing in the documents that are not annotated leaves the earlier suggestions.

        Returns:
            How many documents that are not annotated have suggestions, and how many there are.
        """
        documents = list(read_stored_documents(read_lines(self.project / DOCUMENTS, torn=True)[0]))
        folder = self.project / SUGGESTIONS
        folder.mkdir(exist_ok=True)
        name, checksum = f"{self.run.name}.jsonl", model_checksum(model)
        # Those that are not annotated first, because they are shown next.
        known = {document.id for document in annotated}
        documents.sort(key=lambda document: document.id in known)
        n_open = sum(document.id not in known for document in documents)
        n_suggested, lines = 0, list[bytes]()
        with ExitStack() as files:
            handle: BinaryIO | None = None
            for number, found in enumerate(extractor.stream(documents, batch_words=2048), 1):
                suggested = restrict(found, self.schema)
                n_suggested += found.id not in known and bool(suggested.entities)
                lines.append(suggestion_line(suggested, checksum))
                self.report(f"Suggestions for {number} of {len(documents)} documents", **more)
                if handle is None and (n_suggested or not n_open or self.job["kind"] != "train"):
                    handle = files.enter_context((folder / name).open("wb"))
                if handle is not None:
                    handle.writelines(lines)
                    handle.flush()
                    lines.clear()
        if handle is not None:
            remove_older(self.project, name)
            self.report("Ordering the documents", **more)
            # Documents of the teacher keep its doubt: a student that has learned from them does not doubt them.
            known |= (unchecked := set(self.job["unchecked"]))
            kept = {id: value for id, value in read_priorities(self.project).items() if id in unchecked}
            rest = [document for document in documents if document.id not in known]
            write_priorities(self.project, rank(rest, extractor, annotated, seed=self.job["seed"]) | kept)
        return n_suggested, n_open

    def make_suggestions(self) -> None:
        """Compute suggestions of the current model only."""
        from cascade_srn.extractor import Extractor

        self.report("Loading the model")
        model = find_model(self.job["model"])
        self.suggest(Extractor.from_pretrained(model), model, ())


def rank(
    documents: Sequence[Document], extractor: Extractor, annotated: Sequence[Document], *, seed: int = 0
) -> dict[str, float]:
    """Return the priority of documents from 1 downwards: how much it helps to annotate them.

    Annotated documents, near-duplicates and documents without a sentence of usual length have none.
    """
    known = {document.id for document in annotated}
    rest = [document for document in documents if document.id not in known]
    try:
        settings = UnitSettings("document", seed=seed)
        chosen = select(rest, max(1, len(rest)), model=extractor, settings=settings, annotated=annotated)
    except DataError:  # nothing to choose from
        return {}
    return {one.source: 1 - (one.rank - 1) / len(chosen) for one in chosen}


def restrict(document: Document, schema: Schema) -> Document:
    """Return a document without labels that the schema does not have."""
    sentences = []
    for sentence in document.sentences:
        entities = [span for span in sentence.entities if span.label in schema.entity_types]
        kept = set(entities)
        triples = [
            triple
            for triple in sentence.triples
            if triple.label in schema.relation_types and triple.head in kept and triple.tail in kept
        ]
        sentences.append(sentence.annotated(entities, triples))
    return replace(document, sentences=tuple(sentences), schema=None)


def score(gold: Sequence[Document], predicted: Sequence[Document], schema: Schema) -> dict[str, Any]:
    """Score predictions, with 95 % intervals of a bootstrap. Without gold documents, scores are None."""
    names = {"ner": "ner", "re": "re_strict"}
    n_sentences = _count_sentences(gold)
    values: dict[str, Any] = {f"{name}{part}": None for name in names for part in ("", "_low", "_high")}
    unit = "document" if len(gold) >= MIN_DRAWN_DOCUMENTS else "sentence"
    if gold:
        import numpy as np

        from cascade_srn.evaluation.comparison import Bootstrap, bootstrap_differences, count_units, f1
        from cascade_srn.evaluation.scores import TASKS

        counts = count_units(gold, predicted, schema=schema, symmetric="canonical", unit=unit)
        whole = f1(counts.sum(axis=0))
        drawn = bootstrap_differences(counts[None], np.zeros_like(counts[None]), f1, Bootstrap(2000, unit))
        for name, task in names.items():
            at = list(TASKS).index(task)
            low, high = np.percentile(drawn[:, at], (2.5, 97.5))
            known = {"": whole[at], "_low": low, "_high": high} if counts[:, at, 0].sum() else {}
            values |= {f"{name}{part}": round(float(value), 4) for part, value in known.items()}
    return {**values, "n_held_out": n_sentences, "n_held_out_documents": len(gold), "unit": unit}


def _count_sentences(documents: Sequence[Document]) -> int:
    return sum(bool(len(sentence)) for document in documents for sentence in document.sentences)


def main() -> int:
    """Do the job in the working folder."""
    if hasattr(os, "nice"):
        os.nice(5)  # the service answers first
    run = Path.cwd()
    try:
        with sigterm_as_exit():
            worker = ProjectWorker(run)
            (worker.train if worker.job["kind"] == "train" else worker.make_suggestions)()
    except Exception as error:
        traceback.print_exc()
        with replacing(run / learning.FAILURE) as handle:
            handle.write(to_json({"message": describe_error(error)}).encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
