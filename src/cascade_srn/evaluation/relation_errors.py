"""The six kinds of relation errors of the paper's appendix, made exact: each error has one kind.

An error is a relation that ``re_strict`` counts, under the policy for symmetric relations that is in force, on one side
only: a predicted one that is not in gold, or a gold one that is not predicted. A gold (or predicted) *entity* is one
with these words and this type. The first kind that fits is an error's kind.

For a predicted relation that is not in gold:

1. ``ESE``, entity span error: the words of its subject or of its object are those of no gold entity.
2. ``ETE``, entity type error: both are the words of gold entities, but the subject or the object is no gold entity,
   since none there has this type.
3. ``RTE``, relation type error: both are gold entities, and gold has a relation of another type between them, in this
   direction.
4. ``RME``, relation match error: both are gold entities, and gold has no relation between them in this direction.

For a gold relation that is not predicted:

5. ``ENF``, entity not found: its subject or its object is no predicted entity.
6. ``RNF``, relation not found: both are predicted entities.

Where the paper leaves a choice, ours is this. It names kinds whose conditions overlap (a wrong span and a wrong
relation type can come together): entities go before relations, words before types, because a relation between
entities that are not there has no chance of being right. ``ENF`` asks for the type too, as ``ner`` does, so that
``RNF`` is what the relation turns are to blame for. A wrong relation and the gold relation that it should have been
are two errors, as they are in precision and recall: an ``RTE`` comes with an ``RNF``, unless gold's relation was
predicted beside it. The right relation the wrong way round is an ``RME`` and an ``RNF``, both marked ``reversed``.
Direction is that of the policy: under ``canonical`` and ``doubled`` a symmetric relation has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.alignment import Pair
from cascade_srn.evaluation.error_kinds import ErrorKind, Errors
from cascade_srn.evaluation.items import RelationItem, relation_items, same_arguments
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence

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
