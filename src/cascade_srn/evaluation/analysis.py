"""Collect all figures of one set of predictions under one protocol, and mark each annotation as correct or wrong."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from cascade_srn.config import require_choice
from cascade_srn.evaluation.breakdown import (
    IN_TRIPLE,
    Breakdown,
    InTriples,
    break_down,
    find_triple_group,
    group_in_triples,
)
from cascade_srn.evaluation.errors import (
    Confusion,
    Errors,
    RelationError,
    SentenceShare,
    count_entity_confusions,
    count_entity_errors,
    count_false_positives,
    count_relation_confusions,
    count_relation_errors,
    count_violations,
    find_entity_errors,
    find_relation_errors,
)
from cascade_srn.evaluation.from_text import Segmentation
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES, SentencePair, align_documents, expand_triple
from cascade_srn.evaluation.reliability import (
    ReliabilityCurve,
    measure_entity_reliability,
    measure_relation_reliability,
)
from cascade_srn.evaluation.scores import Scores, score_documents
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

FORMAT_VERSION = 1
# Source of the entities in the predictions, and the label of figures from that source.
CONDITIONS = {"predicted": "end to end", "gold": "with gold entities"}
# Label of figures from raw text instead of the words of the data.
FROM_TEXT = "from text"


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
    pair: SentencePair, document_id: str, document: int, sentence: int, *, schema: Schema, symmetric: str
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


@dataclass(frozen=True)
class Analysis:
    """Figures of one set of predictions, made by :func:`analyse`. Each is computed when it is used first."""

    gold: Sequence[Document]  # Annotated documents
    predicted: Sequence[Document]  # Predictions on the same documents and words
    schema: Schema  # Label set of both
    symmetric: str = "directed"  # Policy for symmetric relations
    # Source of the entities: "predicted" by the model, or "gold" entities that the model was given. With gold entities,
    # there are no figures about entities alone: they say nothing about the model, and a perfect NER score could be
    # copied into a table by mistake.
    entities: str = "predicted"
    training: Sequence[Document] | None = None  # Documents of the training data, or None
    # Names to show with the figures, for example of the model and the data
    about: Mapping[str, str] = field(default_factory=dict)
    segmentation: Segmentation | None = None  # Fit of the model's words and sentences, if it predicted from raw text
    constraints: str = "off"  # "on" if the constraints were applied to the predictions, else "off"

    @property
    def condition(self) -> str:
        """Label of every figure: "end to end", "with gold entities" or "from text"."""
        return CONDITIONS[self.entities] if self.segmentation is None else FROM_TEXT

    @property
    def excluded_tasks(self) -> tuple[str, ...]:
        """Tasks without figures: NER if the entities were given."""
        return ("ner",) if self.entities == "gold" else ()

    @cached_property
    def pairs(self) -> list[SentencePair]:
        """Gold and predicted sentences."""
        return list(align_documents(self.gold, self.predicted))

    @cached_property
    def scores(self) -> Scores:
        """Scores of all tasks."""
        return score_documents(self.gold, self.predicted, schema=self.schema, symmetric=self.symmetric)

    @cached_property
    def in_triples(self) -> InTriples:
        """Counts of entities in and out of triples."""
        return group_in_triples(self.pairs)

    @cached_property
    def breakdowns(self) -> list[Breakdown]:
        """Scores by group."""
        found = break_down(self.pairs, schema=self.schema, symmetric=self.symmetric, training_documents=self.training)
        for breakdown in found:
            for task in self.excluded_tasks:
                breakdown.tasks.pop(task, None)
        return found

    @cached_property
    def false_positives(self) -> dict[str, SentenceShare]:
        """Shares of the sentences in which gold has nothing to find, but something was predicted."""
        found = count_false_positives(self.pairs)
        return {name: one for name, one in found.items() if name != "entities" or self.entities != "gold"}

    @cached_property
    def sentences(self) -> tuple[SentenceAnalysis, ...]:
        """All sentences with their errors."""
        positions = ((d.id, number, s) for number, d in enumerate(self.gold) for s in range(len(d.sentences)))
        return tuple(
            analyse_sentence(pair, *position, schema=self.schema, symmetric=self.symmetric)
            for pair, position in zip(self.pairs, positions, strict=True)
        )

    @property
    def violations(self) -> dict[str, Any]:
        """Whether constraints were applied, and the numbers of violations in gold and in the predictions."""
        sides = {"gold": self.gold, "predicted": self.predicted}
        return {"applied": self.constraints} | {
            side: count_violations(documents, self.schema).to_dict() for side, documents in sides.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON. Scores and shares are fractions from 0 to 1.

        With gold entities, figures about entities alone are omitted or null.
        """
        pairs = self.pairs
        policy: dict[str, Any] = {"schema": self.schema, "symmetric": self.symmetric}

        def of_entities(figure: Figures) -> dict[str, Any] | None:
            return None if self.entities == "gold" else figure.to_dict()

        return {
            "format_version": FORMAT_VERSION,
            "about": dict(self.about),
            "protocol": {"symmetric": self.symmetric, "entities": self.entities, "condition": self.condition},
            "schema": self.schema.to_dict(),
            "data": {
                "n_documents": len({sentence.document for sentence in self.sentences}),
                "n_sentences": len(self.sentences),
                "n_words": sum(len(sentence.words) for sentence in self.sentences),
                "n_entities": self.scores.ner.counts.n_gold,
                "n_relations": self.scores.re_strict.counts.n_gold,
            },
            "segmentation": None if self.segmentation is None else self.segmentation.to_dict(),
            "scores": self.scores.to_dict(exclude=self.excluded_tasks),
            "false_positives": {name: one.to_dict() for name, one in self.false_positives.items()},
            "in_triples": of_entities(self.in_triples),
            "entity_errors": of_entities(count_entity_errors(pairs, schema=self.schema)),
            "relation_errors": count_relation_errors(pairs, **policy).to_dict(),
            "breakdowns": [breakdown.to_dict() for breakdown in self.breakdowns],
            "calibration": {
                "entities": of_entities(measure_entity_reliability(pairs)),
                "relations": measure_relation_reliability(pairs, **policy).to_dict(),
            },
            "confusion": {
                "entities": of_entities(count_entity_confusions(pairs, schema=self.schema)),
                "relations": count_relation_confusions(pairs, **policy).to_dict(),
            },
            "constraints": self.violations,
            "sentences": [sentence.to_dict() for sentence in self.sentences],
        }


