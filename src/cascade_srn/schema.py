"""The label set of a model: entity types, relation types and symmetric relation types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.errors import SchemaError, did_you_mean
from cascade_srn.types import Document, Sentence


@dataclass(frozen=True)
class Schema:
    """Entity types and relation types in a fixed order. Every model stores its schema.

    Attributes:
        entity_types: Names of the entity types. There is at least one.
        relation_types: Names of the relation types.
        symmetric: Relation types without a direction, such as COMPARE.

    Raises:
        SchemaError: If a name is blank or repeated, or a symmetric type is not a relation type.

    Example:
        >>> Schema(("Method", "Task"), ("COMPARE", "USED-FOR"), frozenset({"COMPAR"}))
        Traceback (most recent call last):
        cascade_srn.errors.SchemaError: the symmetric type 'COMPAR' is not a relation type. Did you mean 'COMPARE'?
    """

    entity_types: tuple[str, ...]
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        for kind, names in (("entity", self.entity_types), ("relation", self.relation_types)):
            for name in names:
                if not isinstance(name, str) or not name.strip():
                    raise SchemaError(f"the {kind} type {name!r} is not a name", "Give a string that is not blank")
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise SchemaError(f"the {kind} types {repeated} are repeated", "Name each type once")
        if not self.entity_types:
            raise SchemaError("a schema needs at least one entity type, and there is none")
        for name in sorted(self.symmetric - set(self.relation_types)):
            raise SchemaError(
                f"the symmetric type {name!r} is not a relation type", did_you_mean(name, self.relation_types)
            )

    @classmethod
    def from_documents(cls, documents: Iterable[Document], *, symmetric: Iterable[str] = ()) -> Schema:
        """Collect the labels of documents, in alphabetical order.

        Args:
            documents: Annotated documents.
            symmetric: Relation types without a direction.

        Raises:
            SchemaError: If the documents have no entities, or a symmetric type does not occur in them.
        """
        entities: set[str] = set()
        relations: set[str] = set()
        for document in documents:
            for sentence in document.sentences:
                entities.update(entity.label for entity in sentence.entities)
                relations.update(triple.label for triple in sentence.triples)
        return cls(tuple(sorted(entities)), tuple(sorted(relations)), frozenset(symmetric))

    def check(self, sentence: Sentence, where: str) -> None:
        """Check that a sentence has no labels other than those of this schema.

        Args:
            sentence: The sentence.
            where: Name of the sentence, for the error message.

        Raises:
            SchemaError: If it has an unknown label.
        """
        for kind, labels, known in (
            ("entity", [entity.label for entity in sentence.entities], self.entity_types),
            ("relation", [triple.label for triple in sentence.triples], self.relation_types),
        ):
            for label in labels:
                if label not in known:
                    raise SchemaError(f"{where}: the schema has no {kind} type {label!r}", did_you_mean(label, known))

    def differences(self, other: Schema) -> list[str]:
        """Describe how another schema differs from this one, in phrases. The list is empty if they are equal."""
        found = []
        for kind in ("entity_types", "relation_types"):
            ours, theirs = getattr(self, kind), getattr(other, kind)
            name = kind.replace("_", " ")
            if missing := [label for label in ours if label not in theirs]:
                found.append(f"{name} {missing} are missing")
            if added := [label for label in theirs if label not in ours]:
                found.append(f"{name} {added} are new")
            if not missing and not added and ours != theirs:
                found.append(f"{name} are in another order")
        if self.symmetric != other.symmetric:
            found.append(f"symmetric relations are {sorted(other.symmetric)}, not {sorted(self.symmetric)}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_dict` accepts."""
        return {
            "entity_types": list(self.entity_types),
            "relation_types": list(self.relation_types),
            "symmetric": sorted(self.symmetric),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """Build a schema from the plain values of :meth:`to_dict`.

        Raises:
            SchemaError: If a key is unknown or a value is not a list of names.
        """
        if not isinstance(record, Mapping):
            raise SchemaError(f"the schema is {record!r}", "Give a mapping with entity_types and relation_types")
        known = ("entity_types", "relation_types", "symmetric")
        for key in record:
            if key not in known:
                raise SchemaError(f"the schema has an unknown key {key!r}", did_you_mean(str(key), known))
        entity_types, relation_types, symmetric = (_read_names(record, key) for key in known)
        return cls(entity_types, relation_types, frozenset(symmetric))


def _read_names(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = record.get(key, [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"{key!r} of the schema is {names!r}", "Give a list of names")
    return tuple(names)
