"""The label set of a model: entity types, relation types, and what relations may be between which entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cascade_srn.config import Settings
from cascade_srn.errors import ConfigError, SchemaError, did_you_mean
from cascade_srn.types import Document, Sentence, Span, Triple

# A relation type with fewer examples, as a multiple of the minimum count of a pair, is not restricted by learning.
EXAMPLES_PER_COUNT = 10
# Default minimum count of a pair of entity types.
MIN_PAIR_COUNT = 3
# Share of the relations of a type that may stand beside another relation of the same entities, in an exclusive type.
MAX_SHARED = 0.01


@dataclass(frozen=True)
class RelationConstraints(Settings):
    """Constraints of one relation type. Empty lists do not restrict anything.

    Attributes:
        pairs: Allowed pairs of head type and tail type. A symmetric relation may have a pair in either order.
        heads: Allowed types of the head.
        tails: Allowed types of the tail.
        inverse: Relation type of the opposite direction: A PART-OF B implies B HAS-PART A.
        acyclic: Whether the relations of a sentence must not form a cycle.
        exclusive: Whether two entities with this relation have no other one in the same direction, nor the same one in
            the opposite direction. Symmetric relations have both directions. None: learned from training data.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    heads: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    inverse: str | None = None
    acyclic: bool = False
    exclusive: bool | None = None

    @property
    def restricts_types(self) -> bool:
        """Whether some entity types are not allowed."""
        return bool(self.pairs or self.heads or self.tails)

    def allows(self, head: str, tail: str) -> bool:
        """Return whether these types of head and tail are allowed, in this order."""
        return (
            (not self.pairs or (head, tail) in self.pairs)
            and (not self.heads or head in self.heads)
            and (not self.tails or tail in self.tails)
        )


