"""Run models on annotated data, score them, summarise several models and compare two sides."""

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
from cascade_srn.errors import ConfigError, DataError, ModelError, SchemaError, suggest
from cascade_srn.evaluation.analysis import CONDITIONS, Analysis, analyse
from cascade_srn.evaluation.comparison import MIN_UNITS, Bootstrap, Difference, compare
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.scores import Scores, score_documents
from cascade_srn.evaluation.summary import Figure, summarise
from cascade_srn.extractor import Extractor
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import is_model
from cascade_srn.storage.folders import try_writing
from cascade_srn.types import Document


@dataclass(frozen=True)
class EvaluatedModel:
    """Predictions of a model, and the seconds from words to triples, without loading."""

    name: str
    schema: Schema
    predicted: list[Document]
    seconds: float
    joint: bool = True

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return sum(len(document.sentences) for document in self.predicted)

    @property
    def n_words(self) -> int:
        """Number of words."""
        return sum(len(sentence) for document in self.predicted for sentence in document.sentences)

    def measure_speed(self) -> dict[str, Any]:
        """Return the speed of this single run as plain values for JSON."""
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
) -> EvaluatedModel:
    """Predict on documents. With ``gold_entities``, predict only relations between the entities of the documents."""
    settings = extractor.model.settings
    if gold_entities and not settings.joint:
        raise ModelError(
            f"the model {name!r} predicts entities only, and has no relations between gold entities",
            "Evaluate a model with relations, or predict end to end",
            option="gold_entities",
        )
    started = time.perf_counter()
    predicted = extractor.predict(documents, given_entities=gold_entities, batch_words=batch_words)
    return EvaluatedModel(name, extractor.schema, predicted, time.perf_counter() - started, settings.joint)


