"""Each sentence with what was right and wrong in it, so that there are sentences to look at behind each figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.breakdown import IN_TRIPLE, triple_group
from cascade_srn.evaluation.errors import RelationError, entity_errors, relation_errors
from cascade_srn.evaluation.items import Pair, items_of
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple


@dataclass(frozen=True)
class JudgedEntity:
    """A gold or predicted entity; ``kind`` is that of its error, None where the other side has it too."""

    span: Span
    in_triple: bool
    kind: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        span = self.span
        return {
            "start": span.start,
            "end": span.end,
            "label": span.label,
            "score": span.score,
            "in_triple": self.in_triple,
            "correct": self.kind is None,
            "kind": self.kind,
        }


@dataclass(frozen=True)
class JudgedRelation:
    """A gold or predicted relation between two entities of its side, by their positions; ``error`` None if correct."""

    triple: Triple
    head: int
    tail: int
    error: RelationError | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
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
    """A sentence of a document, what gold has in it and what was predicted, each thing judged.

    Relations stand as they were written, a repeated one once, whatever the policy for symmetric ones counts them as.
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
        """The kinds of its entity errors, wrong ones first."""
        return [e.kind for e in (*self.predicted_entities, *self.gold_entities) if e.kind is not None]

    @property
    def relation_kinds(self) -> list[str]:
        """The kinds of its relation errors, wrong ones first."""
        return [r.error.kind for r in (*self.predicted_relations, *self.gold_relations) if r.error is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
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
    """Judge everything that gold and the prediction have in a sentence."""
    entity_kinds = entity_errors(pair.gold, pair.predicted)
    errors = relation_errors(pair.gold, pair.predicted, schema=schema, symmetric=symmetric)

    def entities(side: str, of: Sentence) -> tuple[JudgedEntity, ...]:
        return tuple(
            JudgedEntity(span, triple_group(span, of) == IN_TRIPLE, entity_kinds[side].get(span))
            for span in of.entities
        )

    def relations(side: str, of: Sentence) -> tuple[JudgedRelation, ...]:
        place = {span: number for number, span in enumerate(of.entities)}
        found = []
        for triple in dict.fromkeys(of.triples):
            # Where a policy makes two items of a relation, they are both right, or both wrong and of one kind.
            error = errors[side].get(items_of(triple, schema, symmetric)[0])
            found.append(JudgedRelation(triple, place[triple.head], place[triple.tail], error))
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
