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

from cascade_srn.evaluation.alignment import Pair
from cascade_srn.evaluation.items import RelationItem, relation_items, same_arguments
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span

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