@dataclass(frozen=True)
class Schema:
    """Entity types and relation types in a fixed order. Every model stores its schema.

    Schemas are compared by their labels, without the constraints.

    Attributes:
        entity_types: Names of the entity types. There is at least one.
        relation_types: Names of the relation types.
        symmetric: Relation types without a direction, such as COMPARE.
        constraints: Constraints by relation type.

    Raises:
        SchemaError: If a name is blank or repeated, a symmetric type is not a relation type, or the constraints name
            unknown types or contradict each other.

    Example:
        >>> Schema(("Method", "Task"), ("COMPARE", "USED-FOR"), frozenset({"COMPAR"}))
        Traceback (most recent call last):
        cascade_srn.errors.SchemaError: the symmetric type 'COMPAR' is not a relation type. Did you mean 'COMPARE'?
    """

    entity_types: tuple[str, ...]
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())
    constraints: Mapping[str, RelationConstraints] = field(default_factory=dict, compare=False)

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
        for name, constraints in self.constraints.items():
            self._check_constraints(name, constraints)

    def _check_constraints(self, name: str, constraints: RelationConstraints) -> None:
        where = f"the constraints of {name!r}"
        if name not in self.relation_types:
            raise SchemaError(f"{where} are for an unknown relation type", did_you_mean(name, self.relation_types))
        types = (*constraints.heads, *constraints.tails, *(label for pair in constraints.pairs for label in pair))
        for label in types:
            if label not in self.entity_types:
                raise SchemaError(
                    f"{where} name the unknown entity type {label!r}", did_you_mean(label, self.entity_types)
                )
        inverse = constraints.inverse
        if inverse is not None and inverse not in self.relation_types:
            raise SchemaError(
                f"{where} name the unknown relation type {inverse!r}", did_you_mean(inverse, self.relation_types)
            )
        if inverse == name:
            raise SchemaError(f"{where} make it its own inverse", "Declare it symmetric instead")
        if constraints.acyclic and name in self.symmetric:
            raise SchemaError(f"{where} make it acyclic, but it is symmetric", "Remove one of the two")
        if inverse is None:
            return
        if symmetric := self.symmetric & {name, inverse}:
            raise SchemaError(f"{where} name an inverse, but {min(symmetric)!r} is symmetric", "Remove one of the two")
        for other, theirs in self.constraints.items():
            partners = {name: inverse, inverse: name}
            concerned = theirs.inverse is not None and {other, theirs.inverse} & partners.keys()
            if concerned and partners.get(other) != theirs.inverse:
                raise SchemaError(
                    f"{where} name the inverse {inverse!r}, but those of {other!r} name {theirs.inverse!r}",
                    "Give each relation type one inverse",
                )

    @cached_property
    def inverses(self) -> dict[str, str]:
        """The inverse of each relation type that has one."""
        found = {name: c.inverse for name, c in self.constraints.items() if c.inverse is not None}
        return {inverse: name for name, inverse in found.items()} | found

    @cached_property
    def acyclic(self) -> frozenset[str]:
        """The relation types without cycles. An inverse of one has none either."""
        declared = {name for name, constraints in self.constraints.items() if constraints.acyclic}
        return frozenset(declared | {self.inverses[name] for name in declared if name in self.inverses})

    @cached_property
    def exclusive(self) -> frozenset[str]:
        """The relation types that exclude others of the same two entities."""
        return frozenset(name for name, constraints in self.constraints.items() if constraints.exclusive)

    def excludes(self, first: Triple, second: Triple) -> bool:
        """Return whether one of two relations between the same entities excludes the other.

        Example:
            >>> schema = Schema(("Task",), ("PART-OF",), constraints={"PART-OF": RelationConstraints(exclusive=True)})
            >>> a, b = Span(0, 1, "Task"), Span(1, 2, "Task")
            >>> schema.excludes(Triple(a, "PART-OF", b), Triple(b, "PART-OF", a))
            True
        """
        labels = {first.label, second.label}
        if not labels & self.exclusive:
            return False
        is_same_direction = first.head == second.head or bool(labels & self.symmetric)
        return is_same_direction == (len(labels) == 2)

    def allows(self, head: str, label: str, tail: str) -> bool:
        """Return whether a relation may be between entities of these types.

        Example:
            >>> constraints = {"PART-OF": RelationConstraints(heads=("Method",))}
            >>> schema = Schema(("Method", "Task"), ("PART-OF",), constraints=constraints)
            >>> schema.allows("Method", "PART-OF", "Task"), schema.allows("Task", "PART-OF", "Method")
            (True, False)
        """
        constraints = self.constraints.get(label)
        if constraints is None or constraints.allows(head, tail):
            return True
        return label in self.symmetric and constraints.allows(tail, head)

    def learn_constraints(
        self, documents: Iterable[Document], min_count: int = MIN_PAIR_COUNT, *, again: bool = False
    ) -> Schema:
        """Return this schema with the pairs of entity types of documents as allowed pairs, and with exclusive types.

        A relation type is exclusive if at most ``MAX_SHARED`` of its relations stand beside another relation of the
        same entities. What is declared does not change. Types with fewer than ``EXAMPLES_PER_COUNT * min_count``
        relations, or without any frequent pair, stay unrestricted, because few examples do not show what is impossible.

        Args:
            documents: Annotated documents, such as the training data.
            min_count: Number of relations from which a pair of types is allowed. 0 learns nothing.
            again: Forget the allowed pairs and the exclusive types of this schema first.
        """
        constraints = dict(self.constraints)
        if again:
            forgotten = {name: replace(known, pairs=(), exclusive=None) for name, known in constraints.items()}
            constraints = {name: known for name, known in forgotten.items() if known != RelationConstraints()}
        if not min_count:
            return replace(self, constraints=constraints)
        counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in self.relation_types}
        shared: Counter[str] = Counter()
        # All types are exclusive here, to count the relations that would exclude each other.
        strict = replace(
            self,
            constraints={
                name: replace(constraints.get(name, RelationConstraints()), exclusive=True) for name in counts
            },
        )
        for sentence in (sentence for document in documents for sentence in document.sentences):
            triples = [triple for triple in set(sentence.triples) if triple.label in counts]
            for triple in triples:
                pair = triple.head.label, triple.tail.label
                ordered = (min(pair), max(pair)) if triple.label in self.symmetric else pair
                counts[triple.label][ordered] += 1
            for group in group_by_entities(triples).values():
                shared.update(
                    triple.label for triple in group if any(strict.excludes(triple, other) for other in group)
                )
        for name, found in counts.items():
            known = constraints.get(name, RelationConstraints())
            if found.total() < EXAMPLES_PER_COUNT * min_count:
                continue
            pairs = tuple(sorted(pair for pair, count in found.items() if count >= min_count))
            if pairs and not known.restricts_types:
                known = replace(known, pairs=pairs)
            if known.exclusive is None and shared[name] <= MAX_SHARED * found.total():
                known = replace(known, exclusive=True)
            if known != RelationConstraints():
                constraints[name] = known
        return replace(self, constraints=constraints)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        symmetric: Iterable[str] = (),
        constraints: Mapping[str, RelationConstraints] | None = None,
    ) -> Schema:
        """Collect the labels of documents, in alphabetical order.

        Args:
            documents: Annotated documents.
            symmetric: Relation types without a direction.
            constraints: Constraints by relation type.

        Raises:
            SchemaError: If the documents have no entities, or a symmetric or constrained type does not occur in them.
        """
        entities: set[str] = set()
        relations: set[str] = set()
        for document in documents:
            for sentence in document.sentences:
                entities.update(entity.label for entity in sentence.entities)
                relations.update(triple.label for triple in sentence.triples)
        return cls(tuple(sorted(entities)), tuple(sorted(relations)), frozenset(symmetric), constraints or {})

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
        """Return plain values that :meth:`from_dict` accepts. Without constraints, there is no such key."""
        record: dict[str, Any] = {
            "entity_types": list(self.entity_types),
            "relation_types": list(self.relation_types),
            "symmetric": sorted(self.symmetric),
        }
        constraints = {name: _without_defaults(c) for name, c in sorted(self.constraints.items())}
        return record | ({"constraints": constraints} if constraints else {})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """Build a schema from the plain values of :meth:`to_dict`.

        Raises:
            SchemaError: If a key is unknown or a value is not a list of names.
        """
        if not isinstance(record, Mapping):
            raise SchemaError(f"the schema is {record!r}", "Give a mapping with entity_types and relation_types")
        names = ("entity_types", "relation_types", "symmetric")
        for key in record:
            if key not in (*names, "constraints"):
                known = (*names, "constraints")
                raise SchemaError(f"the schema has an unknown key {key!r}", did_you_mean(str(key), known))
        entity_types, relation_types, symmetric = (_read_names(record, key) for key in names)
        return cls(entity_types, relation_types, frozenset(symmetric), _read_constraints(record))


