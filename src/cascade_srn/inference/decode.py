"""From probabilities to annotations: spans, scores, entities that share words, thresholds and constraints.

Spans are decoded on NumPy arrays, without a loop over words or spans. Probabilities of a GPU are copied to the host
once per turn. Decoding them on the GPU would launch many small kernels, and wait for the GPU whenever a number of
candidates is needed.

There are three modes for entities that share words: "flat" (no two entities share a word), "nested" (entities may
contain each other, but not cross) and "all". Each entity has a weight: how far its score is above its threshold, times
its number of words. Two parts thus replace an entity only if their scores, averaged over the words, are better than
that of the whole.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cascade_srn.config import SearchLimits, Temperatures, Thresholds
from cascade_srn.encoder.windows import Integers
from cascade_srn.inference.constraints import find_inverse, find_violations
from cascade_srn.inference.precision import MinScores
from cascade_srn.schema import Schema
from cascade_srn.text.edges import any_edge, trim
from cascade_srn.types import Sentence, Span, Triple

Floats = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]


def sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the logistic function in float32, also of large values."""
    with np.errstate(over="ignore"):
        found: NDArray[np.float32] = np.reciprocal(np.exp(-values) + np.float32(1))
    return found


def probability(logits: NDArray[np.float32], temperature: float, offset: Floats | float = 0.0) -> NDArray[np.float32]:
    """Return the probabilities of logits, in float32, with a temperature and an offset applied."""
    return sigmoid(logits / np.float32(temperature) + np.asarray(offset, dtype=np.float32))


def find_candidates(
    start: Floats, end: Floats, lengths: Integers, threshold: float | Floats, max_words: int | None = None
) -> tuple[Integers, ...]:
    """Find all spans whose first word passes as a start and whose last word passes as an end of the same label.

    ``max_words`` is the maximum length of a span. Without it, the number of candidates can be quadratic.

    Shapes:
        start, end: (n_rows, n_words, n_labels), probabilities
        lengths: (n_rows,)
        threshold: (n_labels,), or one for all labels
        returns: row, first word, last word and label, (n_candidates,) each
    """
    n_words, n_labels = start.shape[1:]
    real = (np.arange(n_words) < lengths[:, None])[:, :, None]
    # Pair only starts and ends that pass. A table of all pairs of words would be quadratic.
    start_row, start_label, first = ((start >= threshold) & real).transpose(0, 2, 1).nonzero()
    end_row, end_label, last = ((end >= threshold) & real).transpose(0, 2, 1).nonzero()
    # Ends are sorted by row, label and word, so the ends that belong to a start are contiguous.
    group = (start_row * n_labels + start_label) * n_words
    ends = (end_row * n_labels + end_label) * n_words + last
    beyond = n_words if max_words is None else np.minimum(first + max_words, n_words)
    begin, stop = np.searchsorted(ends, group + first), np.searchsorted(ends, group + beyond)
    counts = stop - begin
    which_start = np.repeat(np.arange(len(counts)), counts)
    which_end = np.arange(len(which_start)) + (begin - (np.cumsum(counts) - counts))[which_start]
    return start_row[which_start], first[which_start], last[which_end], start_label[which_start]


def select_best(row: Integers, score: Floats, most: Sequence[int]) -> Flags | None:
    """Return a mask of the items with the best scores in each row, or None if all can be kept.

    Shapes:
        row, score: (n_items,), rows in ascending order
        most: (n_rows,), the maximum number of items of each row
        returns: (n_items,)
    """
    limits = np.asarray(most, dtype=np.int64)
    counts = np.bincount(row, minlength=len(limits))
    if bool((counts <= limits).all()):
        return None
    order = np.lexsort((-score, row))
    rank = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    chosen = np.zeros(len(row), dtype=bool)
    chosen[order] = rank < limits[row]
    return chosen


