"""Which types are taken for which, where the words are right: a table of gold types against predicted types.

Entities are brought together by their words, relations by the words of their subject and of their object, as
``re_boundaries`` counts them under the policy in force. What both sides have is on the diagonal. Of what is left at one
place, a gold type and a predicted type are a confusion; what then has no partner stands against "none". At a place with
several types left on a side, the types pair up in the schema's order.

So a row adds up to the gold items of its type, a column to the predicted items, the diagonal to the correct ones; and
no item stands in two cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cascade_srn.evaluation.items import Pair, RelationItem, relation_items, same_arguments
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error: its short name, its name, and whether it is one of ``predicted`` or of ``gold`` items."""

    kind: str
    name: str
    side: str
    description: str


@dataclass(frozen=True)
class Errors:
    """The number of errors by kind and label, under the name of the protocol that they are errors of."""

    protocol: str
    kinds: tuple[ErrorKind, ...]
    counts: Counter[tuple[str, str]]
    labels: Sequence[str]

    def n(self, kind: str) -> int:
        """How many errors are of a kind."""
        return sum(self.counts[kind, label] for label in self.labels)

    def side(self, side: str) -> int:
        """How many errors are predictions that are wrong (``predicted``), or gold that was missed (``gold``)."""
        return sum(self.n(kind.kind) for kind in self.kinds if kind.side == side)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; ``share`` is of all errors, 0..1."""
        total = self.side("predicted") + self.side("gold")
        kinds = [
            {
                "kind": kind.kind,
                "name": kind.name,
                "side": kind.side,
                "description": kind.description,
                "n": self.n(kind.kind),
                "share": self.n(kind.kind) / total if total else 0.0,
                "per_label": {label: self.counts[kind.kind, label] for label in self.labels},
            }
            for kind in self.kinds
        ]
        return {
            "protocol": self.protocol,
            "n_errors": total,
            "n_wrong": self.side("predicted"),
            "n_missed": self.side("gold"),
            "kinds": kinds,
        }


ENTITY_KINDS = (
    ErrorKind("wrong-type", "wrong type", "predicted", "gold has another type on these words"),
    ErrorKind("wrong-boundaries", "wrong boundaries", "predicted", "a gold entity shares words with it"),
    ErrorKind("spurious", "spurious", "predicted", "gold has no entity here"),
    ErrorKind("type-missed", "type missed", "gold", "another type was predicted on these words"),
    ErrorKind("boundaries-missed", "boundaries missed", "gold", "a predicted entity shares words with it"),
    ErrorKind("missed", "missed", "gold", "no entity was predicted here"),
)
_WRONG, _MISSED = (tuple(k.kind for k in ENTITY_KINDS if k.side == side) for side in ("predicted", "gold"))


def entity_errors(gold: Sentence, predicted: Sentence) -> dict[str, dict[Span, str]]:
    """The kinds of the errors of a sentence by side: ``predicted`` (wrong ones) and ``gold`` (missed ones)."""
    known, found = set(gold.entities), set(predicted.entities)
    return {
        "predicted": {span: _kind(span, known, _WRONG) for span in sorted(found - known)},
        "gold": {span: _kind(span, found, _MISSED) for span in sorted(known - found)},
    }


def _kind(span: Span, others: set[Span], kinds: tuple[str, ...]) -> str:
    same, sharing, none = kinds
    if any((other.start, other.end) == (span.start, span.end) for other in others):
        return same
    if any(other.start < span.end and span.start < other.end for other in others):
        return sharing
    return none


def count_entity_errors(pairs: Iterable[Pair], *, schema: Schema) -> Errors:
    """How many errors there are of each kind, in all and by entity type."""
    counts: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        for side in entity_errors(pair.gold, pair.predicted).values():
            counts.update((kind, span.label) for span, kind in side.items())
    return Errors("ner", ENTITY_KINDS, counts, schema.entity_types)


RELATION_KINDS = (
    ErrorKind("RTE", "relation type error", "predicted", "right entities, which gold relates by another type"),
    ErrorKind("RME", "relation match error", "predicted", "right entities, which gold does not relate this way"),
    ErrorKind("ETE", "entity type error", "predicted", "right words, but an argument has the wrong entity type"),
    ErrorKind("ESE", "entity span error", "predicted", "the words of an argument are no gold entity"),
    ErrorKind("RNF", "relation not found", "gold", "both entities were found, the relation was not"),
    ErrorKind("ENF", "entity not found", "gold", "an entity of the relation was not found"),
)


@dataclass(frozen=True)
class RelationError:
    """One error, and what the other side has instead.

    ``instead`` are the types of the other side's relations between the same arguments; ``reversed`` says that the
    other side has this relation with subject and object exchanged.
    """

    kind: str
    instead: tuple[str, ...] = ()
    reversed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"kind": self.kind, "instead": list(self.instead), "reversed": self.reversed}


def relation_errors(
    gold: Sentence, predicted: Sentence, *, schema: Schema, symmetric: str = "directed"
) -> dict[str, dict[RelationItem, RelationError]]:
    """The errors of a sentence by side, ``predicted`` (wrong ones) and ``gold`` (missed ones), each with its kind."""
    gold_items = relation_items(gold, schema, symmetric)
    predicted_items = relation_items(predicted, schema, symmetric)

    def instead(item: RelationItem, others: set[RelationItem]) -> tuple[str, ...]:
        return tuple(sorted({other.label for other in others if same_arguments(item, other, schema, symmetric)}))

    def is_reversed(item: RelationItem, others: set[RelationItem]) -> bool:
        return RelationItem(item.label, item.tail, item.head) in others

    wrong, missed = {}, {}
    for item in sorted(predicted_items - gold_items):
        labels = instead(item, gold_items)
        kind = _wrong_kind(item, gold, related=bool(labels))
        wrong[item] = RelationError(kind, labels, is_reversed(item, gold_items))
    for item in sorted(gold_items - predicted_items):
        found = item.head in predicted.entities and item.tail in predicted.entities
        labels = instead(item, predicted_items)
        missed[item] = RelationError("RNF" if found else "ENF", labels, is_reversed(item, predicted_items))
    return {"predicted": wrong, "gold": missed}


def _wrong_kind(item: RelationItem, gold: Sentence, *, related: bool) -> str:
    words = {(entity.start, entity.end) for entity in gold.entities}
    arguments = (item.head, item.tail)
    if any((argument.start, argument.end) not in words for argument in arguments):
        return "ESE"
    if any(argument not in gold.entities for argument in arguments):
        return "ETE"
    return "RTE" if related else "RME"


def count_relation_errors(pairs: Iterable[Pair], *, schema: Schema, symmetric: str = "directed") -> Errors:
    """How many errors there are of each kind, in all and by relation type."""
    counts: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        found = relation_errors(pair.gold, pair.predicted, schema=schema, symmetric=symmetric)
        counts.update((error.kind, item.label) for side in found.values() for item, error in side.items())
    return Errors(f"re_strict, {symmetric}", RELATION_KINDS, counts, schema.relation_types)


# The row of predictions at places where gold has nothing, the column of gold where nothing was predicted. In the cells
# it is None, so that a type of this name would not be mixed up with it.
NONE = "none"

T = TypeVar("T", Span, RelationItem)


@dataclass(frozen=True)
class Confusion:
    """The cells that are not empty, by gold type and predicted type; None is "none"."""

    protocol: str
    labels: Sequence[str]
    cells: Counter[tuple[str | None, str | None]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: ``rows`` by gold type, ``columns`` by predicted type, "none" last in both."""
        axis = [*self.labels, None]
        names = [*self.labels, NONE]
        rows = [[self.cells[gold, predicted] for predicted in axis] for gold in axis]
        return {"protocol": self.protocol, "gold": names, "predicted": names, "rows": rows}


