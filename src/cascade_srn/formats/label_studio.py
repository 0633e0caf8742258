"""Label Studio's JSON: tasks with ``annotations`` or ``predictions``; its min form, which has no relations, is read."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError, short_repr
from cascade_srn.formats.base import Format, ReadContext
from cascade_srn.formats.files import read_json, write_json_array
from cascade_srn.formats.json_records import Value, number_values
from cascade_srn.formats.jsonl import check_score, index_relations
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader, first_records, has_item
from cascade_srn.types import Document

# Fields of a task that say who did what when.
_IGNORED = tuple(
    """agreement annotation_id annotations_ids annotator annotators avg_lead_time cancelled_annotations comment_authors
    comment_authors_count comment_count comments completed_at created_at created_ago draft_exists drafts file_upload
    ground_truth id inner_id is_labeled last_comment_updated_at lead_time meta overlap predictions_model_versions
    predictions_results predictions_score project reviewed reviewers reviews_accepted reviews_rejected state
    storage_filename total_annotations total_predictions unresolved_comment_count updated_at updated_by""".split()  # noqa: SIM905
)


def sniff(head: str, path: Path) -> bool:
    """Return whether an array has tasks: ``data`` with ``annotations``, or a list of labelled spans beside a text."""
    return head.lstrip().startswith("[") and any(map(_is_task, first_records(head)))


def _is_task(record: dict[str, Any]) -> bool:
    if isinstance(record.get("data"), dict):
        return any(isinstance(record.get(name), list) for name in ("annotations", "predictions", "completions"))
    return any(has_item(record, name, "start", "end", "labels") for name in record)


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read one document for each task of the array. Messages count tasks from 1."""
    array = read_json(path, context.encoding)
    if type(array.raw) is not list:
        raise DataError(
            f"{path} contains {short_repr(array.raw)}, but a JSON array of tasks was expected",
            "Export the project as JSON, or name another format",
            option="format",
        )
    return context.read_each(number_values(path, "task", array.raw), _read_task)


def _read_task(task: Value, context: ReadContext) -> Document:
    data = task.get("data")
    if data is None:
        return _read_min_task(task, context)
    task.note_unread((*_IGNORED, "data", "annotations", "predictions", "completions"), context)
    own = data.get("id")
    task = task.with_document_id("id") if own is None else replace(task, place=data.with_document_id("id").place)
    text = _find_text(replace(data, place=task.place), "id")
    results = _choose_results(task, context)
    mentions, links = [], []
    for item in results:
        kind = item.field("type").string()
        if kind == "relation":
            links.append(item)
        elif item.get("value") is not None and item.field("value").get(kind) is not None and kind.endswith("labels"):
            mentions += _split_labels(item, kind, context)
        else:
            context.report.note(f"result of type {kind!r} not read", item.example())
    return StandoffReader(task, text, context).build(mentions, _read_region, links, _read_relation)


def _read_min_task(task: Value, context: ReadContext) -> Document:
    """Read a task of the min form: the text, and a list of spans under the name of the tag."""
    task = task.with_document_id("id")
    lists = [name for name, raw in task.raw.items() if isinstance(raw, list) and name not in _IGNORED]
    spans = [name for name in lists if has_item(task.raw, name, "start", "end")]
    text = _find_text(task, *_IGNORED)
    context.report.note("task of the min form, which has no relations", task.example())
    items = [part for name in spans for item in task.get_items(name) for part in _split_labels(item, "labels", context)]
    return StandoffReader(task, text, context).build(items, _read_region)


def _find_text(data: Value, *others: str) -> str:
    """Return the field ``text``, or the only other string."""
    if isinstance(data.raw, dict) and "text" not in data.raw:
        strings = [name for name, raw in data.raw.items() if isinstance(raw, str) and name not in others]
        if len(strings) == 1:
            return data.field(strings[0]).string()
    return data.field("text").string()


def _choose_results(task: Value, context: ReadContext) -> list[Value]:
    """Return the results of one annotation: the ground truth, else the one updated last; else of a prediction."""
    given = [*task.get_items("annotations"), *task.get_items("completions")]
    done = [item for item in given if not item.raw.get("was_cancelled")]
    if len(done) < len(given):
        context.report.note("cancelled annotation left out", given[0].example())
    if not done and (done := task.get_items("predictions")):
        context.report.note("predictions read, because the task has no annotation", task.example())
    if not done:
        return []
    if len(done) > 1:
        context.report.note("task with several annotations, of which one is read", task.example())
    best = max(done, key=lambda item: (bool(item.raw.get("ground_truth")), str(item.raw.get("updated_at") or "")))
    return best.get_items("result")


def _split_labels(item: Value, kind: str, context: ReadContext) -> list[Value]:
    """Return a region once for each of its labels, with the label in the field ``label``."""
    value = item.raw.get("value", item.raw)
    given = value.get(kind) if isinstance(value, dict) else None
    if not isinstance(given, list) or not given:
        return [replace(item, raw={**item.raw, "label": None})]
    if len(given) > 1:
        context.report.note("region with several labels; its relations belong to the first", item.example())
    return [replace(item, raw={**item.raw, "label": label}) for label in given]


def _read_region(item: Value) -> StandoffEntity:
    value = item.get("value") or item
    if value.get("width") is not None or value.get("points") is not None:
        raise item.refuse("region of a picture", "which is a region of a picture", "Use regions of text")
    offsets = value.get("globalOffsets") or value
    text = value.get("text")
    id = item.get("id")
    return StandoffEntity(
        item.path if id is None else id.identifier(),
        offsets.field("start").integer(),
        offsets.field("end").integer(),
        item.field("label").label(),
        None if text is None else text.string(),
        item.optional_score(),
    )


def _read_relation(item: Value) -> Iterator[Link]:
    head, tail = item.field("from_id").identifier(), item.field("to_id").identifier()
    labels = item.get_items("labels")
    if not labels:
        raise item.refuse("relation without a label", "which has no label", "Label it, or remove it")
    direction = item.get("direction")
    towards = "right" if direction is None else direction.string()
    for label in labels:
        if towards != "left":
            yield Link(head, label.label(), tail)
        if towards in ("left", "bi"):
            yield Link(tail, label.label(), head)


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one task for each document. Words, and scores of relations, are lost.

    Documents with scores become ``predictions``, which Label Studio shows as suggestions; others ``annotations``.
    """
    write_json_array(map(to_task, documents), path)


def to_task(document: Document) -> dict[str, Any]:
    """Return a document as a task."""
    results: list[dict[str, Any]] = []
    for number, entity in enumerate(document.entities):
        region = {
            "id": f"e{number}",
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "value": {"start": entity.start, "end": entity.end, "text": entity.text, "labels": [entity.label]},
        }
        score = check_score(entity.score)
        results.append(region if score is None else region | {"score": score})
    scored = any(entity.score is not None for entity in document.entities)
    for triple, head, tail in index_relations(document):
        ends = {"from_id": f"e{head}", "to_id": f"e{tail}"}
        results.append(ends | {"type": "relation", "direction": "right", "labels": [triple.label]})
    kind = "predictions" if scored else "annotations"
    return {"data": {"text": document.text, "id": document.id}, kind: [{"result": results}]}


LABEL_STUDIO = Format("label-studio", (), sniff, read, write, loses=("words and sentences", "scores of relations"))
