"""Models on annotated data: scores of each, mean and deviation of several, and the difference of two sides."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch

from cascade_srn.data import read_documents
from cascade_srn.data.alignment import Align
from cascade_srn.data.formats.files import replacing
from cascade_srn.data.reports import ReadReport
from cascade_srn.errors import ConfigError, DataError, ModelError, SchemaError, did_you_mean
from cascade_srn.evaluation.analysis import CONDITIONS, Analysis, analyse
from cascade_srn.evaluation.comparison import LEAST_UNITS, Bootstrap, Difference, compare
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.scores import Scores, score_documents
from cascade_srn.evaluation.summary import Figure, summarise
from cascade_srn.extractor import Extractor
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import is_model
from cascade_srn.storage.folders import try_writing
from cascade_srn.types import Document


@dataclass(frozen=True)
class Run:
    """What a model predicted, and how long that took, from words to triples; loading it is not counted."""

    name: str
    schema: Schema
    predicted: list[Document]
    seconds: float
    joint: bool = True

    @property
    def n_sentences(self) -> int:
        """The sentences that were predicted on."""
        return sum(len(document.sentences) for document in self.predicted)

    @property
    def n_words(self) -> int:
        """Their words."""
        return sum(len(sentence) for document in self.predicted for sentence in document.sentences)

    def speed(self) -> dict[str, Any]:
        """Plain values for JSON; of one run, which says what it took here and now, and is no benchmark."""
        return {
            "seconds": self.seconds,
            "sentences_per_second": self.n_sentences / self.seconds,
            "words_per_second": self.n_words / self.seconds,
            "n_runs": 1,
        }


def run_model(
    extractor: Extractor,
    documents: Sequence[Document],
    *,
    name: str,
    gold_entities: bool = False,
    batch_words: int = 4096,
) -> Run:
    """Predict on documents; with ``gold_entities`` only the relations, between the entities that they have."""
    settings = extractor.model.settings
    if gold_entities and not settings.joint:
        raise ModelError(
            f"the model {name!r} extracts entities only, and was to find relations between gold ones; "
            "evaluate a model with relations, or leave out --gold-entities"
        )
    started = time.perf_counter()
    predicted = extractor.predict(documents, given_entities=gold_entities, batch_words=batch_words)
    return Run(name, extractor.schema, predicted, time.perf_counter() - started, settings.joint)


def check_labels(schema: Schema, documents: Sequence[Document], *, model: str, data: str) -> None:
    """Refuse data with labels that a model does not know: none of them could ever be right."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    if not sentences:
        raise DataError(f"{data} holds no sentence, but annotated sentences were expected; give data to evaluate on")
    used = {
        "entity types": ({e.label for s in sentences for e in s.entities}, schema.entity_types),
        "relation types": ({t.label for s in sentences for t in s.triples}, schema.relation_types),
    }
    problems, hints = [], []
    for kind, (labels, known) in used.items():
        if unknown := sorted(labels - set(known)):
            problems.append(f"the {kind} {unknown}, where it knows {', '.join(known) or 'none'}")
            hints.append(did_you_mean(unknown[0], known))
    if problems:
        # The other form of a hint lists what is known, which stands there already.
        closest = next((f" {hint}" for hint in hints if hint.startswith("Did you mean")), "")
        raise SchemaError(
            f"{data} has labels that the model {model!r} was not trained on: {'; and '.join(problems)}.{closest} "
            "Evaluate on data of the model's label set, or rename the labels"
        )


def check_same_labels(runs: Sequence[Run]) -> None:
    """Refuse to put models side by side whose labels, or symmetric relations, differ."""
    first = runs[0]
    for other in runs[1:]:
        same = (
            set(first.schema.entity_types) == set(other.schema.entity_types)
            and set(first.schema.relation_types) == set(other.schema.relation_types)
            and first.schema.symmetric == other.schema.symmetric
        )
        if not same:
            differences = "; ".join(first.schema.differences(other.schema))
            raise SchemaError(
                f"the models {first.name!r} and {other.name!r} have different labels, in the second one {differences}; "
                "compare models of one label set"
            )