Figures = InTriples | Errors | ReliabilityCurve | Confusion


def analyse(
    gold_documents: Iterable[Document],
    predicted_documents: Iterable[Document],
    *,
    schema: Schema,
    symmetric: str = "directed",
    training_documents: Iterable[Document] | None = None,
    entities: str = "predicted",
    about: Mapping[str, str] | None = None,
    segmentation: Segmentation | None = None,
    constraints: str = "off",
) -> Analysis:
    """Compare predictions with gold, document by document and sentence by sentence.

    Args:
        gold_documents: Annotated documents.
        predicted_documents: Predictions on the same documents, in the same order.
        schema: Label set of both.
        symmetric: Policy for symmetric relations: "directed", "canonical" or "doubled".
        training_documents: Documents of the training data. They add scores by whether an entity text was seen.
        entities: "gold" if the model was given the gold entities and predicted relations only.
        about: Names to show with the figures, for example of the model and the data.
        segmentation: Set for predictions from raw text, where both sides come from
            :func:`~cascade_srn.evaluation.from_text.align_by_characters`. The figures are labelled "from text".
        constraints: "on" if the constraints of the schema were applied to the predictions.

    Raises:
        AnnotationError: The two sides do not have the same documents, sentences and words.
        SchemaError: A label is not in the schema.
    """
    require_choice("entities", entities, tuple(CONDITIONS))
    require_choice("symmetric", symmetric, SYMMETRIC_POLICIES)
    found = Analysis(
        list(gold_documents),
        list(predicted_documents),
        schema,
        symmetric,
        entities,
        None if training_documents is None else list(training_documents),
        dict(about or {}),
        segmentation,
        constraints,
    )
    _ = found.scores  # raises if the two sides do not fit
    return found
