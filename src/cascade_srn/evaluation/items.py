"""What of a sentence is counted: its entities, and its relations as a policy for symmetric ones reads them."""

from __future__ import annotations

from typing import NamedTuple

from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

SYMMETRIC_POLICIES = ("directed", "canonical", "doubled")


class RelationItem(NamedTuple):
    """A relation as ``re_strict`` counts it; a :class:`~cascade_srn.types.Triple` can stand for two of them."""

    label: str
    head: Span
    tail: Span


def require_policy(symmetric: str) -> None:
    """Refuse what is no policy for symmetric relations."""
    if symmetric not in SYMMETRIC_POLICIES:
        raise ConfigError(
            f"{symmetric!r} is no policy for symmetric relations. {did_you_mean(str(symmetric), SYMMETRIC_POLICIES)}"
        )


def items_of(triple: Triple, schema: Schema, symmetric: str) -> list[RelationItem]:
    """What a relation counts as: one item, or two where it is symmetric and the policy doubles it."""
    head, tail = triple.head, triple.tail
    if triple.label in schema.symmetric:
        if symmetric == "doubled":
            return [RelationItem(triple.label, head, tail), RelationItem(triple.label, tail, head)]
        if symmetric == "canonical":
            # Spans order by start, end, label: text order, and one order even for arguments that share words.
            return [RelationItem(triple.label, min(head, tail), max(head, tail))]
    return [RelationItem(triple.label, head, tail)]


def relation_items(sentence: Sentence, schema: Schema, symmetric: str) -> set[RelationItem]:
    """The relations of a sentence as a policy counts them; a repeated one counts once."""
    return {item for triple in sentence.triples for item in items_of(triple, schema, symmetric)}


def same_arguments(one: RelationItem, other: RelationItem, schema: Schema, symmetric: str) -> bool:
    """Whether two relations, of whatever types, hold between the same arguments (their entity types included).

    Direction counts, except where the policy takes it away: under ``canonical`` and ``doubled`` a relation of a
    symmetric type has none, so that either order of its arguments is the same as the other relation's.
    """
    if (one.head, one.tail) == (other.head, other.tail):
        return True
    undirected = symmetric != "directed" and bool({one.label, other.label} & schema.symmetric)
    return undirected and (one.head, one.tail) == (other.tail, other.head)
