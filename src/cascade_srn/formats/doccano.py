"""doccano's JSON lines: entities by character offsets, or as ``[start, end, label]``; relations by ids of entities.

Old exports have entities in ``annotations``, with the numbers of labels.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.files import read_json_lines, write_json_lines
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import index_relations
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader, first_records, has_item
from cascade_srn.types import Document

FIELDS = ("id", "text", "data", "entities", "relations", "annotations", "label", "labels", "Comments", "comments")


def sniff(head: str, path: Path) -> bool:
    """Return whether a record has entities with ``start_offset``, or a list ``label`` of start, end and name."""
    return head.lstrip().startswith("{") and any(map(_is_record, first_records(head)))


def _is_record(record: dict[str, Any]) -> bool:
    if not ("text" in record or "data" in record):
        return False
    if any(has_item(record, name, "start_offset", "end_offset") for name in ("entities", "annotations")):
        return True
    triples: list[Any] = next((record[name] for name in ("label", "labels") if isinstance(record.get(name), list)), [])
    first = triples[0] if triples else None
    return isinstance(first, list) and len(first) == 3 and [type(part) for part in first] == [int, int, str]


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a file line by line."""
    return read_json_lines(path, context, _read_document)


def _read_document(record: Value, context: ReadContext) -> Document:
    record = record.with_document_id("id")
    text = (record.get("text") or record.get("data") or record.field("text")).string()
    record.note_unread(FIELDS, context)
    pairs = [*record.get_items("label"), *record.get_items("labels")]
    old = [_name_label(item, context) for item in record.get_items("annotations")]
    entities = [*record.get_items("entities"), *old, *pairs]
    return StandoffReader(record, text, context).build(
        entities, _read_entity, record.get_items("relations"), _read_relation
    )


def _name_label(item: Value, context: ReadContext) -> Value:
    """Return an annotation of an old export, which has the number of its label instead of the name."""
    number = item.raw.get("label") if isinstance(item.raw, dict) else None
    if type(number) is not int:
        return item
    context.report.note("label is a number, which a label map can rename", item.example())
    return replace(item, raw={**item.raw, "label": str(number)})


def _read_entity(item: Value) -> StandoffEntity:
    if isinstance(item.raw, list):
        start, end, label = item.items(3, 3)
        return StandoffEntity(item.path, start.integer(), end.integer(), label.label())
    id = item.get("id")
    return StandoffEntity(
        item.path if id is None else id.identifier(),
        item.field("start_offset").integer(),
        item.field("end_offset").integer(),
        item.field("label").label(),
    )


def _read_relation(item: Value) -> Iterator[Link]:
    yield Link(item.field("from_id").identifier(), item.field("type").label(), item.field("to_id").identifier())


def write(documents: Iterable[Document], path: Path) -> None:
    """Write the form that doccano imports and exports for projects with relations. Words and scores are lost.

    Ids of entities and relations count over the whole file, as in an export.
    """
    write_json_lines(_to_records(documents), path)


def _to_records(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    n_entities = n_relations = 0
    for document in documents:
        entities = [
            {"id": number, "label": e.label, "start_offset": e.start, "end_offset": e.end}
            for number, e in enumerate(document.entities, n_entities)
        ]
        relations = [
            {"id": number, "from_id": n_entities + head, "to_id": n_entities + tail, "type": triple.label}
            for number, (triple, head, tail) in enumerate(index_relations(document), n_relations)
        ]
        n_entities, n_relations = n_entities + len(entities), n_relations + len(relations)
        yield {
            "id": document.id,
            "text": document.text,
            "entities": entities,
            "relations": relations,
            "Comments": [],
        }


DOCCANO = Format("doccano", (), sniff, read, write, loses=("words and sentences", *SCORES))
