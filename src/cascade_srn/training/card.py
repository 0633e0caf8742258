"""The card of a trained model: scores with intervals, data, labels, settings, command and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cascade_srn.evaluation.comparison import Bootstrap, count_units, f1_intervals
from cascade_srn.evaluation.from_text import rebuild_text
from cascade_srn.evaluation.noise import CLEAN, NOISE_TASKS, available_kinds, score_noise
from cascade_srn.evaluation.scores import Scores, score
from cascade_srn.extractor import Extractor
from cascade_srn.model.card import CardDetails, CardLabel, CardScore, model_card
from cascade_srn.model.model import Model
from cascade_srn.network.examples import examples_of
from cascade_srn.schema import Schema
from cascade_srn.training.corpus import Corpus, count_labels
from cascade_srn.training.recipe import CardSettings, Recipe
from cascade_srn.training.run_folder import TASKS
from cascade_srn.types import Document

# With fewer documents, the interval of a bootstrap is too narrow to be shown.
_MIN_DOCUMENTS = 10
_COUNTED = ("documents", "sentences", "words", "entities", "relations")
_SPLIT_ORDER = ("test", "dev")


@dataclass(frozen=True)
class SplitResult:
    """Scores of a split, and the 95 % interval of the micro F1 of each task, if there are enough documents."""

    scores: Scores
    intervals: Mapping[str, tuple[float, float]]


def score_split(model: Model, documents: Sequence[Document]) -> SplitResult:
    """Score a model end to end on annotated documents."""
    model.network.eval()
    examples = examples_of(documents, model.settings.encoder.context_words)
    predicted = model.predictor().predict(examples)
    scores = score([example.sentence for example in examples], predicted, schema=model.schema)
    if len(documents) < _MIN_DOCUMENTS:
        return SplitResult(scores, {})
    left = iter(predicted)
    found = [Document(d.text, tuple(islice(left, len(d.sentences))), d.id) for d in documents]
    counts = count_units(documents, found, schema=model.schema, symmetric=scores.symmetric)
    bounds = f1_intervals(counts, Bootstrap(n_resamples=2000)).tolist()
    return SplitResult(scores, {task: (low, high) for task, (low, high) in zip(TASKS, bounds, strict=True)})


def score_with_noise(model: Model, documents: Sequence[Document]) -> dict[str, dict[str, float]]:
    """Return the F1 on clean text and with each kind of noise, by task."""
    extractor, texts = Extractor(model), [rebuild_text(document) for document in documents]
    found = {kind: score_noise(extractor, texts, kind) for kind in (CLEAN, *available_kinds())}
    return {
        kind: {name: getattr(scores, task).counts.f1 for task, name in NOISE_TASKS.items()}
        for kind, scores in found.items()
    }


def training_card(
    model: Model, recipe: Recipe, corpus: Corpus, results: Mapping[str, SplitResult], summary: Mapping[str, Any]
) -> str:
    """Return the card of a trained model."""
    card = CardSettings() if recipe.card is None else recipe.card
    details = CardDetails(
        title=card.name or Path(recipe.output).absolute().name,
        description=card.description or "",
        licence=card.licence or "",
        language=tuple(code.strip() for code in (card.language or "").split(",") if code.strip()),
        scores=tuple(_scores(results)),
        score_notes=tuple(_score_notes(results, corpus)),
        noise=summary.get("noise", {}),
        data=tuple(_data(summary["data"])),
        labels=tuple(_labels(corpus, model.schema, joint=model.settings.joint, examples=card.examples)),
        settings=_settings(summary["recipe"]),
        command=summary["command"],
        versions=_versions(summary["environment"]),
    )
    return model_card(model.settings, model.schema, model.settings.encoder.name, details)


def _scores(results: Mapping[str, SplitResult]) -> Iterator[CardScore]:
    for split in (split for split in _SPLIT_ORDER if split in results):
        found = results[split].scores
        for task, name in TASKS.items():
            counts = getattr(found, task).counts
            protocol = "micro" if task == "ner" else f"{found.symmetric}, micro"
            interval = results[split].intervals.get(task)
            yield CardScore(split, name, protocol, counts.precision, counts.recall, counts.f1, interval)


def _score_notes(results: Mapping[str, SplitResult], corpus: Corpus) -> Iterator[str]:
    if "dev" in results:
        yield "The weights and thresholds were chosen on dev, so the scores on dev are too high for other text."
    if any(result.intervals for result in results.values()):
        yield "Intervals are of a bootstrap over documents."
    held = [name for name, split in corpus.splits.items() if split.held_out]
    if held:
        yield f"The documents of {' and '.join(held)} were held out of the training data."


def _data(described: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a row for each split, with the name of its file."""
    for split in ("train", "dev", "test", "labels"):
        if split in described:
            values = described[split]
            held = " (held out)" if "held_out" in values else ""
            name = "labelled by teachers" if split == "labels" else split
            row = {"split": name, "file": f"{Path(values['path']).name}{held}"}
            yield row | {key: f"{values[key]:,}" for key in _COUNTED if key in values}


def _labels(corpus: Corpus, schema: Schema, *, joint: bool, examples: bool) -> Iterator[CardLabel]:
    counts: Counter[tuple[str, str]] = Counter()
    for document in corpus.train:
        counts.update(count_labels(document))
    shown = _find_examples(corpus.train) if examples else {}
    names = {"entity": schema.entity_types, "relation": schema.relation_types if joint else ()}
    for kind, labels in names.items():
        for label in labels:
            yield CardLabel(kind, label, counts[kind, label], shown.get((kind, label), ""))


def _find_examples(documents: Sequence[Document]) -> dict[tuple[str, str], str]:
    """Return the first annotation of each label."""
    found: dict[tuple[str, str], str] = {}
    for document in documents:
        for entity in document.entities:
            found.setdefault(("entity", entity.label), entity.text)
        for relation in document.relations:
            found.setdefault(("relation", relation.label), f"{relation.head.text} → {relation.tail.text}")
    return found


def _settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    start = recipe["model"].get("start")
    chosen = {"start": start, "training": recipe["training"], "distillation": recipe.get("distillation")}
    return {name: value for name, value in chosen.items() if value is not None}


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    packages = {name: version for name, version in environment["packages"].items() if version is not None}
    return {"python": environment["python"], **packages, "device": environment["gpu"] or environment["device"]}
