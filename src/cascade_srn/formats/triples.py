"""Triples without offsets, as CasRel, NYT and WebNLG files have them and language models return them.

``{"text": ..., "triples": [["CRF", "used-for", "NER"]]}``, with or without types. The strings are located in the text
(:mod:`cascade_srn.formats.locate`). Triples that are not found, or found at several places, are noted and left
out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity
from cascade_srn.formats.files import open_for_writing, read_head, read_json, read_json_lines, to_json
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.locate import FUZZY, NORMALISED, Locator, Match
from cascade_srn.formats.reports import Place
from cascade_srn.formats.standoff import first_records
from cascade_srn.types import Document, Span

DEFAULT_TYPE = "Entity"
"""Type of entities that have none."""
# Names of the same field in published files.
_TEXTS = ("text", "sentText", "sentence")
_LISTS = ("triples", "triple_list", "relationMentions", "spo_list", "relations")
_ENTITY_LISTS = ("entities", "entityMentions")
_HEADS = ("head", "subject", "em1Text", "source")
_TAILS = ("tail", "object", "em2Text", "target")
_LABELS = ("relation", "predicate", "label", "type")
_WAYS = {NORMALISED: "normalised text", FUZZY: "fuzzy match"}
_TYPES = ("{}_type", "{}Type", "{}_label")


def sniff(head: str, path: Path) -> bool:
    """Return whether a record has a text, and triples whose head and tail are strings."""
    return any(map(_is_record, first_records(head)))


def _is_record(record: dict[str, Any]) -> bool:
    lists = [record[name] for name in _LISTS if isinstance(record.get(name), list)]
    return any(name in record for name in _TEXTS) and any(_is_triple(item) for items in lists for item in items[:1])


def _is_triple(item: Any) -> bool:
    if isinstance(item, list):
        return len(item) == 3 and all(isinstance(part, str) for part in item)
    return isinstance(item, dict) and all(
        any(isinstance(item.get(name), str) for name in names) for names in (_HEADS, _TAILS, _LABELS)
    )


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the records of JSON lines or of a JSON array."""
    if not read_head(path, 4096).lstrip().startswith("["):
        yield from read_json_lines(path, context, _read_document)
        return
    for number, raw in enumerate(read_json(path).items(), 1):
        record = Value(raw.raw, Place(str(path), f"record {number}"))
        document = context.attempt("document", _read_document, record, context)
        if document is not None:
            yield document


@dataclass(frozen=True, slots=True)
class _Name:
    """Text of an entity, and its type."""

    text: str
    label: str


def _read_document(record: Value, context: ReadContext) -> Document:
    record = record.with_document_id("id")
    text = _first(record, _TEXTS).string()
    record.note_unread(("id", *_TEXTS, *_LISTS, *_ENTITY_LISTS), context)
    offsets = [tuple(sentence) for sentence in context.segment(text, record.place)]
    listed = [item for name in _ENTITY_LISTS for item in record.get_items(name)]
    entities = [context.attempt("entity", _read_name, item) for item in listed]
    types = {name.text: name.label for name in entities if name is not None}
    items = [item for name in _LISTS for item in record.get_items(name)]
    triples = [(item, context.attempt("relation", _read_triple, item, types)) for item in items]
    known = [name.text for _, triple in triples if triple is not None for name in (triple[0], triple[2])]
    locator = Locator(text, offsets, (*known, *types))
    placing = _Placing(locator, DocumentBuilder(context, len(offsets), made=True), context)
    for item, triple in triples:
        if triple is not None:
            placing.add_triple(item, *triple)
    for item, name in zip(listed, entities, strict=True):
        if name is not None:
            placing.add_name(item, name)
    return placing.builder.build(text, offsets, record.place.document)


def _first(item: Value, names: Iterable[str]) -> Value:
    """Return the first field that exists; the first name is the one that an error names."""
    names = tuple(names)
    found = next((value for name in names if (value := item.get(name)) is not None), None)
    return item.field(names[0]) if found is None else found


