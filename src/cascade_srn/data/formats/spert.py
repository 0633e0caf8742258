"""SpERT's JSON: one array, a sentence an item, half-open word spans, relations by index of the entity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cascade_srn.data.formats.base import Format, ReadContext
from cascade_srn.data.formats.builder import Draft, Placed
from cascade_srn.data.formats.files import to_json, whole_json, writing
from cascade_srn.data.formats.records import Value
from cascade_srn.data.reports import Place
from cascade_srn.errors import DataError, shown
from cascade_srn.types import Document, Sentence, Span

FIELDS = ("tokens", "entities", "relations", "orig_id")
_KEY = re.compile(r'(?<!\\)"tokens"\s*:')


def sniff(head: str, path: Path) -> bool:
    """Whether the text starts with an array whose objects have a field ``tokens``."""
    return head.lstrip().startswith("[") and _KEY.search(head) is not None


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """One document for each item of the array, which is parsed whole; items count from 1 in messages."""
    whole = whole_json(path)
    if type(whole.raw) is not list:
        raise DataError(
            f"{path} holds {shown(whole.raw)}, but a JSON array of sentences was expected; for a file with "
            'one document a line pass format="dygie" or format="jsonl"'
        )
    for number, raw in enumerate(whole.raw, 1):
        record = Value(raw, Place(str(path), f"record {number}"))
        document = context.attempt("document", _document, record, context)
        if document is not None:
            yield document


def _document(record: Value, context: ReadContext) -> Document:
    record = record.identified("orig_id")
    words = record.field("tokens").words()
    entities, relations = (value.items() if (value := record.get(name)) else [] for name in ("entities", "relations"))
    record.note_unread(FIELDS, context)
    draft = Draft(context)
    placed = [context.attempt("entity", _entity, item, len(words), draft) for item in entities]
    for item in relations:
        context.attempt("relation", _relation, item, placed, draft)
    sentence = Sentence.from_words(words, draft.entities[0], draft.triples[0])
    return Document.from_sentences([sentence], id=record.place.document)


def _entity(item: Value, n_words: int, draft: Draft) -> Placed:
    start, end = item.field("start").integer(), item.field("end").integer()
    item.half_open(start, end, n_words, "tokens")
    return draft.entity(item, Span(start, end, item.field("type").label()))


def _relation(item: Value, placed: list[Placed | None], draft: Draft) -> None:
    head, tail = (placed[item.field(role).index(len(placed), "entity")] for role in ("head", "tail"))
    draft.relation(item, head, item.field("type").label(), tail)


def write(documents: Iterable[Document], path: Path) -> None:
    """Write an item for each sentence, with its document's id as ``orig_id``.

    Text, offsets, scores, and which sentences make up a document are not held by the format, but that
    sentences of one document share the id. A document without sentences becomes one item without tokens.
    """
    with writing(path) as handle:
        handle.write(b"[")
        separator = b"\n"
        for document in documents:
            for sentence in document.sentences or (Sentence((), ()),):
                handle.write(separator + to_json(_record(sentence, document.id)).encode())
                separator = b",\n"
        handle.write(b"\n]\n")


def _record(sentence: Sentence, id: str) -> dict[str, object]:
    index = {entity: number for number, entity in enumerate(sentence.entities)}
    return {
        "tokens": list(sentence.words),
        "entities": [{"type": e.label, "start": e.start, "end": e.end} for e in sentence.entities],
        "relations": [{"type": t.label, "head": index[t.head], "tail": index[t.tail]} for t in sentence.triples],
        "orig_id": id,
    }


SPERT = Format("spert", "SpERT's JSON, one array of sentences", (), sniff, read, write)
