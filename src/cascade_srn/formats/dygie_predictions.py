"""Predictions that DyGIE++, PURE and PL-Marker write beside the gold annotations of a DyGIE++ record.

Entities are in ``predicted_ner``. Relations are in ``predicted_relations``, or in ``predicted_re`` as PL-Marker writes
them: a pair of the position of a sentence and its relations for each sentence, with the two spans as pairs of indices.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from cascade_srn.formats.base import Format, MalformedInput, ReadContext
from cascade_srn.formats.dygie import DYGIE, read_record
from cascade_srn.formats.files import read_head, read_json_lines
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import WITHOUT_ENTITY
from cascade_srn.types import Document

NER, RELATIONS, PAIRED_RELATIONS = "predicted_ner", "predicted_relations", "predicted_re"
_KEY = re.compile(rf'(?<!\\)"(?:{NER}|{RELATIONS}|{PAIRED_RELATIONS})"\s*:')


def has_predictions(path: Path) -> bool:
    """Return whether the first records of a DyGIE++ file have fields for predictions."""
    return _KEY.search(read_head(path)) is not None


def make_format(*, gold_entities: bool = False) -> Format:
    """Return the format of such a file. Its reader takes the predictions, and ignores the gold annotations.

    With ``gold_entities``, the entities are those of ``ner``, between which the relations were predicted.
    """

    def read(path: Path, context: ReadContext) -> Iterator[Document]:
        def read_predicted(record: Value, context: ReadContext) -> Document:
            return _read_record(record, context, "ner" if gold_entities else NER)

        return read_json_lines(path, context, read_predicted)

    return Format(DYGIE.name, (), DYGIE.sniff, read, DYGIE.write)


def _read_record(record: Value, context: ReadContext, ner: str) -> Document:
    record = record.with_document_id("doc_key")
    if record.get(ner) is None:
        raise _no_entities(record, ner)
    relations = RELATIONS if record.get(PAIRED_RELATIONS) is None else PAIRED_RELATIONS
    raw = {name: record.raw[name] for name in ("doc_key", "sentences", ner) if name in record.raw}
    n_sentences = record.field("sentences").length()
    if (value := record.get(relations)) is not None:
        if relations == PAIRED_RELATIONS:
            value = Value(_group(value, n_sentences), record.place, relations)
        pairs = zip_longest(value.items(), record.field(ner).items()[: value.length()])
        raw[relations] = [_between_entities(found, entities, context) for found, entities in pairs]
    return read_record(Value(raw, record.place), context, ner, relations)


def _no_entities(record: Value, ner: str) -> MalformedInput:
    if ner == NER and record.get("ner") is not None:
        hint, option = "If the relations were predicted between gold entities, say so", "gold_entities"
    else:
        hint, option = "Write the predicted entities beside the relations", ""
    return record.refuse("missing field", f"which has no field {ner!r}", hint, option=option)


def _group(value: Value, n_sentences: int) -> list[list[Any]]:
    """Convert the relations of PL-Marker to a list for each sentence."""
    grouped: list[list[Any]] = [[] for _ in range(n_sentences)]
    for item in value.items():
        number, relations = item.items(2, 2)
        for relation in relations.items():
            head, tail, label = relation.items(3, 3)
            spans = [bound.raw for span in (head, tail) for bound in span.items(2)[:2]]
            grouped[number.index(n_sentences, "sentence")].append([*spans, label.raw])
    return grouped


def _between_entities(relations: Value, entities: Value | None, context: ReadContext) -> list[Any]:
    """Leave out relations of a span that is not a predicted entity, which DyGIE++ can predict, and note them."""
    found = entities.items() if entities else []
    spans = {tuple(bound.integer() for bound in entity.items(3)[:2]) for entity in found}
    kept = []
    for relation in relations.items():
        bounds = [bound.integer() for bound in relation.items(5)[:4]]
        if {tuple(bounds[:2]), tuple(bounds[2:])} <= spans:
            kept.append(relation.raw)
        else:
            context.report.note(WITHOUT_ENTITY, relation.example())
    return kept