def check_labels(schema: Schema, documents: Sequence[Document], *, model: str, data: str) -> None:
    """Raise SchemaError if data has labels that a model cannot predict."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    if not sentences:
        raise DataError(f"{data} has no sentences", "Use annotated documents")
    used = {
        "entity types": ({e.label for s in sentences for e in s.entities}, schema.entity_types),
        "relation types": ({t.label for s in sentences for t in s.triples}, schema.relation_types),
    }
    problems: list[str] = []
    suggestion = ""
    for kind, (labels, known) in used.items():
        if unknown := sorted(labels - set(known)):
            problems.append(f"{kind} {unknown} (the model has {', '.join(known) or 'none'})")
            suggestion = suggestion or suggest(unknown[0], known)
    if problems:
        raise SchemaError(
            f"{data} has labels that the model {model!r} does not have: {'; '.join(problems)}",
            suggestion or "Use data with the labels of the model, or rename the labels",
        )


def check_same_labels(models: Sequence[EvaluatedModel]) -> None:
    """Raise SchemaError if the labels or symmetric relations of models differ."""
    first = models[0]
    for other in models[1:]:
        same = (
            set(first.schema.entity_types) == set(other.schema.entity_types)
            and set(first.schema.relation_types) == set(other.schema.relation_types)
            and first.schema.symmetric == other.schema.symmetric
        )
        if not same:
            differences = "; ".join(first.schema.differences(other.schema))
            raise SchemaError(
                f"the labels of the models {first.name!r} and {other.name!r} differ: {differences}",
                "Compare models with the same labels",
            )


def display_name(path: str, n_parts: int = 2) -> str:
    """Shorten an absolute path to its last parts, so that results do not contain folders of this machine."""
    parts = Path(os.path.expanduser(path))
    return "/".join(["…", *parts.parts[-n_parts:]]) if parts.is_absolute() and len(parts.parts) > n_parts else path


def display_names(paths: Sequence[str]) -> list[str]:
    """Return distinct names of several paths, with as few folders as possible."""
    longest = max((len(Path(os.path.expanduser(path)).parts) for path in paths), default=0)
    for n_parts in range(2, longest + 1):
        names = [display_name(path, n_parts) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)


FORMAT_VERSION = 1


@dataclass(frozen=True)
class Evaluation:
    """Result of :func:`evaluate`. ``environment`` describes the machine, for the record."""

    options: EvaluateOptions
    gold: list[Document]
    models: tuple[EvaluatedModel, ...]
    against: tuple[EvaluatedModel, ...] = ()
    training: list[Document] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """Label of every figure: "end to end" or "with gold entities"."""
        return CONDITIONS[self.options.entities]

    @property
    def excluded_tasks(self) -> tuple[str, ...]:
        """Tasks without scores: NER if the entities were given."""
        return ("ner",) if self.options.gold_entities else ()

    @cached_property
    def scores(self) -> dict[str, list[Scores]]:
        """Scores by model name, under each policy."""
        return {
            model.name: [
                score_documents(self.gold, model.predicted, schema=model.schema, symmetric=policy)
                for policy in self.options.policies
            ]
            for model in (*self.models, *self.against)
        }

    def summarise(self, models: Sequence[EvaluatedModel], *, per_label: bool = False) -> list[Figure]:
        """Return the figures of one model, or mean and standard deviation of several."""
        condition = self.condition if self.options.gold_entities else ""
        scores = [self.scores[model.name] for model in models]
        return summarise(scores, per_label=per_label, condition=condition, exclude=self.excluded_tasks)

    @property
    def sides(self) -> tuple[tuple[EvaluatedModel, ...], tuple[EvaluatedModel, ...]] | None:
        """The two sides of the comparison: ``models`` and ``against``, or the first and second of two models."""
        if self.against:
            return self.models, self.against
        return (self.models[:1], self.models[1:]) if len(self.models) == 2 else None

    @property
    def n_units(self) -> int:
        """Number of documents or sentences that the bootstrap draws from."""
        return len(self.gold) if self.options.resample == "documents" else self.models[0].n_sentences

    @cached_property
    def differences(self) -> list[Difference]:
        """Difference between the two sides under each protocol.

        Empty without a second side, or with too few units for a bootstrap.
        """
        if self.sides is None or self.n_units < MIN_UNITS:
            return []
        options = self.options
        bootstrap = Bootstrap(options.n_resamples, options.resample.removesuffix("s"), options.seed)
        first, second = ([model.predicted for model in side] for side in self.sides)
        found: dict[str, Difference] = {}
        for policy in options.policies:
            by_task = compare(
                self.gold, first, second, schema=self.models[0].schema, symmetric=policy, bootstrap=bootstrap
            )
            named = [self._add_condition(d) for task, d in by_task.items() if task not in self.excluded_tasks]
            found |= {difference.protocol: difference for difference in named}
        return sorted(found.values(), key=lambda difference: difference.protocol.split(",")[0])

    def analyse_models(self) -> Iterator[tuple[str, Analysis]]:
        """Yield a folder name and the analysis under the first policy for each model."""
        for number, model in enumerate((*self.models, *self.against), start=1):
            about = {"model": model.name, "data": display_name(self.options.data)}
            if self.options.train is not None:
                about["training data"] = display_name(self.options.train)
            about |= {key: str(self.environment[key]) for key in ("gpu", "cpu", "date") if self.environment.get(key)}
            analysis = analyse(
                self.gold,
                model.predicted,
                schema=model.schema,
                symmetric=self.options.policies[0],
                training_documents=self.training,
                entities=self.options.entities,
                about=about,
            )
            yield f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', model.name).strip('-')}", analysis

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        options = self.options
        sides = [("models", self.models)] + ([("against", self.against)] if self.against else [])
        record: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "condition": self.condition,
            "entities": options.entities,
            "data": {
                "name": display_name(options.data),
                "n_documents": len(self.gold),
                "n_sentences": self.models[0].n_sentences,
                "n_words": self.models[0].n_words,
            },
        }
        for name, models in sides:
            record[name] = [self._model_record(model) for model in models]
        for name, models in sides:
            record[f"figures_of_{name}"] = [figure.to_dict() for figure in self.summarise(models, per_label=True)]
        record["differences"] = [difference.to_dict() for difference in self.differences]
        record["environment"] = dict(self.environment)
        return record

    def _add_condition(self, difference: Difference) -> Difference:
        if not self.options.gold_entities:
            return difference
        return replace(difference, protocol=f"{difference.protocol}, {self.condition}")

    def _model_record(self, model: EvaluatedModel) -> dict[str, Any]:
        scores = {
            one.symmetric: {key: value for key, value in one.to_dict().items() if key not in self.excluded_tasks}
            for one in self.scores[model.name]
        }
        return {"name": model.name, "joint": model.joint, "scores": scores, "speed": model.measure_speed()}


def evaluate(
    options: EvaluateOptions,
    *,
    device: str | torch.device = "cpu",
    environment: Mapping[str, Any] | None = None,
    on_read: Callable[[ReadReport], None] = lambda report: None,
) -> Evaluation:
    """Load models one after the other and predict on annotated data.

    Args:
        options: Models, data and protocol.
        device: Device of the models.
        environment: Description of the machine, for the record.
        on_read: Called with the report of each file that is read, before the first model is loaded.

    Raises:
        ConfigError: The data is a model.
        DataError: The data cannot be read.
        ModelError: A model cannot be loaded, or predicts no relations with ``gold_entities``.
        SchemaError: The data has labels that a model does not have, or the labels of the models differ.
    """

    def read(path: str, format: str | None = None) -> list[Document]:
        stream = read_documents(path, format, align=cast(Align, options.align), keep_escapes=options.keep_escapes)
        documents = list(stream)
        on_read(stream.report)
        return documents

    if is_model(options.data):
        raise ConfigError(f"the data {options.data!r} is a model", "Give one or more models first, and the data last")
    gold = read(options.data, options.format)
    training = None if options.train is None else read(options.train)

    def run(path: str, name: str) -> EvaluatedModel:
        extractor = Extractor.from_pretrained(path, device=device, precision=options.precision)
        check_labels(extractor.schema, gold, model=name, data=display_name(options.data))
        return run_model(
            extractor, gold, name=name, gold_entities=options.gold_entities, batch_words=options.batch_words
        )

    paths = (*options.models, *options.against)
    models = tuple(run(path, name) for path, name in zip(paths, display_names(paths), strict=True))
    check_same_labels(models)
    n_models = len(options.models)
    return Evaluation(options, gold, models[:n_models], models[n_models:], training, environment or {})


def require_writable(report: Path | None, json_path: Path | None) -> None:
    """Check before the work that the results can be written, and that the report has its dependencies."""
    if report is not None:
        import cascade_srn.evaluation.report  # noqa: F401 (raises if jinja2 is missing)
    if json_path is not None and json_path.is_dir():
        raise ConfigError(f"{json_path} is a folder", "Give the path of a file", option="json")
    for folder in (report, None if json_path is None else json_path.parent):
        if folder is not None:
            try_writing(folder)


def write_json(record: Mapping[str, Any], path: Path) -> None:
    """Write plain values to a JSON file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as handle:
        handle.write((json.dumps(record, ensure_ascii=False, indent=2) + "\n").encode())


def write_reports(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write ``scores.json``, and ``analysis.json`` and the report of each model.

    Returns:
        Folders of the reports: the given folder for one model, a subfolder for each of several.
    """
    from cascade_srn.evaluation.report import write_report

    write_json(evaluation.to_dict(), folder / "scores.json")
    several = len(evaluation.models) + len(evaluation.against) > 1
    written = []
    for name, analysis in evaluation.analyse_models():
        target = folder / name if several else folder
        write_json(analysis.to_dict(), target / "analysis.json")
        write_report(analysis, target)
        written.append(target)
    return written