def group_by_entities(triples: Iterable[Triple]) -> dict[tuple[Span, Span], list[Triple]]:
    """Group relations by the two entities that they are between, in either direction. The order is kept."""
    groups: dict[tuple[Span, Span], list[Triple]] = {}
    for triple in triples:
        pair = (triple.head, triple.tail) if triple.head <= triple.tail else (triple.tail, triple.head)
        groups.setdefault(pair, []).append(triple)
    return groups


def _read_names(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = record.get(key, [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"{key!r} of the schema is {names!r}", "Give a list of names")
    return tuple(names)


def _read_constraints(record: Mapping[str, Any]) -> dict[str, RelationConstraints]:
    given = record.get("constraints", {})
    if not isinstance(given, Mapping):
        raise SchemaError(f"'constraints' of the schema is {given!r}", "Give a mapping of relation types")
    try:
        return {
            str(name): RelationConstraints.from_dict(values, f"the constraints of {name!r}")
            for name, values in given.items()
        }
    except ConfigError as error:
        raise SchemaError(error.problem, error.hint) from error


def _without_defaults(constraints: RelationConstraints) -> dict[str, Any]:
    """Return the settings that are given, with lists as JSON has them."""
    unset = RelationConstraints().to_dict()
    values = {name: value for name, value in constraints.to_dict().items() if value != unset[name]}
    return {
        name: [list(item) if isinstance(item, tuple) else item for item in value] if isinstance(value, tuple) else value
        for name, value in values.items()
    }
