"""doccano's JSON lines: entities by character offsets, or as ``[start, end, label]``; relations by ids of entities."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.files import open_for_writing, read_json_lines, to_json
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import number_entities
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader, first_records, has_item
from cascade_srn.types import Document

FIELDS = ("id", "text", "data", "entities", "relations", "label", "labels", "Comments", "comments")


def sniff(head: str, path: Path) -> bool:
    """Return whether a record has entities with ``start_offset``, or a list ``label`` of start, end and name."""
    return head.lstrip().startswith("{") and any(map(_is_record, first_records(head)))


def _is_record(record: dict[str, Any]) -> bool:
    if not ("text" in record or "data" in record):
        return False
    if has_item(record, "entities", "start_offset", "end_offset"):
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
    entities = [*record.get_items("entities"), *pairs]
    return StandoffReader(record, text, context).build(
        entities, _read_entity, record.get_items("relations"), _read_relation
    )


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
    n_entities = n_relations = 0
    with open_for_writing(path) as handle:
        for document in documents:
            index = number_entities(document)
            entities = [
                {"id": n_entities + n, "label": e.label, "start_offset": e.start, "end_offset": e.end}
                for n, e in enumerate(document.entities)
            ]
            relations = [
                {
                    "from_id": n_entities + index[number, triple.head],
                    "to_id": n_entities + index[number, triple.tail],
                    "type": triple.label,
                }
                for number, sentence in enumerate(document.sentences)
                for triple in sentence.triples
            ]
            numbered = [{"id": n_relations + n} | relation for n, relation in enumerate(relations)]
            n_entities, n_relations = n_entities + len(entities), n_relations + len(relations)
            record = {
                "id": document.id,
                "text": document.text,
                "entities": entities,
                "relations": numbered,
                "Comments": [],
            }
            handle.write(f"{to_json(record)}\n".encode())


DOCCANO = Format("doccano", (), sniff, read, write, loses=("words and sentences", *SCORES))
