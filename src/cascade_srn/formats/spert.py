"""SpERT's JSON: one array, one sentence per item, half-open word spans, relations by index of the entity."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cascade_srn.errors import DataError, short_repr
from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity, read_tokens
from cascade_srn.formats.files import empty_file, read_json, write_json_array
from cascade_srn.formats.json_records import Value, number_values
from cascade_srn.types import Document, Sentence, Span

FIELDS = ("tokens", "entities", "relations", "orig_id")
_KEY = re.compile(r'(?<!\\)"tokens"\s*:')


def sniff(head: str, path: Path) -> bool:
    """Return whether the text starts with an array whose objects have a field ``tokens``."""
    return head.lstrip().startswith("[") and _KEY.search(head) is not None


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read one document for each item of the array. Messages count items from 1."""
    array = read_json(path, context.encoding)
    if type(array.raw) is not list:
        raise DataError(
            f"{path} contains {short_repr(array.raw)}, but a JSON array of sentences was expected",
            "For a file with one document per line, use 'dygie' or 'jsonl'",
            option="format",
        )
    if not array.raw:
        raise empty_file(path)
    return context.read_each(number_values(path, "record", array.raw), _read_document)


def _read_document(record: Value, context: ReadContext) -> Document:
    record = record.with_document_id("orig_id")
    words, escaped = read_tokens(record.field("tokens"), context)
    entities, relations = record.get_items("entities"), record.get_items("relations")
    record.note_unread(FIELDS, context)
    builder = DocumentBuilder(context)
    placed = [context.attempt("entity", _read_entity, item, len(words), builder) for item in entities]
    for item in relations:
        context.attempt("relation", builder.add_relation_by_index, item, placed, "type")
    sentence = Sentence.from_words(words, builder.entities[0], builder.triples[0], escaped=escaped)
    return Document.from_sentences([sentence], id=record.place.document)


def _read_entity(item: Value, n_words: int, builder: DocumentBuilder) -> PlacedEntity:
    start, end = item.field("start").integer(), item.field("end").integer()
    item.check_half_open(start, end, n_words, "tokens")
    return builder.add_entity(item, Span(start, end, item.field("type").label()))


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one item for each sentence, with the id of its document as ``orig_id``.

    Text, offsets, scores, document boundaries and coreference clusters are lost. A document without sentences becomes
    an item without tokens.
    """
    records = (
        _to_record(sentence, document.id)
        for document in documents
        for sentence in document.sentences or (Sentence((), ()),)
    )
    write_json_array(records, path)


def _to_record(sentence: Sentence, id: str) -> dict[str, object]:
    index = {entity: number for number, entity in enumerate(sentence.entities)}
    return {
        "tokens": list(sentence.words),
        "entities": [{"type": e.label, "start": e.start, "end": e.end} for e in sentence.entities],
        "relations": [{"type": t.label, "head": index[t.head], "tail": index[t.tail]} for t in sentence.triples],
        "orig_id": id,
    }


SPERT = Format(
    "spert",
    (),
    sniff,
    read,
    write,
    loses=("text and offsets", "boundaries of sentences", *SCORES),
)
