"""Judgements of suggestions: which predictions of the current model annotators found right, and which wrong.

They come from the stored annotations, so that accepting, rejecting and correcting suggestions is all there is to do.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.learning import TRAIN, TRAINING, current_model
from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.suggestions import SuggestedMarks, Suggestions
from cascade_srn.errors import DataError
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.formats.jsonl import to_record
from cascade_srn.formats.registry import read_documents
from cascade_srn.formats.reports import WriteReport
from cascade_srn.model.folder import model_checksum
from cascade_srn.storage.bundled import find_model
from cascade_srn.types import Document

REVIEW = "review"
"""Name of the export for ``calibrate --reviewed``."""


def write_review(project: Project, path: Path, annotator: str | None = None) -> WriteReport:
    """Write the suggestions of the current model in documents that are done, as right or wrong.

    A suggestion is right if the annotation has it. Documents that the model has learned from are left out, because its
    suggestions are better there than elsewhere.

    Args:
        project: The project.
        path: File of JSON lines to write, as ``extract`` writes them, with a field ``correct``.
        annotator: Whose annotations. None: the adjudicated one of each document, or else the one saved last.

    Raises:
        DataError: There is no model, or no document with judged suggestions.
    """
    name = current_model(project)
    if name is None:
        raise DataError("the project has no model whose suggestions are judged", "Train a model first")
    folder = find_model(name)
    model, learned = model_checksum(folder), _learned_from(project, folder)
    suggestions = Suggestions(project.folder)
    suggestions.refresh()
    symmetric = project.labels.schema.symmetric
    lines = [
        to_json({"id": document.id, "text": document.text, "model": model} | judge(found, document, symmetric))
        for document in project.annotated_documents(annotator)
        if document.id not in learned and (found := suggestions.get(document.id)).model == model
    ]
    if not lines:
        raise DataError(
            "no document that is done has suggestions of the current model, besides those that it has learned from",
            "Mark held-out or new documents as done",
        )
    with replacing(path) as handle:
        handle.writelines(f"{line}\n".encode() for line in lines)
    return WriteReport(REVIEW, len(lines))


def _learned_from(project: Project, model: Path) -> set[str]:
    """Return the ids of the documents of the project that a model was trained on, as far as the project knows."""
    is_own = model.is_relative_to(project.folder / TRAINING)
    return {one.id for one in read_documents(model.parents[1] / TRAIN, "jsonl")} if is_own else set()


def judge(suggested: SuggestedMarks, document: Document, symmetric: Collection[str]) -> dict[str, Any]:
    """Return suggestions with a field ``correct``: whether an annotated document has them, entity types included."""
    gold = to_record(document)
    spans = [(one["start"], one["end"], one["label"]) for one in gold["entities"]]
    pairs = {(spans[one["head"]], one["label"], spans[one["tail"]]) for one in gold["relations"]}
    pairs |= {(tail, label, head) for head, label, tail in pairs if label in symmetric}
    places = {one["id"]: (one["start"], one["end"], one["label"]) for one in suggested.entities}
    numbers = {id: number for number, id in enumerate(places)}
    entities = [
        dict(one) | {"id": numbers[one["id"]], "correct": places[one["id"]] in spans} for one in suggested.entities
    ]
    relations = []
    for one in suggested.relations:
        triple = places[one["head"]], one["label"], places[one["tail"]]
        ends = {name: numbers[one[name]] for name in ("head", "tail")}
        relations.append(ends | {"label": one["label"], "score": one["score"], "correct": triple in pairs})
    return {"entities": entities, "relations": relations}
