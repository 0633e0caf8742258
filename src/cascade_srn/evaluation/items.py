"""Items that the scores count, pairs of gold and predicted sentences, and plain-text tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cascade_srn.errors import AnnotationError
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

SYMMETRIC_POLICIES = ("directed", "canonical", "doubled")


class RelationItem(NamedTuple):
    """A relation as ``re_strict`` counts it. One :class:`~cascade_srn.types.Triple` can give two items."""

    label: str
    head: Span
    tail: Span


def expand_triple(triple: Triple, schema: Schema, symmetric: str) -> list[RelationItem]:
    """Return the items that a relation counts as: two for symmetric relations under ``doubled``, otherwise one."""
    head, tail = triple.head, triple.tail
    if triple.label in schema.symmetric:
        if symmetric == "doubled":
            return [RelationItem(triple.label, head, tail), RelationItem(triple.label, tail, head)]
        if symmetric == "canonical":
            # Spans are ordered by start, end and label, so that arguments on the same words have an order, too.
            return [RelationItem(triple.label, min(head, tail), max(head, tail))]
    return [RelationItem(triple.label, head, tail)]


def relation_items(sentence: Sentence, schema: Schema, symmetric: str) -> set[RelationItem]:
    """Return the relation items of a sentence. A repeated relation counts once."""
    return {item for triple in sentence.triples for item in expand_triple(triple, schema, symmetric)}


def have_same_arguments(one: RelationItem, other: RelationItem, schema: Schema, symmetric: str) -> bool:
    """Return whether two relations of any types have the same arguments, including their entity types.

    Under ``canonical`` and ``doubled``, the order of the arguments is ignored if one of the relations is symmetric.
    """
    if (one.head, one.tail) == (other.head, other.tail):
        return True
    undirected = symmetric != "directed" and bool({one.label, other.label} & schema.symmetric)
    return undirected and (one.head, one.tail) == (other.tail, other.head)


class SentencePair(NamedTuple):
    """A gold sentence and a predicted sentence with the same words. ``where`` names them in messages."""

    where: str
    gold: Sentence
    predicted: Sentence


def align(gold: Iterable[Sentence], predicted: Iterable[Sentence], *, within: str = "") -> Iterator[SentencePair]:
    """SentencePair sentences by position. ``within`` follows the number of a sentence in messages."""
    gold, predicted = list(gold), list(predicted)
    _require_same_number(len(gold), len(predicted), "sentence", within)
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True)):
        where = f"sentence {number}{within}"
        if one.words != other.words:
            raise AnnotationError(f"{where} {_first_difference(one, other)}", "Predict on the words of the gold data")
        yield SentencePair(where, one, other)


def align_documents(gold: Iterable[Document], predicted: Iterable[Document]) -> Iterator[SentencePair]:
    """SentencePair the sentences of documents by position. See :func:`align`."""
    gold, predicted = list(gold), list(predicted)
    _require_same_number(len(gold), len(predicted), "document", "")
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True)):
        name = f" ({one.id!r})" if one.id else ""
        yield from align(one.sentences, other.sentences, within=f" of document {number}{name}")


def _require_same_number(n_gold: int, n_predicted: int, kind: str, within: str) -> None:
    if n_gold != n_predicted:
        raise AnnotationError(
            f"{n_gold} gold {kind}s, but {n_predicted} predicted {kind}s: "
            f"{kind} {min(n_gold, n_predicted)}{within} has no counterpart",
            f"Predict on the same {kind}s as the gold data, in the same order",
        )


def _first_difference(gold: Sentence, predicted: Sentence) -> str:
    for at, (one, other) in enumerate(zip(gold.words, predicted.words, strict=False)):
        if one != other:
            return f"differs at word {at}: {one!r} in gold, {other!r} in the prediction"
    return f"has {len(gold)} words in gold, but {len(predicted)} in the prediction"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a plain-text table with the first column left-aligned and the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
