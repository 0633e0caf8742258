"""Labels of a project with their definitions, and annotations of one document by one person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from cascade_srn.config import require_choice
from cascade_srn.errors import AnnotationError, ConfigError, DataError, SchemaError, did_you_mean, short_repr
from cascade_srn.formats.files import read_bytes
from cascade_srn.formats.registry import read_schema
from cascade_srn.schema import RelationConstraints, Schema
from cascade_srn.types import Document, Span, Triple

_SECTIONS = ("entities", "relations")
# Names of schema.json, which YAML files may use, too.
_SCHEMA_NAMES = {"entity_types": "entities", "relation_types": "relations"}
_CONSTRAINTS = tuple(field.name for field in fields(RelationConstraints))
# "description" is another name of "definition".
_FIELDS = {
    "entities": ("definition", "description", "examples"),
    "relations": ("definition", "description", "examples", "symmetric", *_CONSTRAINTS),
}


@dataclass(frozen=True)
class ProjectLabels:
    """The label set of a project."""

    schema: Schema  # Entity types, relation types, symmetric relations and constraints
    # Definition by kind ("entities" or "relations") and label. Labels may have none.
    definitions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Examples by kind and label, likewise.
    examples: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def define(self, kind: str, label: str) -> str:
        """Return the definition of a label, or an empty string."""
        return self.definitions.get(kind, {}).get(label, "")

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``GET /api/project`` and of ``project.json``."""
        schema = self.schema
        constraints = schema.to_dict().get("constraints", {})
        return {
            "entities": [self._to_dict("entities", label) for label in schema.entity_types],
            "relations": [
                self._to_dict("relations", label)
                | {"symmetric": label in schema.symmetric}
                | dict(constraints.get(label, {}))
                for label in schema.relation_types
            ],
        }

    def _to_dict(self, kind: str, label: str) -> dict[str, Any]:
        examples = self.examples.get(kind, {}).get(label, ())
        record: dict[str, Any] = {"label": label, "definition": self.define(kind, label)}
        return record | ({"examples": list(examples)} if examples else {})

    @classmethod
    def from_dict(cls, record: Any, where: str = "the labels") -> ProjectLabels:
        """Read labels from plain values, in any of the forms of :func:`read_labels`.

        Raises:
            SchemaError: The labels are malformed, repeated or missing.
        """
        if not isinstance(record, Mapping):
            raise SchemaError(f"{where} are {short_repr(record)}", "Give a mapping with 'entities' and 'relations'")
        for key in record:
            if key not in _SECTIONS:
                raise SchemaError(f"{where} have an unknown section {key!r}", did_you_mean(str(key), _SECTIONS))
        found = {kind: _read_section(record.get(kind), kind, f"{kind} of {where}") for kind in _SECTIONS}
        symmetric = frozenset(label for label, values in found["relations"] if values.get("symmetric"))
        names = {kind: tuple(label for label, _ in entries) for kind, entries in found.items()}
        try:
            schema = Schema(names["entities"], names["relations"], symmetric, _read_constraints(found["relations"]))
        except (SchemaError, ConfigError) as error:
            raise SchemaError(f"{where}: {error.problem}", error.hint) from None
        definitions = {
            kind: {
                label: str(text).strip()
                for label, values in entries
                if (text := values.get("definition") or values.get("description"))
            }
            for kind, entries in found.items()
        }
        examples = {
            kind: {label: tuple(values["examples"]) for label, values in entries if values.get("examples")}
            for kind, entries in found.items()
        }
        return cls(schema, definitions, examples)


def read_labels(path: str | Path) -> ProjectLabels:
    """Read a file with labels.

    The file is YAML, or a JSON file that :func:`cascade_srn.read_schema` accepts. In YAML, a section is a list of
    names, or a mapping of names to definitions, or to mappings with ``definition`` (or ``description``), ``examples``
    and, for relations, ``symmetric`` and the fields of :class:`~cascade_srn.schema.RelationConstraints`::

        entities:
          Method: {description: "A technique, model or algorithm.", examples: [CRF]}
          Task: A problem to solve.
        relations:
          USED-FOR: {definition: The head is used for the tail., heads: [Method]}
          COMPARE: {definition: Two things are compared., symmetric: true}
    """
    path = Path(path)
    content = read_bytes(path)
    try:
        record = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is not YAML ({reason})", "Check its indentation and quotes", option="labels") from None
    if isinstance(record, Mapping):
        if "entity_types" in record and content.lstrip().startswith(b"{"):
            return ProjectLabels(read_schema(path))
        # A section that is there under both names is refused.
        names = {key: name for key, name in _SCHEMA_NAMES.items() if name not in record}
        record = {names.get(key, key): value for key, value in record.items()}
    return ProjectLabels.from_dict(record, f"the labels of {path}")


def _read_constraints(relations: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, RelationConstraints]:
    found = {label: {key: values[key] for key in _CONSTRAINTS if key in values} for label, values in relations}
    return {
        label: RelationConstraints.from_dict(values, f"the constraints of {label!r}")
        for label, values in found.items()
        if values
    }


