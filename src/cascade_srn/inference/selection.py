"""Selection of the annotations that a search found: scores of relations, thresholds, overlaps and constraints."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from cascade_srn.config import SearchLimits, Temperatures, Thresholds
from cascade_srn.inference.constraints import find_inverse, find_violations
from cascade_srn.inference.overlaps import find_survivors, select_entities
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple


class ScoredTriple(NamedTuple):
    """A triple, and the scores of its subject in turn 2 and of its object in turn 3."""

    triple: Triple
    subject: float
    object: float


class SearchResult(NamedTuple):
    """The annotations found in one sentence, and the scores of its triples.

    ``limited``: one of the :class:`~cascade_srn.config.SearchLimits` applied.
    """

    sentence: Sentence
    triples: Sequence[ScoredTriple] = ()
    limited: bool = False

    def with_triples(self, triples: Sequence[ScoredTriple], entities: Sequence[Span] | None = None) -> Self:
        """Replace the triples, and the entities if they are given."""
        kept = self.sentence.entities if entities is None else entities
        sentence = self.sentence.annotated(kept, [scored.triple for scored in triples])
        return self._replace(sentence=sentence, triples=triples)


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


def calibrate_relations(found: SearchResult, temperatures: Temperatures) -> SearchResult:
    """Map the scores of relations to probabilities, with the temperature and the offsets of relations.

    The map increases with the product of scores, so the order of relations of a type does not change. It is fitted to
    predicted entities, and does not apply to relations between given entities.
    """
    if not found.triples or (temperatures.relation == 1 and not temperatures.relation_offsets):
        return found
    scored = []
    for triple, subject, object_ in found.triples:
        if triple.score is not None:
            score = scale_relation(triple.score, triple.label, temperatures)
            triple = Triple(triple.head, triple.label, triple.tail, score)
        scored.append(ScoredTriple(triple, subject, object_))
    return found.with_triples(scored)


def limit_entities(
    entities: Sequence[list[Span]], sentences: Sequence[Sentence], limits: SearchLimits
) -> tuple[list[list[Span]], set[int]]:
    """Choose the entities that relations are searched between: those on the best spans, up to the limit.

    Also returns the positions of the sentences in which the limit applied.
    """
    chosen, crowded = list(entities), set()
    for number, (found, sentence) in enumerate(zip(entities, sentences, strict=True)):
        most = limits.max_spans(len(sentence))
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
class Selection:
    """Selects annotations by the settings of a :class:`~cascade_srn.inference.predictor.Predictor`."""

    schema: Schema
    thresholds: Thresholds
    temperatures: Temperatures
    overlaps: str
    constraints: str

    def select(self, found: SearchResult, *, given_entities: bool) -> SearchResult:
        """Select annotations. Given entities are all kept."""
        found = self._drop_unsure_triples(found) if given_entities else self._select_entities(found)
        # Last, because earlier steps may change which entities there are.
        return self._apply_constraints(found) if self.constraints == "on" else found

    def _select_entities(self, found: SearchResult) -> SearchResult:
        """Apply the thresholds of whole relations and of entities with a relation, and resolve overlaps."""
        found = calibrate_relations(found, self.temperatures)
        found = self._drop_unrelated_entities(self._drop_unsure_triples(found))
        resolved = self._resolve_overlaps(found)
        # A relation that was moved has another score, and an entity may have lost its only relation.
        return found if resolved is found else self._drop_unrelated_entities(self._drop_unsure_triples(resolved))

    def _resolve_overlaps(self, found: SearchResult) -> SearchResult:
        """Drop entities that share words with better ones, and move their relations to those that are kept."""
        sentence = found.sentence
        kept = select_entities(sentence.entities, self.overlaps, self._margin)
        if len(kept) == len(sentence.entities):
            return found
        related = {entity for triple in sentence.triples for entity in (triple.head, triple.tail)}
        survivors = find_survivors(related, kept)
        moved: dict[Triple, ScoredTriple] = {}
        for scored in found.triples:
            head, tail = (survivors.get(entity) for entity in (scored.triple.head, scored.triple.tail))
            if head is None or tail is None or head == tail:
                continue
            label = scored.triple.label
            score = scale_relation(relation_score(head, tail, scored.object), label, self.temperatures)
            triple = Triple(head, label, tail, score)
            if triple not in moved or score > (moved[triple].triple.score or 0.0):
                moved[triple] = scored._replace(triple=triple)
        return found.with_triples(sorted(moved.values()), kept)

    def _margin(self, entity: Span) -> float:
        """Return how far the score of an entity is above the lowest threshold that it had to pass."""
        thresholds = self.thresholds
        lowest = thresholds.entity_types.get(entity.label, thresholds.entity)
        if thresholds.related is not None:
            lowest = min(lowest, thresholds.related)
        return max(0.0, entity_score(entity) - lowest)

    def _drop_unsure_triples(self, found: SearchResult) -> SearchResult:
        min_score = self.thresholds.relation
        if min_score is None:
            return found
        kept = [scored for scored in found.triples if scored.triple.score is None or scored.triple.score >= min_score]
        return found if len(kept) == len(found.triples) else found.with_triples(kept)

    def _drop_unrelated_entities(self, found: SearchResult) -> SearchResult:
        """Drop entities that passed ``related`` only and have no relation."""
        thresholds, sentence = self.thresholds, found.sentence
        if thresholds.related is None:
            return found
        related = {entity for triple in sentence.triples for entity in (triple.head, triple.tail)}
        kept = [
            entity
            for entity in sentence.entities
            if entity in related
            or entity.score is None
            or entity.score >= thresholds.entity_types.get(entity.label, thresholds.entity)
        ]
        if len(kept) == len(sentence.entities):
            return found
        return found._replace(sentence=sentence.annotated(kept, sentence.triples))

    def _apply_constraints(self, found: SearchResult) -> SearchResult:
        violations = find_violations([scored.triple for scored in found.triples], self.schema)
        if not violations.dropped and not violations.missing:
            return found
        kept = [scored for scored in found.triples if scored.triple not in violations.dropped]
        scores = {find_inverse(scored.triple, self.schema): scored for scored in kept}
        kept += [scores[triple]._replace(triple=triple) for triple in violations.missing]
        return found.with_triples(sorted(kept))
