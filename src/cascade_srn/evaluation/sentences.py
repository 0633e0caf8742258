"""Mark each entity and relation of a sentence as correct or with the kind of its error."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from cascade_srn.evaluation.breakdown import IN_TRIPLE, find_triple_group
from cascade_srn.evaluation.errors import RelationError, find_entity_errors, find_relation_errors
from cascade_srn.evaluation.items import Pair, expand_triple
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple


@dataclass(frozen=True)
class JudgedEntity:
    """A gold or predicted entity, with the kind of its error, or None if it is correct."""

    span: Span
    in_triple: bool
    kind: str | None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return asdict(self.span) | {"in_triple": self.in_triple, "correct": self.kind is None, "kind": self.kind}


@dataclass(frozen=True)
class JudgedRelation:
    """A gold or predicted relation. ``head`` and ``tail`` are positions in the entities of the same side."""

    triple: Triple
    head: int
    tail: int
    error: RelationError | None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        error = RelationError("") if self.error is None else self.error
        return {
            "head": self.head,
            "tail": self.tail,
            "label": self.triple.label,
            "score": self.triple.score,
            "correct": self.error is None,
            "kind": error.kind or None,
            "instead": list(error.instead),
            "reversed": error.reversed,
        }


@dataclass(frozen=True)
class SentenceAnalysis:
    """A sentence with its gold and predicted annotations.

    Relations are as annotated, whatever the policy for symmetric relations. A repeated relation appears once.
    """

    document_id: str
    document: int
    sentence: int
    words: tuple[str, ...]
    gold_entities: tuple[JudgedEntity, ...]
    gold_relations: tuple[JudgedRelation, ...]
    predicted_entities: tuple[JudgedEntity, ...]
    predicted_relations: tuple[JudgedRelation, ...]

    @property
    def entity_kinds(self) -> list[str]:
        """Kinds of the entity errors, wrong predictions first."""
        return [e.kind for e in (*self.predicted_entities, *self.gold_entities) if e.kind is not None]

    @property
    def relation_kinds(self) -> list[str]:
        """Kinds of the relation errors, wrong predictions first."""
        return [r.error.kind for r in (*self.predicted_relations, *self.gold_relations) if r.error is not None]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "document_id": self.document_id,
            "document": self.document,
            "sentence": self.sentence,
            "words": list(self.words),
            "gold": _side(self.gold_entities, self.gold_relations),
            "predicted": _side(self.predicted_entities, self.predicted_relations),
            "n_errors": len(self.entity_kinds) + len(self.relation_kinds),
        }


def analyse_sentence(
    pair: Pair, *, document_id: str, document: int, sentence: int, schema: Schema, symmetric: str = "directed"
) -> SentenceAnalysis:
    """Find the errors in a sentence, which is at position ``sentence`` of document number ``document``."""
    entity_kinds = find_entity_errors(pair.gold, pair.predicted)
    errors = find_relation_errors(pair.gold, pair.predicted, schema=schema, symmetric=symmetric)

    def entities(side: str, of: Sentence) -> tuple[JudgedEntity, ...]:
        return tuple(
            JudgedEntity(span, find_triple_group(span, of) == IN_TRIPLE, entity_kinds[side].get(span))
            for span in of.entities
        )

    def relations(side: str, of: Sentence) -> tuple[JudgedRelation, ...]:
        position = {span: number for number, span in enumerate(of.entities)}
        found = []
        for triple in dict.fromkeys(of.triples):
            # If a policy makes two items of a relation, both are correct or both have the same kind of error.
            error = errors[side].get(expand_triple(triple, schema, symmetric)[0])
            found.append(JudgedRelation(triple, position[triple.head], position[triple.tail], error))
        return tuple(found)

    return SentenceAnalysis(
        document_id,
        document,
        sentence,
        pair.gold.words,
        entities("gold", pair.gold),
        relations("gold", pair.gold),
        entities("predicted", pair.predicted),
        relations("predicted", pair.predicted),
    )


def _side(entities: Iterable[JudgedEntity], relations: Iterable[JudgedRelation]) -> dict[str, Any]:
    return {"entities": [e.to_dict() for e in entities], "relations": [r.to_dict() for r in relations]}
