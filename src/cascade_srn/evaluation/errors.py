"""Kinds of errors, confusion tables of types, false positives, and violations of the schema's constraints.

Each error has exactly one kind, the first that applies. A wrong prediction and the gold item in its place are two
errors, as they are for precision and recall. Of the items at one place that gold and predictions do not share, types
pair up in the order of the schema, and items without a partner count against "none". See docs/evaluation.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from cascade_srn.evaluation.items import RelationItem, SentencePair, have_same_arguments, relation_items
from cascade_srn.inference.constraints import KINDS, find_violations
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error. ``side`` is "predicted" for wrong predictions and "gold" for missed gold items."""

    kind: str
    name: str
    side: str
    description: str


@dataclass(frozen=True)
class Errors:
    """Numbers of errors under one protocol, by kind and label."""

    protocol: str
    kinds: tuple[ErrorKind, ...]
    counts: Counter[tuple[str, str]]
    labels: Sequence[str]

    def n(self, kind: str) -> int:
        """Return the number of errors of a kind."""
        return sum(self.counts[kind, label] for label in self.labels)

    def count_side(self, side: str) -> int:
        """Return the number of wrong predictions ("predicted") or of missed gold items ("gold")."""
        return sum(self.n(kind.kind) for kind in self.kinds if kind.side == side)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON. ``share`` is the fraction of all errors."""
        total = self.count_side("predicted") + self.count_side("gold")
        kinds = [
            asdict(kind)
            | {
                "n": self.n(kind.kind),
                "share": self.n(kind.kind) / total if total else 0.0,
                "per_label": {label: self.counts[kind.kind, label] for label in self.labels},
            }
            for kind in self.kinds
        ]
        return {
            "protocol": self.protocol,
            "n_errors": total,
            "n_wrong": self.count_side("predicted"),
            "n_missed": self.count_side("gold"),
            "kinds": kinds,
        }


ENTITY_KINDS = (
    ErrorKind("wrong-type", "wrong type", "predicted", "gold has another type on the same words"),
    ErrorKind("wrong-boundaries", "wrong boundaries", "predicted", "it overlaps a gold entity"),
    ErrorKind("spurious", "spurious", "predicted", "it overlaps no gold entity"),
    ErrorKind("type-missed", "type missed", "gold", "another type was predicted on the same words"),
    ErrorKind("boundaries-missed", "boundaries missed", "gold", "it overlaps a predicted entity"),
    ErrorKind("missed", "missed", "gold", "it overlaps no predicted entity"),
)
_WRONG, _MISSED = (tuple(k.kind for k in ENTITY_KINDS if k.side == side) for side in ("predicted", "gold"))


def find_entity_errors(gold: Sentence, predicted: Sentence) -> dict[str, dict[Span, str]]:
    """Return the error kinds of a sentence by side: "predicted" for wrong entities, "gold" for missed ones."""
    known, found = set(gold.entities), set(predicted.entities)
    return {
        "predicted": {span: _find_kind(span, known, _WRONG) for span in sorted(found - known)},
        "gold": {span: _find_kind(span, found, _MISSED) for span in sorted(known - found)},
    }


def _find_kind(span: Span, others: set[Span], kinds: tuple[str, ...]) -> str:
    same, sharing, none = kinds
    if any((other.start, other.end) == (span.start, span.end) for other in others):
        return same
    if any(other.start < span.end and span.start < other.end for other in others):
        return sharing
    return none


def count_entity_errors(pairs: Iterable[SentencePair], *, schema: Schema) -> Errors:
    """Count the entity errors by kind and entity type."""
    counts: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        for side in find_entity_errors(pair.gold, pair.predicted).values():
            counts.update((kind, span.label) for span, kind in side.items())
    return Errors("ner", ENTITY_KINDS, counts, schema.entity_types)


RELATION_KINDS = (
    ErrorKind(
        "RTE",
        "relation type error",
        "predicted",
        "both arguments are gold entities, which gold relates by another type",
    ),
    ErrorKind(
        "RME",
        "relation match error",
        "predicted",
        "both arguments are gold entities, which gold does not relate in this direction",
    ),
    ErrorKind(
        "ETE", "entity type error", "predicted", "the words of both arguments are right, but an entity type is wrong"
    ),
    ErrorKind("ESE", "entity span error", "predicted", "an argument does not have the words of a gold entity"),
    ErrorKind("RNF", "relation not found", "gold", "both entities were predicted, but not the relation"),
    ErrorKind("ENF", "entity not found", "gold", "an argument was not predicted with the right words and type"),
)


@dataclass(frozen=True)
class RelationError:
    """One relation error.

    ``instead`` has the types of the relations that the other side has between the same arguments. ``reversed``: the
    other side has this relation with subject and object exchanged.
    """

    kind: str
    instead: tuple[str, ...] = ()
    reversed: bool = False


def find_relation_errors(
    gold: Sentence, predicted: Sentence, *, schema: Schema, symmetric: str = "directed"
) -> dict[str, dict[RelationItem, RelationError]]:
    """Return the errors of a sentence by side: "predicted" for wrong relations, "gold" for missed ones."""
    gold_items = relation_items(gold, schema, symmetric)
    predicted_items = relation_items(predicted, schema, symmetric)

    def instead(item: RelationItem, others: set[RelationItem]) -> tuple[str, ...]:
        return tuple(sorted({other.label for other in others if have_same_arguments(item, other, schema, symmetric)}))

    def is_reversed(item: RelationItem, others: set[RelationItem]) -> bool:
        return RelationItem(item.label, item.tail, item.head) in others

    wrong, missed = {}, {}
    for item in sorted(predicted_items - gold_items):
        labels = instead(item, gold_items)
        kind = _find_wrong_kind(item, gold, related=bool(labels))
        wrong[item] = RelationError(kind, labels, is_reversed(item, gold_items))
    for item in sorted(gold_items - predicted_items):
        found = item.head in predicted.entities and item.tail in predicted.entities
        labels = instead(item, predicted_items)
        missed[item] = RelationError("RNF" if found else "ENF", labels, is_reversed(item, predicted_items))
    return {"predicted": wrong, "gold": missed}


def _find_wrong_kind(item: RelationItem, gold: Sentence, *, related: bool) -> str:
    words = {(entity.start, entity.end) for entity in gold.entities}
    arguments = (item.head, item.tail)
    if any((argument.start, argument.end) not in words for argument in arguments):
        return "ESE"
    if any(argument not in gold.entities for argument in arguments):
        return "ETE"
    return "RTE" if related else "RME"


def count_relation_errors(pairs: Iterable[SentencePair], *, schema: Schema, symmetric: str = "directed") -> Errors:
    """Count the relation errors by kind and relation type."""
    counts: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        found = find_relation_errors(pair.gold, pair.predicted, schema=schema, symmetric=symmetric)
        counts.update((error.kind, item.label) for side in found.values() for item, error in side.items())
    return Errors(f"re_strict, {symmetric}", RELATION_KINDS, counts, schema.relation_types)


# Name of the row and column of items without a partner. Their key is None, so that it differs from any type's name.
NONE = "none"

T = TypeVar("T", Span, RelationItem)


@dataclass(frozen=True)
class Confusion:
    """Non-empty cells by gold type and predicted type. None is the row or column "none"."""

    protocol: str
    labels: Sequence[str]
    cells: Counter[tuple[str | None, str | None]]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON, with rows by gold type, columns by predicted type and "none" last."""
        axis = [*self.labels, None]
        names = [*self.labels, NONE]
        rows = [[self.cells[gold, predicted] for predicted in axis] for gold in axis]
        return {"protocol": self.protocol, "gold": names, "predicted": names, "rows": rows}


