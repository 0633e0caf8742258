"""Run models on annotated data, and write the results."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cascade_srn.errors import ConfigError, DataError, ModelError, SchemaError, suggest
from cascade_srn.evaluation.from_text import rebuild_text, restore_words, split_characters
from cascade_srn.evaluation.noise import score_noise
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.predictions import (
    align_predictions,
    check_gold_entities,
    choose_schema,
    match_documents,
    open_documents,
    read_predictions,
)
from cascade_srn.evaluation.result import EvaluatedModel, Evaluation, display_name, display_names
from cascade_srn.extractor import Extractor
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.files import replacing
from cascade_srn.formats.registry import read_documents
from cascade_srn.formats.reports import ReadReport
from cascade_srn.schema import Schema
from cascade_srn.storage.atomic import try_writing
from cascade_srn.storage.bundled import is_model
from cascade_srn.types import Document


def run_model(
    extractor: Extractor,
    documents: Sequence[Document],
    *,
    name: str,
    gold_entities: bool = False,
    from_text: bool = False,
    batch_words: int = 4096,
) -> EvaluatedModel:
    """Predict on documents.

    With ``gold_entities``, predict only relations between the entities of the documents. With ``from_text``, extract
    from the texts of the documents, as for a user: the predictions have the words and sentences of the extractor.
    """
    settings = extractor.model.settings
    if gold_entities and not settings.joint:
        raise ModelError(
            f"the model {name!r} predicts entities only, and has no relations between gold entities",
            "Evaluate a model with relations, or predict end to end",
            option="gold_entities",
        )
    started = time.perf_counter()
    if from_text:
        predicted = list(extractor.stream((d.text for d in documents), batch_words=batch_words, on_error="raise"))
    else:
        predicted = extractor.predict(documents, given_entities=gold_entities, batch_words=batch_words)
    seconds = time.perf_counter() - started
    overlaps = None if gold_entities else extractor.overlaps
    return EvaluatedModel(
        name,
        extractor.schema,
        predicted,
        seconds,
        settings.joint,
        overlaps,
        extractor.constraints,
        precision_record=None if gold_entities else extractor.find_precision_record(),
    )


def read_annotated(
    path: str, format: str | None, align: Align, on_read: Callable[[ReadReport], None]
) -> list[Document]:
    """Read documents that must have entities. ``on_read`` gets the report of the reader."""
    stream = read_documents(path, format=format, align=align)
    documents = list(stream)
    on_read(stream.report)
    if not stream.report.entities:
        raise DataError(f"{path!r} has no entities", "Use annotated documents")
    return documents


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


def evaluate(
    options: EvaluateOptions,
    *,
    device: str | torch.device = "auto",
    environment: Mapping[str, Any] | None = None,
    on_read: Callable[[ReadReport], None] = lambda report: None,
) -> Evaluation:
    """Load models one after the other and predict on annotated data, or read predictions made elsewhere.

    ``on_read`` is called with the report of each file that is read, before the first model is loaded.
    """

    def read(path: str, format: str | None = None, *, from_text: bool = False) -> list[Document]:
        # From text, gold is compared by characters and does not have to fit words or sentences of the package.
        stream = open_documents(path, format, options, split_characters if from_text else None)
        documents = [rebuild_text(restore_words(document)) if from_text else document for document in stream]
        on_read(stream.report)
        return documents

    if is_model(options.data):
        raise ConfigError(f"the data {options.data!r} is a model", "Give one or more models first, and the data last")
    gold = read(options.data, options.format, from_text=options.from_text)
    if not any(sentence.entities for document in gold for sentence in document.sentences):
        raise DataError(
            f"{options.data!r} has no entities to compare with",
            "Give annotated data, and name its format",
            option="format",
        )
    training = None if options.train is None else read(options.train)

    def run(path: str, name: str) -> EvaluatedModel:
        extractor = Extractor.from_pretrained(
            path, device=device, precision=options.precision, overlaps=options.overlaps, constraints=options.constraints
        )
        check_labels(extractor.schema, gold, model=name, data=display_name(options.data))
        found = run_model(
            extractor,
            gold,
            name=name,
            gold_entities=options.gold_entities,
            from_text=options.from_text,
            batch_words=options.batch_words,
        )
        score = partial(score_noise, seed=options.seed, symmetric=options.policies[0], batch_words=options.batch_words)
        return replace(found, noise={kind: score(extractor, gold, kind) for kind in options.noise})

    sides = (*options.models, *options.predictions), options.against
    paths = (*sides[0], *sides[1])
    names = dict(zip(paths, display_names(paths), strict=True))
    files = [*options.predictions, *(path for path in options.against if os.path.isfile(path))]
    found = {path: match_documents(gold, read_predictions(path, options, on_read), names[path]) for path in files}
    models = {path: run(path, names[path]) for path in paths if path not in found}
    if found:
        gold, models = _add_predictions(options, gold, models, found, names)
    check_same_labels([models[path] for path in paths])
    first, second = (tuple(models[path] for path in side) for side in sides)
    return Evaluation(options, gold, first, second, training, environment or {})


def _add_predictions(
    options: EvaluateOptions,
    gold: list[Document],
    models: Mapping[str, EvaluatedModel],
    found: Mapping[str, list[Document]],
    names: Mapping[str, str],
) -> tuple[list[Document], dict[str, EvaluatedModel]]:
    """Return gold and the models by path, with predictions made elsewhere as further models.

    The words of all are the same, except from text, where the evaluation aligns them.
    """
    known = next((model.schema for model in models.values()), None)
    schema = choose_schema(options, known, gold, list(found.values()))
    further = {path: EvaluatedModel(names[path], schema, one, seconds=None) for path, one in found.items()}
    every = {**models, **further}
    if not options.from_text:
        gold, *aligned = align_predictions(gold, [model.predicted for model in every.values()])
        pairs = zip(every.items(), aligned, strict=True)
        every = {path: replace(model, predicted=one) for (path, model), one in pairs}
    if options.gold_entities:
        for path in found:
            check_gold_entities(gold, every[path].predicted, names[path])
    return gold, every


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

    Returns the folders of the reports: the given folder for one model, a subfolder for each of several.
    """
    from cascade_srn.evaluation.report import write_report

    write_json(evaluation.to_dict(), folder / "scores.json")
    several = len(evaluation.models) + len(evaluation.against) > 1
    written = []
    for model, (name, analysis) in zip(evaluation.all_models, evaluation.analyse_models(), strict=True):
        target = folder / name if several else folder
        record = analysis.to_dict() | evaluation.precision_record(model)
        record |= {"noise": evaluation.noise_record([model])} if evaluation.options.noise else {}
        write_json(record, target / "analysis.json")
        write_report(record, target)
        written.append(target)
    return written