def confuse_entities(pairs: Iterable[Pair], *, schema: Schema) -> Confusion:
    """The table of entity types."""

    def same_place(one: Span, other: Span) -> bool:
        return (one.start, one.end) == (other.start, other.end)

    return Confusion(
        "ner", schema.entity_types, _cells(pairs, lambda s: set(s.entities), same_place, schema.entity_types)
    )


def confuse_relations(pairs: Iterable[Pair], *, schema: Schema, symmetric: str = "directed") -> Confusion:
    """The table of relation types."""

    def items(sentence: Sentence) -> set[RelationItem]:
        # Without the entity types, which the words alone are compared by.
        return {
            RelationItem(item.label, _words(item.head), _words(item.tail))
            for item in relation_items(sentence, schema, symmetric)
        }

    def same_place(one: RelationItem, other: RelationItem) -> bool:
        return same_arguments(one, other, schema, symmetric)

    cells = _cells(pairs, items, same_place, schema.relation_types)
    return Confusion(f"re_boundaries, {symmetric}", schema.relation_types, cells)


def _cells(
    pairs: Iterable[Pair],
    items: Callable[[Sentence], set[T]],
    same_place: Callable[[T, T], bool],
    labels: Sequence[str],
) -> Counter[tuple[str | None, str | None]]:
    cells: Counter[tuple[str | None, str | None]] = Counter()
    for pair in pairs:
        gold, predicted = items(pair.gold), items(pair.predicted)
        cells.update((item.label, item.label) for item in gold & predicted)
        left = sorted(predicted - gold, key=lambda item: (labels.index(item.label), item))
        for item in sorted(gold - predicted, key=lambda item: (labels.index(item.label), item)):
            partner = next((other for other in left if same_place(item, other)), None)
            if partner is not None:
                left.remove(partner)
            cells[item.label, None if partner is None else partner.label] += 1
        cells.update((None, item.label) for item in left)
    return cells


def _words(span: Span) -> Span:
    return Span(span.start, span.end, "")