def count_entity_confusions(pairs: Iterable[SentencePair], *, schema: Schema) -> Confusion:
    """Count gold against predicted entity types."""

    def same_place(one: Span, other: Span) -> bool:
        return (one.start, one.end) == (other.start, other.end)

    return Confusion(
        "ner", schema.entity_types, _count_cells(pairs, lambda s: set(s.entities), same_place, schema.entity_types)
    )


def count_relation_confusions(
    pairs: Iterable[SentencePair], *, schema: Schema, symmetric: str = "directed"
) -> Confusion:
    """Count gold against predicted relation types."""

    def items(sentence: Sentence) -> set[RelationItem]:
        # Without entity types, since relations match by words alone.
        return {
            RelationItem(item.label, _without_label(item.head), _without_label(item.tail))
            for item in relation_items(sentence, schema, symmetric)
        }

    def same_place(one: RelationItem, other: RelationItem) -> bool:
        return have_same_arguments(one, other, schema, symmetric)

    cells = _count_cells(pairs, items, same_place, schema.relation_types)
    return Confusion(f"re_boundaries, {symmetric}", schema.relation_types, cells)


def _count_cells(
    pairs: Iterable[SentencePair],
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


def _without_label(span: Span) -> Span:
    return Span(span.start, span.end, "")


@dataclass(frozen=True)
class SentenceShare:
    """Number of sentences, and number of those with predictions."""

    n_sentences: int
    n_predicted: int

    @property
    def share(self) -> float | None:
        """Share of the sentences that have predictions, or None without sentences."""
        return self.n_predicted / self.n_sentences if self.n_sentences else None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {"n_sentences": self.n_sentences, "n_predicted": self.n_predicted, "share": self.share}


FALSE_POSITIVES: dict[str, tuple[str, Callable[[Sentence], bool]]] = {
    "entities": ("entities where gold has none", lambda gold: not gold.entities),
    "relations": ("relations where gold has none", lambda gold: not gold.triples),
    "unrelated_entities": (
        "relations where gold has several entities, but no relation",
        lambda gold: len(gold.entities) > 1 and not gold.triples,
    ),
}
"""By name: what is predicted where, and whether a gold sentence is one of these sentences."""


def has_false_positive(name: str, pair: SentencePair) -> bool | None:
    """Return whether a sentence has predictions that gold cannot have, or None if gold has something to find."""
    if not FALSE_POSITIVES[name][1](pair.gold):
        return None
    return bool(pair.predicted.entities if name == "entities" else pair.predicted.triples)


def count_false_positives(pairs: Iterable[SentencePair]) -> dict[str, SentenceShare]:
    """Count the sentences in which gold has nothing to find, and those of them with predictions."""
    pairs = list(pairs)
    found = {}
    for name in FALSE_POSITIVES:
        judged = [predicted for pair in pairs if (predicted := has_false_positive(name, pair)) is not None]
        found[name] = SentenceShare(len(judged), sum(judged))
    return found


@dataclass(frozen=True)
class ViolationCounts:
    """Violations by kind, and the number of relations that were checked. A repeated relation counts once."""

    by_kind: dict[str, int]
    n_relations: int

    @property
    def total(self) -> int:
        """Number of all violations."""
        return sum(self.by_kind.values())

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {"n_relations": self.n_relations, "n_violations": self.total, **self.by_kind}


def count_violations(documents: Iterable[Document], schema: Schema) -> ViolationCounts:
    """Count the violations of a schema in documents."""
    counts: Counter[str] = Counter()
    n_relations = 0
    for sentence in (sentence for document in documents for sentence in document.sentences):
        counts.update(find_violations(sentence.triples, schema).count())
        n_relations += len(set(sentence.triples))
    return ViolationCounts({kind: counts[kind] for kind in KINDS}, n_relations)
