"""Predictions in sentences where gold has nothing to find.

A model that is applied to new text meets many sentences without entities or relations. Precision on annotated data
says little about them, because most sentences of a corpus have some.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.items import Pair
from cascade_srn.types import Sentence


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


def has_false_positive(name: str, pair: Pair) -> bool | None:
    """Return whether a sentence has predictions that gold cannot have, or None if gold has something to find."""
    if not FALSE_POSITIVES[name][1](pair.gold):
        return None
    return bool(pair.predicted.entities if name == "entities" else pair.predicted.triples)


def count_false_positives(pairs: Iterable[Pair]) -> dict[str, SentenceShare]:
    """Count the sentences in which gold has nothing to find, and those of them with predictions."""
    pairs = list(pairs)
    found = {}
    for name in FALSE_POSITIVES:
        judged = [predicted for pair in pairs if (predicted := has_false_positive(name, pair)) is not None]
        found[name] = SentenceShare(len(judged), sum(judged))
    return found