def _read_name(item: Value) -> _Name:
    if isinstance(item.raw, str):
        return _Name(item.string(), DEFAULT_TYPE)
    label = next((value.label() for name in ("type", "label") if (value := item.get(name)) is not None), DEFAULT_TYPE)
    return _Name(_first(item, ("text", "name")).string(), label)


def _read_triple(item: Value, types: dict[str, str]) -> tuple[_Name, str, _Name]:
    if isinstance(item.raw, list):
        head, label, tail = item.items(3, 3)
        given: dict[str, str | None] = {"head": None, "tail": None}
    else:
        head, label, tail = (_first(item, names) for names in (_HEADS, _LABELS, _TAILS))
        given = {"head": _find_type(item, _HEADS), "tail": _find_type(item, _TAILS)}
    names = []
    for role, value in (("head", head), ("tail", tail)):
        text = value.string()
        if not text.strip():
            raise item.refuse(f"blank {role}", f"whose {role} is blank", "Remove the triple")
        names.append(_Name(text, given[role] or types.get(text, DEFAULT_TYPE)))
    return names[0], label.label(), names[1]


def _find_type(item: Value, roles: Iterable[str]) -> str | None:
    names = [pattern.format(role.removesuffix("Text")) for role in roles for pattern in _TYPES]
    found = next((value for name in names if (value := item.get(name)) is not None), None)
    return None if found is None else found.label()


class _Placing:
    """Entities and relations of one document at the places where their strings are found."""

    def __init__(self, locator: Locator, builder: DocumentBuilder, context: ReadContext) -> None:
        self.builder = builder
        self._locator = locator
        self._context = context
        self._names: set[_Name] = set()

    def add_triple(self, item: Value, head: _Name, label: str, tail: _Name) -> None:
        """Add a triple if there is exactly one place for it."""
        pairs = self._locator.find_pairs(head.text, tail.text)
        if len(pairs) != 1:
            problem = "at several places" if pairs else "whose head and tail are in no sentence together"
            self._context.report.note(f"triple {problem} left out", item.example())
            return
        first, second = pairs[0]
        if how := max(first.how, second.how):
            self._context.report.note(f"triple located by {_WAYS[how]}", item.example())
        ends = [self._add(match, name) for match, name in ((first, head), (second, tail))]
        self.builder.add_relation(item, ends[0], label, ends[1])

    def add_name(self, item: Value, name: _Name) -> None:
        """Add an entity of a list, unless a triple placed it."""
        if name in self._names:
            return
        matches = self._locator.find(name.text)
        if len(matches) == 1:
            self._add(matches[0], name)
        else:
            problem = "at several places" if matches else "not found"
            self._context.report.note(f"entity {problem} left out", item.example())

    def _add(self, match: Match, name: _Name) -> PlacedEntity:
        span = Span(match.start, match.end, name.label)
        self.builder.entities[match.sentence].setdefault(span, None)
        self._names.add(name)
        return PlacedEntity(match.sentence, span)


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one record for each document. Offsets, words, scores, and entities at several places, are lost."""
    with open_for_writing(path) as handle:
        for document in documents:
            triples = [
                {
                    "head": relation.head.text,
                    "head_type": relation.head.label,
                    "relation": relation.label,
                    "tail": relation.tail.text,
                    "tail_type": relation.tail.label,
                }
                for relation in document.relations
            ]
            related = {end for relation in document.relations for end in (relation.head, relation.tail)}
            others = [{"text": e.text, "type": e.label} for e in document.entities if e not in related]
            record = {"id": document.id, "text": document.text, "triples": triples, "entities": others}
            handle.write(f"{to_json(record)}\n".encode())


TRIPLES = Format(
    "triples",
    (),
    sniff,
    read,
    write,
    loses=("places of entities", "words and sentences", *SCORES),
)
