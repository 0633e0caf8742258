"""Scores of parts: each entity and each relation in exactly one group, so that the groups add up to the whole.

A gold item is in the group that the gold sentence puts it into. A prediction that is correct is in the group of the
gold item it is; a prediction that is wrong is in the group that the predicted sentence puts it into. Where a group
is a matter of the words alone (lengths, distances, texts) both sentences say the same, and the rule is not felt; it
is where a group is a matter of the other annotations (in a relation or not, nested or not).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cascade_srn.evaluation.alignment import Pair
from cascade_srn.evaluation.scores import Counts
from cascade_srn.types import Sentence

T = TypeVar("T")


def count_groups(
    pairs: Iterable[Pair],
    *,
    groups: Sequence[str],
    items: Callable[[Sentence], set[T]],
    group_of: Callable[[T, Sentence], str],
) -> dict[str, Counts]:
    """The counts of each of the groups, in their order; a group that nothing falls into has zeros.

    ``items`` is what is counted of a sentence, ``group_of`` the group of such an item in its sentence.
    """
    n_gold, n_predicted, n_correct = Counter[str](), Counter[str](), Counter[str]()
    for pair in pairs:
        gold, predicted = items(pair.gold), items(pair.predicted)
        for item in gold:
            group = group_of(item, pair.gold)
            n_gold[group] += 1
            if item in predicted:
                n_predicted[group] += 1
                n_correct[group] += 1
        n_predicted.update(group_of(item, pair.predicted) for item in predicted - gold)
    if unknown := (n_gold.keys() | n_predicted.keys()) - set(groups):
        raise ValueError(f"items fell into groups that are not declared: {sorted(unknown)}")
    return {group: Counts(n_gold[group], n_predicted[group], n_correct[group]) for group in groups}