def list_spans(row: Integers, first: Integers, last: Integers, n_words: int) -> Integers:
    """Return the distinct spans in order. Shapes: (n,) each; returns (n_spans, 3): row, first word and last word."""
    ordered = np.sort((row * n_words + first) * n_words + last)
    # np.unique would import masked arrays.
    distinct = ordered[np.diff(ordered, prepend=-1) > 0]
    of_row = distinct % n_words**2
    return np.stack((distinct // n_words**2, of_row // n_words, of_row % n_words), axis=1)


def pair_with_spans(
    span_row: Integers, query_row: Integers, n_rows: int, size: int
) -> Iterator[tuple[Integers, Integers]]:
    """Pair each query with each span of its row. Yield the pairs in parts of ``size``, to bound their memory.

    There is at least one part.

    Shapes:
        span_row: (n_spans,), ascending
        query_row: (n_queries,)
        yields: positions of queries and of spans, (n_pairs,) each, sorted by query and then by span
    """
    counts = np.bincount(span_row, minlength=n_rows)
    ends = np.cumsum(counts[query_row])
    # Position of a span = position of the pair + first span of its row - first pair of its query.
    shift = (np.cumsum(counts) - counts)[query_row] - (ends - counts[query_row])
    n_pairs = int(ends[-1]) if len(ends) else 0
    for begin in range(0, max(n_pairs, 1), size):
        pair = np.arange(begin, min(begin + size, n_pairs))
        query = np.searchsorted(ends, pair, side="right")
        yield query, pair + shift[query]


def find_entity(entities: Iterable[Span], start: int, end: int, not_this: Span | None = None) -> Span:
    """Return the entity that a span of turns 2 and 3 stands for.

    Those turns find spans without entity types. Of several entities with the same span, it is the one with the best
    score, and of equal scores the first by label. ``not_this`` is the subject when an object is looked up: it is
    returned only if no other entity has the span.
    """
    sharing = [e for e in entities if e.start == start and e.end == end]
    others = [e for e in sharing if e != not_this] or sharing
    return min(others, key=lambda e: (-1.0 if e.score is None else -e.score, e))


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


class ScoredTriple(NamedTuple):
    """A triple, and the scores of its subject in turn 2 and of its object in turn 3."""

    triple: Triple
    subject: float
    object: float


_Triples = Sequence[ScoredTriple]


def trim_edges(words: Sequence[str], entities: Sequence[Span], triples: _Triples) -> tuple[Sequence[Span], _Triples]:
    """Remove quotes and the like from the edges of entities. See :func:`cascade_srn.text.edges.trim`.

    An entity without other words is dropped, together with its relations. Of entities that become equal, the one with
    the best score is kept.
    """
    if not any_edge([words[at] for e in entities for at in (e.start, e.end - 1)]):
        return entities, triples
    kept: dict[Span, Span] = {}
    trimmed: dict[Span, Span] = {}
    for entity in entities:
        start, end = trim(words, entity.start, entity.end)
        if start < end:
            found = trimmed[entity] = Span(start, end, entity.label, entity.score)
            if found not in kept or entity_score(found) > entity_score(kept[found]):
                kept[found] = found
    moved: dict[Triple, ScoredTriple] = {}
    for scored in triples:
        head, tail = (trimmed.get(entity) for entity in (scored.triple.head, scored.triple.tail))
        if head is None or tail is None or head == tail:
            continue
        triple = Triple(kept[head], scored.triple.label, kept[tail], scored.triple.score)
        if triple not in moved or scored.object > moved[triple].object:
            moved[triple] = scored._replace(triple=triple)
    return sorted(kept.values()), sorted(moved.values())


class SearchResult(NamedTuple):
    """The annotations found in one sentence, and the scores of its triples.

    ``limited``: one of the :class:`~cascade_srn.config.SearchLimits` applied. ``calibrated``: the search has mapped the
    scores of triples to probabilities, as far as the temperatures say so.
    """

    sentence: Sentence
    triples: Sequence[ScoredTriple] = ()
    limited: bool = False
    calibrated: bool = False

    def with_triples(self, triples: Sequence[ScoredTriple], entities: Sequence[Span] | None = None) -> Self:
        """Replace the triples, and the entities if they are given."""
        kept = self.sentence.entities if entities is None else entities
        sentence = self.sentence.with_predictions(kept, [scored.triple for scored in triples])
        return type(self)(sentence, triples, self.limited, self.calibrated)


def entity_score(entity: Span) -> float:
    """Return the score of an entity, or 1 for an entity that was given without a score."""
    return 1.0 if entity.score is None else entity.score


def relation_score(head: Span, tail: Span, object_: float) -> float:
    """Return the score of a triple: the product of the scores of its object, its head and its tail.

    Entities without a score were given by the caller and count as 1. The score of the subject in turn 2 is left out,
    because the score of the object already says whether the subject has any.
    """
    return object_ * entity_score(head) * entity_score(tail)


def scale_score(score: float, temperature: float, offset: float) -> float:
    """Divide the logit of a score by a temperature and add an offset. Scores of 0 and 1 remain."""
    if not 0 < score < 1:
        return score
    logit = (math.log(score) - math.log1p(-score)) / temperature + offset
    # Of the two equal forms, each is exact for one sign.
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def scale_relation(score: float, label: str, temperatures: Temperatures) -> float:
    """Map the product of the scores of a relation to a probability."""
    return scale_score(score, temperatures.relation, temperatures.relation_offsets.get(label, 0.0))


def _calibrate(triples: _Triples, temperatures: Temperatures, min_score: float | None) -> _Triples:
    """Map the scores of relations to probabilities, with the temperature and the offsets of relations.

    Relations below ``min_score`` are dropped. The map increases with the product of scores, so the order of relations
    of a type does not change. It is fitted to predicted entities, and does not apply to relations between given
    entities.
    """
    scored = []
    for found in triples:
        triple = found.triple
        if triple.score is not None:
            score = scale_relation(triple.score, triple.label, temperatures)
            if min_score is not None and score < min_score:
                continue
            found = ScoredTriple(Triple(triple.head, triple.label, triple.tail, score), found.subject, found.object)
        scored.append(found)
    return scored


def limit_entities(
    entities: Sequence[list[Span]], sentences: Sequence[Sentence], limits: SearchLimits
) -> tuple[list[list[Span]], set[int]]:
    """Choose the entities that relations are searched between: those on the best spans, up to the limit.

    Also returns the positions of the sentences in which the limit applied.
    """
    chosen, crowded = list(entities), set()
    for number, (found, sentence) in enumerate(zip(entities, sentences, strict=True)):
        most = limits.max_spans(len(sentence.words))
        if len(found) <= most:
            continue
        best: dict[tuple[int, int], float] = {}
        for entity in found:
            span = entity.start, entity.end
            best[span] = max(best.get(span, 0.0), entity_score(entity))
        if len(best) > most:
            ranked = sorted((-score, span) for span, score in best.items())
            kept = {span for _, span in ranked[:most]}
            chosen[number] = [entity for entity in found if (entity.start, entity.end) in kept]
            crowded.add(number)
    return chosen, crowded


@dataclass(frozen=True)
class Postprocessor:
    """Applies the thresholds, overlaps and constraints of a predictor to what a search found."""

    schema: Schema
    thresholds: Thresholds
    temperatures: Temperatures
    overlaps: str
    constraints: str
    min_scores: MinScores | None = None

    def apply(self, found: SearchResult, *, given_entities: bool) -> SearchResult:
        """Return the annotations to keep. Given entities are all kept."""
        entities: Sequence[Span] = found.sentence.entities
        triples = found.triples
        if given_entities:
            triples = self._drop_unsure_triples(triples)
        else:
            entities, triples = trim_edges(found.sentence.words, entities, triples)
            entities, triples = self._select_entities(entities, triples, found.calibrated)
        # Last, because earlier steps may change which entities there are.
        if self.constraints == "on":
            triples = self._apply_constraints(triples)
        if self.min_scores is not None:
            kept, sure = self.min_scores.select(entities, [scored.triple for scored in triples])
            entities, known = kept, set(sure)
            triples = [scored for scored in triples if scored.triple in known]
        # Making a sentence takes longer than most steps.
        is_same = entities is found.sentence.entities and triples is found.triples
        return found if is_same else found.with_triples(triples, entities)

    def _select_entities(
        self, entities: Sequence[Span], triples: _Triples, calibrated: bool
    ) -> tuple[Sequence[Span], _Triples]:
        """Apply the thresholds of whole relations and of entities with a relation, and resolve overlaps."""
        if calibrated or not self.temperatures.scales_relations:
            triples = self._drop_unsure_triples(triples)
        elif triples:
            triples = _calibrate(triples, self.temperatures, self.thresholds.relation)
        entities = self._drop_unrelated_entities(entities, triples)
        kept = select_entities(entities, self.overlaps, self._margin)
        if len(kept) == len(entities):
            return entities, triples
        # A relation that was moved has another score, and an entity may have lost its only relation.
        triples = self._drop_unsure_triples(self._move_triples(triples, kept))
        return self._drop_unrelated_entities(kept, triples), triples

    def _move_triples(self, triples: _Triples, kept: Sequence[Span]) -> _Triples:
        """Move relations to the entities that are kept."""
        survivors = find_survivors(_related(triples), kept)
        moved: dict[Triple, ScoredTriple] = {}
        for scored in triples:
            head, tail = (survivors.get(entity) for entity in (scored.triple.head, scored.triple.tail))
            if head is None or tail is None or head == tail:
                continue
            label = scored.triple.label
            score = scale_relation(relation_score(head, tail, scored.object), label, self.temperatures)
            triple = Triple(head, label, tail, score)
            if triple not in moved or score > (moved[triple].triple.score or 0.0):
                moved[triple] = scored._replace(triple=triple)
        return sorted(moved.values())

    def _margin(self, entity: Span) -> float:
        """Return how far the score of an entity is above the lowest threshold that it had to pass."""
        thresholds = self.thresholds
        lowest = thresholds.entity_types.get(entity.label, thresholds.entity)
        if thresholds.related is not None:
            lowest = min(lowest, thresholds.related)
        return max(0.0, entity_score(entity) - lowest)

    def _drop_unsure_triples(self, triples: _Triples) -> _Triples:
        min_score = self.thresholds.relation
        if min_score is None:
            return triples
        kept = [scored for scored in triples if scored.triple.score is None or scored.triple.score >= min_score]
        return triples if len(kept) == len(triples) else kept

    def _drop_unrelated_entities(self, entities: Sequence[Span], triples: _Triples) -> Sequence[Span]:
        """Drop entities that passed ``related`` only and have no relation."""
        thresholds = self.thresholds
        if thresholds.related is None:
            return entities
        by_type, usual = thresholds.entity_types, thresholds.entity
        unsure = {e for e in entities if e.score is not None and e.score < by_type.get(e.label, usual)}
        if unsure:
            unsure -= _related(triples)
        return [entity for entity in entities if entity not in unsure] if unsure else entities

    def _apply_constraints(self, triples: _Triples) -> _Triples:
        if not triples:
            return triples
        violations = find_violations([scored.triple for scored in triples], self.schema)
        if not violations.dropped and not violations.missing:
            return triples
        kept = [scored for scored in triples if scored.triple not in violations.dropped]
        scores = {find_inverse(scored.triple, self.schema): scored for scored in kept}
        kept += [scores[triple]._replace(triple=triple) for triple in violations.missing]
        return sorted(kept)


def _related(triples: _Triples) -> set[Span]:
    return {entity for scored in triples for entity in (scored.triple.head, scored.triple.tail)}
