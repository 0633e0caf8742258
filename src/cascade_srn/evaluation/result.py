"""Result of an evaluation: scores of one or several models, their mean, and the difference of two sides."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cascade_srn.evaluation.analysis import CONDITIONS, FROM_TEXT, Analysis
from cascade_srn.evaluation.calibration.precision import (
    Promise,
    measure_curves,
    measure_promises,
    record_predictions,
)
from cascade_srn.evaluation.comparison import MIN_UNITS, Bootstrap, Difference, compare
from cascade_srn.evaluation.from_text import align_by_characters, measure_segmentation
from cascade_srn.evaluation.noise import CLEAN, NOISE_TASKS
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.scores import Figure, Scores, Spread, score_documents, summarise, summarise_groups
from cascade_srn.inference.options import parse_precision
from cascade_srn.inference.precision import PrecisionRecord
from cascade_srn.schema import Schema
from cascade_srn.types import Document

FORMAT_VERSION = 1
OVERLAPS_MEANING = {
    "flat": "no two predicted entities share a word",
    "nested": "predicted entities may contain each other, but not cross",
    "all": "all entities that pass the thresholds",
}


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


@dataclass(frozen=True)
class EvaluatedModel:
    """Predictions of a model, and the seconds from words or text to triples, without loading.

    ``seconds`` is None for predictions made elsewhere.
    ``overlaps`` is the treatment of predicted entities that share words, or None if the entities were given.
    ``constraints`` is "on" if the constraints of the schema were applied.
    ``noise`` has the scores on text with noise under the first policy, by kind.
    ``precision_record`` is what a precision can be promised from.
    """

    name: str
    schema: Schema
    predicted: list[Document]
    seconds: float | None
    joint: bool = True
    overlaps: str | None = None
    constraints: str = "off"
    noise: Mapping[str, Scores] = field(default_factory=dict)
    precision_record: PrecisionRecord | None = None

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return sum(len(document.sentences) for document in self.predicted)

    @property
    def n_words(self) -> int:
        """Number of words."""
        return sum(len(sentence) for document in self.predicted for sentence in document.sentences)

    def measure_speed(self) -> dict[str, Any] | None:
        """Return the speed of this single run as plain values for JSON, or None if it is not known."""
        if self.seconds is None:
            return None
        return {
            "seconds": self.seconds,
            "sentences_per_second": self.n_sentences / self.seconds,
            "words_per_second": self.n_words / self.seconds,
            "n_runs": 1,
        }


@dataclass(frozen=True)
class Evaluation:
    """Result of :func:`evaluate`. ``environment`` describes the machine, for the record.

    With ``from_text``, the gold documents have their rebuilt text, and the predictions have their own words.
    """

    options: EvaluateOptions
    gold: list[Document]
    models: tuple[EvaluatedModel, ...]
    against: tuple[EvaluatedModel, ...] = ()
    training: list[Document] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_models(self) -> tuple[EvaluatedModel, ...]:
        """Models of both sides."""
        return *self.models, *self.against

    @property
    def condition(self) -> str:
        """Label of every figure: "end to end", "with gold entities" or "from text"."""
        return FROM_TEXT if self.options.from_text else CONDITIONS[self.options.entities]

    @property
    def suffix(self) -> str:
        """Last part of the names of figures: the condition, unless it is "end to end"."""
        return "" if self.condition == CONDITIONS["predicted"] else self.condition

    @cached_property
    def aligned(self) -> tuple[list[Document], dict[str, list[Document]]]:
        """Gold and the predictions by model name, with the same words and sentences."""
        versions = [self.gold, *(model.predicted for model in self.all_models)]
        if self.options.from_text:
            versions = align_by_characters(*versions)
        return versions[0], {model.name: one for model, one in zip(self.all_models, versions[1:], strict=True)}

    @cached_property
    def analyses(self) -> dict[str, Analysis]:
        """Analyses under the first policy, by model name."""
        gold, predicted = self.aligned
        return {
            model.name: Analysis(
                gold,
                predicted[model.name],
                model.schema,
                self.options.policies[0],
                self.options.entities,
                self.training,
                self._describe(model),
                measure_segmentation(self.gold, model.predicted) if self.options.from_text else None,
                model.constraints,
            )
            for model in self.all_models
        }

    def _describe(self, model: EvaluatedModel) -> dict[str, str]:
        about = {"model": model.name, "data": display_name(self.options.data)}
        if model.overlaps is not None:
            about["overlapping entities"] = f"{model.overlaps}: {OVERLAPS_MEANING[model.overlaps]}"
        if self.options.train is not None:
            about["training data"] = display_name(self.options.train)
        return about | {key: str(self.environment[key]) for key in ("gpu", "cpu", "date") if self.environment.get(key)}

    @property
    def excluded_tasks(self) -> tuple[str, ...]:
        """Tasks without scores: NER if the entities were given."""
        return ("ner",) if self.options.gold_entities else ()

    @cached_property
    def scores(self) -> dict[str, list[Scores]]:
        """Scores by model name, under each policy."""
        gold, predicted = self.aligned
        return {
            model.name: [
                score_documents(gold, predicted[model.name], schema=model.schema, symmetric=policy)
                for policy in self.options.policies
            ]
            for model in self.all_models
        }

    @cached_property
    def promises(self) -> dict[str, list[Promise]]:
        """Promised levels of precision and what was measured, by the names of models that can promise some."""
        gold, predicted = self.aligned
        choice = parse_precision(self.options.precision)
        return {
            model.name: measure_promises(model.precision_record, gold, predicted[model.name], model.schema, choice)
            for model in self.all_models
            if model.precision_record is not None
        }

    def precision_record(self, model: EvaluatedModel) -> dict[str, Any]:
        """Return the promised levels and the curves of a model as plain values for JSON; empty without promises."""
        if (record := model.precision_record) is None:
            return {}
        gold, predicted = self.aligned
        curves = measure_curves(record, record_predictions(gold, predicted[model.name], model.schema), gold)
        return {
            "promised_precision": [promise.to_dict() for promise in self.promises[model.name]],
            "precision_curves": [curve.to_dict() for curve in curves],
        }

    def summarise(self, models: Sequence[EvaluatedModel], *, per_label: bool = False) -> list[Figure]:
        """Return the figures of one model, or mean and standard deviation of several."""
        scores = [self.scores[model.name] for model in models]
        return summarise(scores, per_label=per_label, condition=self.suffix, exclude=self.excluded_tasks)

    def summarise_groups(self, models: Sequence[EvaluatedModel], name: str) -> tuple[str, list[Figure]]:
        """Return the title and the figures of the groups of a breakdown."""
        chosen = [next(b for b in self.analyses[model.name].breakdowns if b.name == name) for model in models]
        tasks, policy = [breakdown.tasks for breakdown in chosen], self.options.policies[0]
        return chosen[0].title, summarise_groups(tasks, symmetric=policy, condition=self.suffix)

    @property
    def sides(self) -> tuple[tuple[EvaluatedModel, ...], tuple[EvaluatedModel, ...]] | None:
        """The two sides of the comparison: ``models`` and ``against``, or the first and second of two models."""
        if self.against:
            return self.models, self.against
        return (self.models[:1], self.models[1:]) if len(self.models) == 2 else None

    @property
    def n_units(self) -> int:
        """Number of documents or sentences that the bootstrap draws from."""
        gold, _ = self.aligned
        return len(gold) if self.options.resample == "documents" else sum(len(d.sentences) for d in gold)

    @cached_property
    def differences(self) -> list[Difference]:
        """Difference between the two sides under each protocol.

        Empty without a second side, or with too few units for a bootstrap.
        """
        if self.sides is None or self.n_units < MIN_UNITS:
            return []
        options = self.options
        bootstrap = Bootstrap(options.n_resamples, options.resample.removesuffix("s"), options.seed)
        gold, predicted = self.aligned
        first, second = ([predicted[model.name] for model in side] for side in self.sides)
        found: dict[str, Difference] = {}
        for policy in options.policies:
            by_task = compare(gold, first, second, schema=self.models[0].schema, symmetric=policy, bootstrap=bootstrap)
            named = [self._add_condition(d) for task, d in by_task.items() if task not in self.excluded_tasks]
            found |= {difference.protocol: difference for difference in named}
        return sorted(found.values(), key=lambda difference: difference.protocol.split(",")[0])

    def summarise_noise(self, models: Sequence[EvaluatedModel]) -> dict[str, dict[str, Spread]]:
        """Return the F1 of NER and strict RE on clean text and with each kind of noise."""
        by_kind = {CLEAN: [self.scores[model.name][0] for model in models]}
        by_kind |= {kind: [model.noise[kind] for model in models] for kind in self.options.noise}
        return {
            kind: {task: Spread.of(getattr(one, task).counts.f1 for one in scores) for task in NOISE_TASKS}
            for kind, scores in by_kind.items()
        }

    def noise_record(self, models: Sequence[EvaluatedModel]) -> list[dict[str, Any]]:
        """Return the figures of :meth:`summarise_noise` as plain values for JSON."""
        found = self.summarise_noise(models)
        return [{"noise": kind} | {task: one.to_dict() for task, one in row.items()} for kind, row in found.items()]

    def analyse_models(self) -> Iterator[tuple[str, Analysis]]:
        """Yield a folder name and the analysis under the first policy for each model."""
        for number, (name, analysis) in enumerate(self.analyses.items(), start=1):
            yield f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-')}", analysis

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
                "n_sentences": sum(len(document.sentences) for document in self.gold),
                "n_words": sum(len(sentence) for document in self.gold for sentence in document.sentences),
            },
        }
        for name, models in sides:
            record[name] = [self._model_record(model) for model in models]
        for name, models in sides:
            record[f"figures_of_{name}"] = [figure.to_dict() for figure in self.summarise(models, per_label=True)]
            if options.noise:
                record[f"noise_of_{name}"] = self.noise_record(models)
        record["differences"] = [difference.to_dict() for difference in self.differences]
        record["environment"] = dict(self.environment)
        return record

    def _add_condition(self, difference: Difference) -> Difference:
        return replace(difference, protocol=f"{difference.protocol}, {self.suffix}") if self.suffix else difference

    def _model_record(self, model: EvaluatedModel) -> dict[str, Any]:
        analysis = self.analyses[model.name].to_dict()
        return {
            "name": model.name,
            "joint": model.joint,
            "overlaps": model.overlaps,
            "scores": {one.symmetric: one.to_dict(exclude=self.excluded_tasks) for one in self.scores[model.name]},
            **{key: analysis[key] for key in ("false_positives", "segmentation", "breakdowns", "constraints")},
            "promised_precision": [promise.to_dict() for promise in self.promises.get(model.name, ())],
            "speed": model.measure_speed(),
        }