def _read_section(section: Any, kind: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the labels of a section with their fields."""
    if section is None:
        return []
    if isinstance(section, Mapping):
        return [
            (_name(label, where), _fields(value, kind, f"{label!r} in {where}")) for label, value in section.items()
        ]
    if isinstance(section, Iterable) and not isinstance(section, str):
        return [_read_item(item, kind, where) for item in section]
    raise SchemaError(
        f"{where} are {short_repr(section)}", "Give a list of names, or a mapping of names to definitions"
    )


def _read_item(item: Any, kind: str, where: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(item, Mapping) and "label" in item:
        rest = {key: value for key, value in item.items() if key != "label"}
        return _name(item["label"], where), _fields(rest, kind, f"{item['label']!r} in {where}")
    if isinstance(item, Mapping) and len(item) == 1:
        ((label, value),) = item.items()
        return _name(label, where), _fields(value, kind, f"{label!r} in {where}")
    return _name(item, where), {}


def _name(value: Any, where: str) -> str:
    # YAML reads No, On and 1 as other types than strings.
    if not isinstance(value, str) or not value.strip():
        raise SchemaError(f"{where} have the label {short_repr(value)}", "Write names in quotes")
    return value.strip()


def _fields(value: Any, kind: str, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"definition": value}
    if not isinstance(value, Mapping):
        raise SchemaError(f"the definition of {where} is {short_repr(value)}", "Give a text")
    for key in value:
        if key not in _FIELDS[kind]:
            raise SchemaError(f"{where} has an unknown field {key!r}", did_you_mean(str(key), _FIELDS[kind]))
    if not isinstance(value.get("symmetric", False), bool):
        raise SchemaError(f"'symmetric' of {where} is {short_repr(value['symmetric'])}", "Give true or false")
    examples = value.get("examples") or []
    if not isinstance(examples, list) or not all(isinstance(one, str) for one in examples):
        raise SchemaError(f"the examples of {where} are {short_repr(examples)}", "Give a list of texts")
    return value


STATES = ("new", "started", "done")
ORIGINS = ("person", "model", "teacher")


@dataclass(frozen=True, slots=True)
class EntityMark:
    """An annotated entity."""

    id: str  # Name of the entity within its annotation
    start: int  # Offset of its first character
    end: int  # Offset after its last character
    label: str  # Entity type
    origin: str = "person"  # "person", "model" for an accepted suggestion, "teacher" for a label of a language model


@dataclass(frozen=True, slots=True)
class RelationMark:
    """An annotated relation. ``head`` and ``tail`` are ids of entities."""

    id: str
    head: str
    tail: str
    label: str
    origin: str = "person"


@dataclass(frozen=True)
class Annotation:
    """All that one person has annotated in a document."""

    version: int = 0  # Number of the saved state; 0 if nothing was saved
    state: str = "new"  # "new", "started" or "done". A document that is done and has no entities contains none.
    note: str = ""  # Remark of the annotator
    entities: tuple[EntityMark, ...] = ()  # The entities
    relations: tuple[RelationMark, ...] = ()  # The relations
    rejected: tuple[str, ...] = ()  # Keys of rejected suggestions; see :func:`entity_key` and :func:`relation_key`

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_dict` accepts."""
        return {
            "version": self.version,
            "state": self.state,
            "note": self.note,
            "entities": [asdict(entity) for entity in self.entities],
            "relations": [asdict(relation) for relation in self.relations],
            "rejected": list(self.rejected),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Annotation:
        """Make an annotation from plain values.

        Raises:
            DataError: A field is missing or has another type.
        """
        try:
            return cls(
                record["version"],
                record["state"],
                record["note"],
                tuple(EntityMark(**entity) for entity in record["entities"]),
                tuple(RelationMark(**relation) for relation in record["relations"]),
                tuple(record["rejected"]),
            )
        except (KeyError, TypeError) as error:
            raise DataError(f"a stored annotation is malformed ({error})") from error


def entity_key(start: int, end: int, label: str) -> str:
    """Return the key of an entity that is suggested: equal suggestions of all models have the same."""
    return f"{start}:{end}:{label}"


def relation_key(head: str, label: str, tail: str) -> str:
    """Return the key of a relation that is suggested, from the keys of its entities."""
    return f"{head}>{label}>{tail}"


class WordPlaces:
    """Finds the words that characters of a document belong to."""

    def __init__(self, document: Document) -> None:
        self._starts: dict[int, tuple[int, int]] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        for number, sentence in enumerate(document.sentences):
            for word, (start, end) in enumerate(sentence.offsets):
                self._starts[start] = number, word
                self._ends[end] = number, word + 1

    def span(self, entity: EntityMark) -> tuple[int, Span]:
        """Return the sentence of an entity, and its words.

        Raises:
            AnnotationError: It starts or ends within a word, or covers several sentences.
        """
        first, last = self._starts.get(entity.start), self._ends.get(entity.end)
        where = f"the entity [{entity.start}, {entity.end}) of label {entity.label!r}"
        if first is None or last is None:
            side = "start" if first is None else "end"
            raise AnnotationError(f"{where} does not {side} at a word boundary", "Select whole words")
        if first[0] != last[0]:
            raise AnnotationError(f"{where} covers more than one sentence", "Select words of one sentence")
        if first[1] >= last[1]:
            raise AnnotationError(f"{where} is empty", "Select at least one word")
        return first[0], Span(first[1], last[1], entity.label)


def annotate(document: Document, annotation: Annotation, schema: Schema) -> Document:
    """Return a document with the entities and relations of an annotation.

    Raises:
        AnnotationError: An entity is not on word boundaries, a relation is between sentences or names an unknown
            entity, or something is repeated.
        SchemaError: A label is not in the schema.
    """
    places = WordPlaces(document)
    placed: dict[str, tuple[int, Span]] = {}
    for entity in annotation.entities:
        _check_label("entity", entity.label, schema.entity_types)
        if entity.id in placed:
            raise AnnotationError(f"the entity id {entity.id!r} is repeated", "Give each entity its own id")
        placed[entity.id] = places.span(entity)
    entities: list[list[Span]] = [[] for _ in document.sentences]
    triples: list[list[Triple]] = [[] for _ in document.sentences]
    for number, span in placed.values():
        entities[number].append(span)
    _check_relation_ids(annotation.relations)
    for relation in annotation.relations:
        number, triple = _place_relation(relation, placed, schema)
        triples[number].append(triple)
    sentences = []
    for sentence, spans, found in zip(document.sentences, entities, triples, strict=True):
        _check_repeated(found, schema.symmetric)
        sentences.append(sentence.annotated(sorted(spans), sorted(found)))
    return replace(document, sentences=tuple(sentences), schema=schema)


def _check_label(kind: str, label: str, known: tuple[str, ...]) -> None:
    if label not in known:
        raise SchemaError(f"the project has no {kind} label {label!r}", did_you_mean(label, known))


def _check_relation_ids(relations: Iterable[RelationMark]) -> None:
    for id, count in Counter(relation.id for relation in relations).items():
        if count > 1:
            raise AnnotationError(f"the relation id {id!r} is repeated", "Give each relation its own id")


def _place_relation(
    relation: RelationMark, placed: Mapping[str, tuple[int, Span]], schema: Schema
) -> tuple[int, Triple]:
    _check_label("relation", relation.label, schema.relation_types)
    for role, id in (("head", relation.head), ("tail", relation.tail)):
        if id not in placed:
            raise AnnotationError(
                f"the {role} of a relation {relation.label!r} is {id!r}, which is not an entity", "Add the entity"
            )
    (sentence, head), (other, tail) = placed[relation.head], placed[relation.tail]
    if sentence != other:
        raise AnnotationError(
            f"a relation {relation.label!r} is between entities of different sentences",
            "Relate entities of the same sentence",
        )
    return sentence, Triple(head, relation.label, tail)


def _check_repeated(triples: Iterable[Triple], symmetric: frozenset[str]) -> None:
    seen: set[Triple] = set()
    for triple in triples:
        mirrored = Triple(triple.tail, triple.label, triple.head)
        if triple in seen or (triple.label in symmetric and mirrored in seen):
            raise AnnotationError(f"a relation {triple.label!r} is repeated", "Remove the repetition")
        seen.add(triple)


def check_annotation(document: Document, annotation: Annotation, schema: Schema) -> None:
    """Check that an annotation fits its document and the labels of the project; see :func:`annotate`."""
    require_choice("state", annotation.state, STATES)
    marks: tuple[EntityMark | RelationMark, ...] = (*annotation.entities, *annotation.relations)
    for mark in marks:
        require_choice("origin", mark.origin, ORIGINS)
    annotate(document, annotation, schema)


def annotation_of(document: Document, *, symmetric: Iterable[str] = (), state: str = "done") -> Annotation:
    """Return the entities and relations of a document as an annotation. Repeated relations are taken once."""
    entities: list[EntityMark] = []
    relations: list[RelationMark] = []
    for sentence in document.sentences:
        ids: dict[Span, str] = {}
        for span in sentence.entities:
            ids[span] = f"e{len(entities) + 1}"
            start, end = sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
            entities.append(EntityMark(ids[span], start, end, span.label))
        seen: set[tuple[frozenset[Span] | tuple[Span, Span], str]] = set()
        for triple in sentence.triples:
            pair = triple.head, triple.tail
            key = frozenset(pair) if triple.label in symmetric else pair, triple.label
            if key not in seen:
                seen.add(key)
                id = f"r{len(relations) + 1}"
                relations.append(RelationMark(id, ids[triple.head], ids[triple.tail], triple.label))
    return Annotation(0, state, "", tuple(entities), tuple(relations))
