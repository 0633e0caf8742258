"""Gold and predicted sentences, side by side: what is compared must be the same words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cascade_srn.errors import AnnotationError
from cascade_srn.types import Document, Sentence


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
