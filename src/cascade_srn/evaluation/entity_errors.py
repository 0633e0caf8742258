"""Kinds of entity errors: each entity that ``ner`` counts on one side only has exactly one.

The first that fits; in each line the kind of a prediction that is not in gold, then that of a gold entity that was not
predicted:

1. ``wrong-type``, ``type-missed``: the other side has an entity of another type on the same words;
2. ``wrong-boundaries``, ``boundaries-missed``: the other side has an entity, of whatever type, that shares a word;
3. ``spurious``, ``missed``: the other side has nothing there.

The other side's entity may itself be right: a second type predicted on the words of a gold entity is a ``wrong-type``
even where the first one is correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cascade_srn.evaluation.alignment import Pair
from cascade_srn.evaluation.error_kinds import ErrorKind, Errors
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span

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