def shown_name(path: str, n_parts: int = 2) -> str:
    """A path as it is shown and stored: as it was given, but an absolute one without the folders of this machine."""
    parts = Path(os.path.expanduser(path))
    return "/".join(["…", *parts.parts[-n_parts:]]) if parts.is_absolute() and len(parts.parts) > n_parts else path


def shown_names(paths: Sequence[str]) -> list[str]:
    """The names of several paths, with as many folders as it takes to tell them apart."""
    longest = max((len(Path(os.path.expanduser(path)).parts) for path in paths), default=0)
    for n_parts in range(2, longest + 1):
        names = [shown_name(path, n_parts) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)


FORMAT_VERSION = 1


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate` found. ``environment`` is what the caller knows about the machine, for the record."""

    options: EvaluateOptions
    gold: list[Document]
    runs: tuple[Run, ...]
    against: tuple[Run, ...] = ()
    training: list[Document] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """What every figure is labelled with: "end to end" or "with gold entities"."""
        return CONDITIONS[self.options.entities]

    @property
    def without(self) -> tuple[str, ...]:
        """The tasks that there is nothing to say about: NER, where the entities were given."""
        return ("ner",) if self.options.gold_entities else ()

    @cached_property
    def scores(self) -> dict[str, list[Scores]]:
        """The scores of each model, by its name, under each policy."""
        return {
            run.name: [
                score_documents(self.gold, run.predicted, schema=run.schema, symmetric=policy)
                for policy in self.options.policies
            ]
            for run in (*self.runs, *self.against)
        }

    def figures(self, runs: Sequence[Run], *, per_label: bool = False) -> list[Figure]:
        """The figures of one model, or mean and deviation of several."""
        condition = self.condition if self.options.gold_entities else ""
        scores = [self.scores[run.name] for run in runs]
        return summarise(scores, per_label=per_label, condition=condition, without=self.without)

    @property
    def sides(self) -> tuple[tuple[Run, ...], tuple[Run, ...]] | None:
        """What is compared with what: the models with those they are held against, or one of two with the other."""
        if self.against:
            return self.runs, self.against
        return (self.runs[:1], self.runs[1:]) if len(self.runs) == 2 else None

    @property
    def n_units(self) -> int:
        """How many documents or sentences the bootstrap draws from."""
        return len(self.gold) if self.options.resample == "documents" else self.runs[0].n_sentences

    @cached_property
    def differences(self) -> list[Difference]:
        """The bootstrap of the difference of the two sides, under each protocol.

        Empty where there are no two, or too little to draw from.
        """
        if self.sides is None or self.n_units < LEAST_UNITS:
            return []
        options = self.options
        bootstrap = Bootstrap(options.n_resamples, options.resample.removesuffix("s"), options.seed)
        first, second = ([run.predicted for run in side] for side in self.sides)
        found: dict[str, Difference] = {}
        for policy in options.policies:
            by_task = compare(
                self.gold, first, second, schema=self.runs[0].schema, symmetric=policy, bootstrap=bootstrap
            )
            named = [self._labelled(difference) for task, difference in by_task.items() if task not in self.without]
            found |= {difference.protocol: difference for difference in named}
        return sorted(found.values(), key=lambda difference: difference.protocol.split(",")[0])

    def analyses(self) -> Iterator[tuple[str, Analysis]]:
        """The analysis of each model in turn with the name of its folder, under the first policy."""
        for number, run in enumerate((*self.runs, *self.against), start=1):
            about = {"model": run.name, "data": shown_name(self.options.data)}
            if self.options.train is not None:
                about["training data"] = shown_name(self.options.train)
            about |= {key: str(self.environment[key]) for key in ("gpu", "cpu", "date") if self.environment.get(key)}
            analysis = analyse(
                self.gold,
                run.predicted,
                schema=run.schema,
                symmetric=self.options.policies[0],
                training_documents=self.training,
                entities=self.options.entities,
                about=about,
            )
            yield f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', run.name).strip('-')}", analysis

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the models, their mean and deviation, and the differences."""
        options = self.options
        sides = [("models", self.runs)] + ([("against", self.against)] if self.against else [])
        record: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "condition": self.condition,
            "entities": options.entities,
            "data": {
                "name": shown_name(options.data),
                "n_documents": len(self.gold),
                "n_sentences": self.runs[0].n_sentences,
                "n_words": self.runs[0].n_words,
            },
        }
        for name, runs in sides:
            record[name] = [self._model(run) for run in runs]
        for name, runs in sides:
            record[f"figures_of_{name}"] = [figure.to_dict() for figure in self.figures(runs, per_label=True)]
        record["differences"] = [difference.to_dict() for difference in self.differences]
        record["environment"] = dict(self.environment)
        return record

    def _labelled(self, difference: Difference) -> Difference:
        if not self.options.gold_entities:
            return difference
        return replace(difference, protocol=f"{difference.protocol}, {self.condition}")

    def _model(self, run: Run) -> dict[str, Any]:
        scores = {
            one.symmetric: {key: value for key, value in one.to_dict().items() if key not in self.without}
            for one in self.scores[run.name]
        }
        return {"name": run.name, "joint": run.joint, "scores": scores, "speed": run.speed()}


def evaluate(
    options: EvaluateOptions,
    *,
    device: str | torch.device = "cpu",
    environment: Mapping[str, Any] | None = None,
    on_read: Callable[[ReadReport], None] = lambda report: None,
) -> Evaluation:
    """Run models, one after the other, over annotated data. Nothing is kept of a model but what it predicted.

    ``on_read`` is told how reading went, before the first model runs.
    """

    def read(path: str, format: str | None = None) -> list[Document]:
        stream = read_documents(path, format, align=cast(Align, options.align))
        documents = list(stream)
        on_read(stream.report)
        return documents

    if is_model(options.data):
        raise ConfigError(
            f"the data, {options.data!r}, are a model; give MODEL DATA: one or more models, and last the data"
        )
    gold = read(options.data, options.format)
    training = None if options.train is None else read(options.train)

    def run(path: str, name: str) -> Run:
        extractor = Extractor.from_pretrained(path, device=device, precision=options.precision)
        check_labels(extractor.schema, gold, model=name, data=shown_name(options.data))
        return run_model(
            extractor, gold, name=name, gold_entities=options.gold_entities, batch_words=options.batch_words
        )

    paths = (*options.models, *options.against)
    runs = tuple(run(path, name) for path, name in zip(paths, shown_names(paths), strict=True))
    check_same_labels(runs)
    n_models = len(options.models)
    return Evaluation(options, gold, runs[:n_models], runs[n_models:], training, environment or {})


def require_writable(report: Path | None, json_path: Path | None) -> None:
    """Find out before the work rather than after it that its results cannot be written, or not be drawn."""
    if report is not None:
        import cascade_srn.evaluation.report  # noqa: F401 (what it depends on is optional)
    if json_path is not None and json_path.is_dir():
        raise ConfigError(f"{json_path} is a folder, but the scores go to a file; give the path of a file")
    for folder in (report, None if json_path is None else json_path.parent):
        if folder is not None:
            try_writing(folder)


def write_json(record: Mapping[str, Any], path: Path) -> None:
    """Write plain values to a file, which appears when all of it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as handle:
        handle.write((json.dumps(record, ensure_ascii=False, indent=2) + "\n").encode())


def write_reports(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write ``scores.json``, and for each model ``analysis.json`` and the report, and return the reports' folders.

    The report of one model is in the folder itself, those of several are in a folder each.
    """
    from cascade_srn.evaluation.report import write_report

    write_json(evaluation.to_dict(), folder / "scores.json")
    several = len(evaluation.runs) + len(evaluation.against) > 1
    written = []
    for name, analysis in evaluation.analyses():
        target = folder / name if several else folder
        write_json(analysis.to_dict(), target / "analysis.json")
        write_report(analysis, target)
        written.append(target)
    return written
