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


_Triples = Sequence[ScoredTriple]


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
        entities: Sequence[Span] = found.sentence.entities
        triples = found.triples
        if given_entities:
            triples = self._drop_unsure_triples(triples)
        else:
            entities, triples = self._select_entities(entities, triples, found.calibrated)
        # Last, because earlier steps may change which entities there are.
        if self.constraints == "on":
            triples = self._apply_constraints(triples)
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
