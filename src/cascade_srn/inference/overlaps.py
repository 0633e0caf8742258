"""Choose among entities that share words.

Three modes: "flat" (no two entities share a word), "nested" (entities may contain each other, but not cross) and "all".
Each entity has a weight: how far its score is above its threshold, times its number of words. Two parts thus replace
an entity only if their scores, averaged over the words, are better than that of the whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from cascade_srn.types import Span

# Weights are rounded to multiples of this and added as integers, so that equal sums are equal in any order.
_STEP = 2.0**-40


def have_overlaps(entities: Iterable[Span]) -> bool:
    """Return whether two of the entities share a word. Entities in order are not sorted again."""
    entities = list(entities)
    reached = before = 0
    for entity in entities:
        if entity.start < before:
            return have_overlaps(sorted(entities))
        if entity.start < reached:
            return True
        before, reached = entity.start, entity.end
    return False


def select_entities(entities: Sequence[Span], overlaps: str, margin: Callable[[Span], float]) -> list[Span]:
    """Select the entities to keep, sorted. An entity that shares no word with another one is always selected.

    ``margin`` returns how far the score of an entity is above its threshold, from 0 to 1.
    """
    if overlaps == "all" or not have_overlaps(entities):
        return list(entities)
    weights = {entity: round(margin(entity) / _STEP) * _n_words(entity) for entity in entities}
    return sorted((_select_flat if overlaps == "flat" else _select_nested)(weights))


def _select_flat(weights: dict[Span, int]) -> list[Span]:
    """Select the entities with the largest sum of weights of which no two share a word.

    Weighted interval scheduling, in n log n. Of equal sums, the selection with more words is taken, then the one with
    fewer entities.
    """
    entities = sorted(weights, key=lambda entity: (entity.end, entity))
    ends = [entity.end for entity in entities]
    # The value of the best selection among the first n entities, and the n that remains if the last one is taken.
    best = [(0, 0, 0)]
    before: list[int | None] = []
    for position, entity in enumerate(entities):
        n_before = bisect_right(ends, entity.start, hi=position)
        weight, n_words, n_entities = best[n_before]
        taken = weight + weights[entity], n_words + _n_words(entity), n_entities - 1
        is_better = taken > best[position]
        best.append(taken if is_better else best[position])
        before.append(n_before if is_better else None)
    selected = []
    remaining = len(entities)
    while remaining:
        n_before_last = before[remaining - 1]
        if n_before_last is None:
            remaining -= 1
        else:
            selected.append(entities[remaining - 1])
            remaining = n_before_last
    return selected


def _select_nested(weights: dict[Span, int]) -> list[Span]:
    """Select entities greedily by weight, each unless it crosses a selected one or has the same words.

    Of equal weights, the longer entity comes first, then the first in the sentence. An optimal selection would need
    cubic time. The cost of an entity is its number of words.
    """
    n_words = max(entity.end for entity in weights)
    # For each boundary between words: the furthest other boundary of the selected entities that start or end there.
    last_end, first_start = [0] * (n_words + 1), [n_words] * (n_words + 1)
    selected: dict[tuple[int, int], Span] = {}
    for entity in sorted(weights, key=lambda entity: (-weights[entity], -_n_words(entity), entity)):
        start, end = entity.start, entity.end
        crosses = end - start > 1 and (
            max(last_end[start + 1 : end]) > end or min(first_start[start + 1 : end]) < start
        )
        if crosses or (start, end) in selected:
            continue
        selected[start, end] = entity
        last_end[start] = max(last_end[start], end)
        first_start[end] = min(first_start[end], start)
    return list(selected.values())


def find_survivors(entities: Iterable[Span], kept: Sequence[Span]) -> dict[Span, Span]:
    """Find the kept entity that each entity overlaps most.

    It is the entity itself, or the one with the largest share of common words among the words of both; of equal shares
    the one with the better score, then the first. Entities without common words with any kept one are left out.
    """
    survivors = {entity: entity for entity in kept}
    starts = [entity.start for entity in kept]
    longest = max(map(_n_words, kept), default=0)
    for entity in entities:
        if entity in survivors:
            continue
        # Only these can reach into the entity.
        near = kept[bisect_left(starts, entity.start - longest + 1) : bisect_left(starts, entity.end)]
        found = [other for other in near if other.end > entity.start]
        if found:
            survivors[entity] = max(found, key=lambda other: (_common_share(entity, other), other.score or 0.0))
    return survivors


def _common_share(first: Span, second: Span) -> float:
    common = min(first.end, second.end) - max(first.start, second.start)
    return common / (_n_words(first) + _n_words(second) - common)


def _n_words(entity: Span) -> int:
    return entity.end - entity.start
