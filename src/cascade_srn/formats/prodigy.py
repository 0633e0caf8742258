"""Prodigy's JSON lines: ``text``, ``tokens``, ``spans``, and ``relations`` between tokens or spans."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascade_srn.formats.base import Format, ReadContext
from cascade_srn.formats.files import open_for_writing, read_json_lines, to_json
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.standoff import Link, Mention, StandoffReader, first_records, group_words, has_item
from cascade_srn.types import Document, Offsets, Span

FIELDS = ("text", "tokens", "spans", "relations", "answer", "meta")


def sniff(head: str, path: Path) -> bool:
    """Return whether a record has a text and spans with ``start``, ``end`` and ``label``, or fields only of Prodigy."""
    return head.lstrip().startswith("{") and any(map(_is_record, first_records(head)))


def _is_record(record: dict[str, Any]) -> bool:
    own = "_input_hash" in record or "_task_hash" in record or has_item(record, "relations", "head", "child")
    return "text" in record and (own or has_item(record, "spans", "start", "end", "label"))


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the accepted examples of a file line by line. Rejected and ignored ones are noted."""
    return read_json_lines(path, context, _read_record)


def _read_record(record: Value, context: ReadContext) -> Document | None:
    meta = record.get("meta")
    if meta is not None and isinstance(meta.raw, dict):
        record = replace(record, place=meta.with_document_id("id").place)
    answer = record.get("answer")
    if answer is not None and answer.string() != "accept":
        context.report.note(f"example with the answer {answer.string()!r} left out", answer.example())
        return None
    text = record.field("text").string()
    known = [name for name in record.raw if name.startswith("_")]
    record.note_unread((*FIELDS, *known), context)
    tokens = record.get_items("tokens")
    offsets = _read_tokens(tokens, text, context)
    spans = record.get_items("spans")
    reader = _RecordReader([_bounds(token) for token in tokens], spans)
    builder = StandoffReader(record, text, context, offsets)
    return builder.build(spans, reader.mention, record.get_items("relations"), reader.link)


def _bounds(item: Value) -> tuple[int, int]:
    return item.field("start").integer(), item.field("end").integer()


def _read_tokens(tokens: list[Value], text: str, context: ReadContext) -> list[Offsets] | None:
    """Return the words of each sentence. Tokens of whitespace are no words."""
    if not tokens:
        return None
    words = []
    for token in tokens:
        start, end = _bounds(token)
        token.check_half_open(start, end, len(text), "characters in the text")
        if text[start:end].strip():
            words.append((start, end))
    return group_words(text, words, context, tokens[0].place)


class _RecordReader:
    """Reader of the spans and relations of a record. The key of an entity is its offsets and label."""

    def __init__(self, tokens: list[tuple[int, int]], spans: list[Value]) -> None:
        self.tokens = tokens
        self.spans = spans

    def mention(self, item: Value) -> Mention:
        start, end = _bounds(item)
        label = item.field("label").label()
        return Mention((start, end, label), start, end, label, score=item.optional_score())

    def link(self, item: Value) -> Iterator[Link]:
        label = item.field("label").label()
        yield Link(self._end(item, "head"), label, self._end(item, "child"))

    def _end(self, item: Value, role: str) -> tuple[int, int, str]:
        """Return the key of the entity at one end: its span, or the only span around its token."""
        given = item.get(f"{role}_span")
        if given is not None and given.get("label") is not None:
            start, end = _bounds(given)
            return start, end, given.field("label").label()
        token = item.field(role).index(len(self.tokens), "token")
        start, end = self.tokens[token]
        around = [span for span in self.spans if _bounds(span)[0] <= start and end <= _bounds(span)[1]]
        if len(around) != 1:
            problem = f"whose {role} is the token {token}, which is in {len(around)} spans"
            raise item.refuse("no entity at its end", problem, f"Add the field '{role}_span'")
        first, last = _bounds(around[0])
        return first, last, around[0].field("label").label()


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one accepted example for each document. Boundaries of sentences, and scores of relations, are lost."""
    with open_for_writing(path) as handle:
        for document in documents:
            handle.write(f"{to_json(_to_record(document))}\n".encode())


def _to_record(document: Document) -> dict[str, Any]:
    offsets = [pair for sentence in document.sentences for pair in sentence.offsets]
    tokens = [
        {"text": document.text[a:b], "start": a, "end": b, "id": n, "ws": document.text[b : b + 1] == " "}
        for n, (a, b) in enumerate(offsets)
    ]
    spans: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    before = 0
    for sentence in document.sentences:
        made = {entity: _to_span(entity, sentence.offsets, before) for entity in sentence.entities}
        spans += made.values()
        for triple in sentence.triples:
            head, child = made[triple.head], made[triple.tail]
            relations.append(
                {
                    "head": head["token_end"],
                    "child": child["token_end"],
                    "head_span": head,
                    "child_span": child,
                    "label": triple.label,
                }
            )
        before += len(sentence.offsets)
    return {
        "text": document.text,
        "tokens": tokens,
        "spans": spans,
        "relations": relations,
        "meta": {"id": document.id},
        "answer": "accept",
    }


def _to_span(entity: Span, offsets: Offsets, before: int) -> dict[str, Any]:
    """Return a span with offsets of characters, and with positions of its first and last token."""
    span = {
        "start": offsets[entity.start][0],
        "end": offsets[entity.end - 1][1],
        "token_start": before + entity.start,
        "token_end": before + entity.end - 1,
        "label": entity.label,
    }
    return span if entity.score is None else span | {"score": entity.score}


PRODIGY = Format("prodigy", (), sniff, read, write, loses=("boundaries of sentences", "scores of relations"))
