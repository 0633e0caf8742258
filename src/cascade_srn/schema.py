"""The label set of a task: entity types, relation types, and which relations have no direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.errors import SchemaError, did_you_mean
from cascade_srn.types import Document, Sentence


@dataclass(frozen=True)
class Schema:
    """Entity types and relation types in a fixed order, and the symmetric ones among the relation types.

    Learned from data by :meth:`from_documents` or given; stored with every model.
    """

    entity_types: tuple[str, ...]
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        for kind, names in (("entity", self.entity_types), ("relation", self.relation_types)):
            for name in names:
                if not isinstance(name, str) or not name.strip():
                    raise SchemaError(f"the {kind} type {name!r} is not a name; give a string that is not blank")
            repeated = {name for name in names if names.count(name) > 1}
            if repeated:
                raise SchemaError(f"the {kind} types {sorted(repeated)} are given twice; name each type once")
        if not self.entity_types:
            raise SchemaError("a schema needs at least one entity type; none was given or found in the data")
        for name in sorted(self.symmetric - set(self.relation_types)):
            raise SchemaError(
                f"{name!r} is declared symmetric but is no relation type. {did_you_mean(name, self.relation_types)}"
            )

    @classmethod
    def from_documents(cls, documents: Iterable[Document], *, symmetric: Iterable[str] = ()) -> Schema:
        """The labels that occur in the documents, in alphabetical order."""
        entities: set[str] = set()
        relations: set[str] = set()
        for document in documents:
            for sentence in document.sentences:
                entities.update(entity.label for entity in sentence.entities)
                relations.update(triple.label for triple in sentence.triples)
        return cls(tuple(sorted(entities)), tuple(sorted(relations)), frozenset(symmetric))

    def check(self, sentence: Sentence, where: str) -> None:
        """Refuse a sentence that uses a label this schema does not hold; ``where`` names it in the message."""
        for entity in sentence.entities:
            if entity.label not in self.entity_types:
                raise SchemaError(
                    f"{where} has an entity of type {entity.label!r}, which the schema does not hold. "
                    f"{did_you_mean(entity.label, self.entity_types)}"
                )
        for triple in sentence.triples:
            if triple.label not in self.relation_types:
                raise SchemaError(
                    f"{where} has a relation of type {triple.label!r}, which the schema does not hold. "
                    f"{did_you_mean(triple.label, self.relation_types)}"
                )

    def differences(self, other: Schema) -> list[str]:
        """What distinguishes another schema from this one, each as a phrase; empty when they are equal."""
        found = []
        for kind in ("entity_types", "relation_types"):
            ours, theirs = getattr(self, kind), getattr(other, kind)
            named = kind.replace("_", " ")
            if missing := [name for name in ours if name not in theirs]:
                found.append(f"{named} {missing} are missing")
            if added := [name for name in theirs if name not in ours]:
                found.append(f"{named} {added} are new")
            if not missing and not added and ours != theirs:
                found.append(f"{named} stand in another order")
        if self.symmetric != other.symmetric:
            found.append(f"symmetric relations are {sorted(other.symmetric)}, not {sorted(self.symmetric)}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "entity_types": list(self.entity_types),
            "relation_types": list(self.relation_types),
            "symmetric": sorted(self.symmetric),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """The inverse of :meth:`to_dict`; unknown keys and wrong types are refused."""
        if not isinstance(record, Mapping):
            raise SchemaError(f"the schema is {record!r}; give a mapping with entity_types and relation_types")
        known = {"entity_types", "relation_types", "symmetric"}
        for key in record:
            if key not in known:
                raise SchemaError(f"the schema has an unknown key {key!r}. {did_you_mean(str(key), known)}")
        values = {}
        for key in known:
            value = record.get(key, [])
            if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
                raise SchemaError(f"the schema's {key!r} is {value!r}; give a list of names")
            values[key] = value
        return cls(tuple(values["entity_types"]), tuple(values["relation_types"]), frozenset(values["symmetric"]))
