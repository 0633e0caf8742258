"""Collect all figures of one set of predictions under one protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.config import require_choice
from cascade_srn.evaluation.breakdown import Breakdown, InTriples, break_down, group_in_triples
from cascade_srn.evaluation.errors import (
    Confusion,
    Errors,
    count_entity_confusions,
    count_entity_errors,
    count_relation_confusions,
    count_relation_errors,
)
from cascade_srn.evaluation.false_positives import SentenceShare, count_false_positives
from cascade_srn.evaluation.from_text import Segmentation
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES, align_documents
from cascade_srn.evaluation.reliability import (
    ReliabilityCurve,
    measure_entity_reliability,
    measure_relation_reliability,
)
from cascade_srn.evaluation.scores import Scores, score_documents
from cascade_srn.evaluation.sentences import SentenceAnalysis, analyse_sentence
from cascade_srn.evaluation.violations import ViolationCounts, count_violations
from cascade_srn.schema import Schema
from cascade_srn.types import Document

FORMAT_VERSION = 1
# Source of the entities in the predictions, and the label of figures from that source.
CONDITIONS = {"predicted": "end to end", "gold": "with gold entities"}
# Label of figures from raw text instead of the words of the data.
FROM_TEXT = "from text"


@dataclass(frozen=True)
class Analysis:
    """Figures of one set of predictions, made by :func:`analyse`.

    Attributes:
        entities: Source of the entities: "predicted" by the model, or "gold" entities that the model was given.
        false_positives: Shares of the sentences in which gold has nothing to find, but something was predicted.
        segmentation: Fit of the model's words and sentences, if it predicted from raw text.
        gold_violations: Violations of the schema's constraints in gold.
        predicted_violations: Violations of the schema's constraints in the predictions.
        about: Names to show with the figures, for example of the model and the data.
        constraints: "on" if the constraints were applied to the predictions, else "off".
    """

    schema: Schema
    entities: str
    scores: Scores
    in_triples: InTriples
    entity_errors: Errors
    relation_errors: Errors
    breakdowns: tuple[Breakdown, ...]
    entity_reliability: ReliabilityCurve
    relation_reliability: ReliabilityCurve
    entity_confusion: Confusion
    relation_confusion: Confusion
    sentences: tuple[SentenceAnalysis, ...]
    false_positives: Mapping[str, SentenceShare]
    gold_violations: ViolationCounts
    predicted_violations: ViolationCounts
    about: Mapping[str, str] = field(default_factory=dict)
    segmentation: Segmentation | None = None
    constraints: str = "off"

    @property
    def condition(self) -> str:
        """Label of every figure: "end to end", "with gold entities" or "from text"."""
        return CONDITIONS[self.entities] if self.segmentation is None else FROM_TEXT

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON. Scores and shares are fractions from 0 to 1.

        With gold entities, figures about entities alone are omitted or null. They say nothing about the model, and a
        perfect NER score could be copied into a table by mistake.
        """
        given = self.entities == "gold"
        scores = self.scores.to_dict()
        breakdowns = [breakdown.to_dict() for breakdown in self.breakdowns]
        if given:
            for record in (scores, *(breakdown["tasks"] for breakdown in breakdowns)):
                record.pop("ner", None)
        shares = {name: one.to_dict() for name, one in self.false_positives.items() if name != "entities" or not given}
        return {
            "format_version": FORMAT_VERSION,
            "about": dict(self.about),
            "protocol": {"symmetric": self.scores.symmetric, "entities": self.entities, "condition": self.condition},
            "schema": self.schema.to_dict(),
            "data": {
                "n_documents": len({sentence.document for sentence in self.sentences}),
                "n_sentences": len(self.sentences),
                "n_words": sum(len(sentence.words) for sentence in self.sentences),
                "n_entities": self.scores.ner.counts.n_gold,
                "n_relations": self.scores.re_strict.counts.n_gold,
            },
            "segmentation": None if self.segmentation is None else self.segmentation.to_dict(),
            "scores": scores,
            "false_positives": shares,
            "in_triples": None if given else self.in_triples.to_dict(),
            "entity_errors": None if given else self.entity_errors.to_dict(),
            "relation_errors": self.relation_errors.to_dict(),
            "breakdowns": breakdowns,
            "calibration": {
                "entities": None if given else self.entity_reliability.to_dict(),
                "relations": self.relation_reliability.to_dict(),
            },
            "confusion": {
                "entities": None if given else self.entity_confusion.to_dict(),
                "relations": self.relation_confusion.to_dict(),
            },
            "constraints": {
                "applied": self.constraints,
                "gold": self.gold_violations.to_dict(),
                "predicted": self.predicted_violations.to_dict(),
            },
            "sentences": [sentence.to_dict() for sentence in self.sentences],
        }


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
    gold, predicted = list(gold_documents), list(predicted_documents)
    pairs = list(align_documents(gold, predicted))
    positions = [(d, number, s) for number, d in enumerate(gold) for s in range(len(d.sentences))]
    return Analysis(
        schema=schema,
        entities=entities,
        scores=score_documents(gold, predicted, schema=schema, symmetric=symmetric),
        in_triples=group_in_triples(pairs),
        entity_errors=count_entity_errors(pairs, schema=schema),
        relation_errors=count_relation_errors(pairs, schema=schema, symmetric=symmetric),
        breakdowns=tuple(break_down(pairs, schema=schema, symmetric=symmetric, training_documents=training_documents)),
        entity_reliability=measure_entity_reliability(pairs),
        relation_reliability=measure_relation_reliability(pairs, schema=schema, symmetric=symmetric),
        entity_confusion=count_entity_confusions(pairs, schema=schema),
        relation_confusion=count_relation_confusions(pairs, schema=schema, symmetric=symmetric),
        sentences=tuple(
            analyse_sentence(pair, document_id=d.id, document=number, sentence=s, schema=schema, symmetric=symmetric)
            for pair, (d, number, s) in zip(pairs, positions, strict=True)
        ),
        false_positives=count_false_positives(pairs),
        segmentation=segmentation,
        gold_violations=count_violations(gold, schema),
        predicted_violations=count_violations(predicted, schema),
        about=dict(about or {}),
        constraints=constraints,
    )
