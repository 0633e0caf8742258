"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cascade_srn.errors import AnnotationError, ConfigError, did_you_mean
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

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


class Pair(NamedTuple):
    """A gold sentence, the predicted one of the same words, and where they stand, for messages."""

    where: str
    gold: Sentence
    predicted: Sentence


def align(gold: Iterable[Sentence], predicted: Iterable[Sentence], *, within: str = "") -> Iterator[Pair]:
    """Sentences in pairs, the first with the first; ``within`` follows a sentence's number in messages."""
    gold, predicted = list(gold), list(predicted)
    _same_number(len(gold), len(predicted), "sentence", within)
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True)):
        where = f"sentence {number}{within}"
        if one.words != other.words:
            raise AnnotationError(f"{where} {_first_difference(one, other)}; give both sides the same words")
        yield Pair(where, one, other)


def align_documents(gold: Iterable[Document], predicted: Iterable[Document]) -> Iterator[Pair]:
    """The sentences of documents in pairs, the first document with the first."""
    gold, predicted = list(gold), list(predicted)
    _same_number(len(gold), len(predicted), "document", "")
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True)):
        name = f" ({one.id!r})" if one.id else ""
        yield from align(one.sentences, other.sentences, within=f" of document {number}{name}")


def _same_number(n_gold: int, n_predicted: int, kind: str, within: str) -> None:
    if n_gold != n_predicted:
        raise AnnotationError(
            f"there are {n_gold} gold {kind}s but {n_predicted} predicted ones: "
            f"{kind} {min(n_gold, n_predicted)}{within} is the first without a partner; "
            f"give both sides the same {kind}s"
        )


def _first_difference(gold: Sentence, predicted: Sentence) -> str:
    for at, (one, other) in enumerate(zip(gold.words, predicted.words, strict=False)):
        if one != other:
            return f"differs from word {at} on: gold has {one!r}, the prediction {other!r}"
    return f"has {len(gold)} words in gold but {len(predicted)} in the prediction"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of text, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
