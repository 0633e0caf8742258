"""All figures of one set of predictions, under one protocol, as one object that is plain JSON on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.config import require_choice
from cascade_srn.evaluation.breakdown import Breakdown, InTriples, break_down, group_in_triples
from cascade_srn.evaluation.errors import (
    Confusion,
    Errors,
    confuse_entities,
    confuse_relations,
    count_entity_errors,
    count_relation_errors,
)
from cascade_srn.evaluation.items import align_documents, require_policy
from cascade_srn.evaluation.reliability import Calibration, calibrate_entities, calibrate_relations
from cascade_srn.evaluation.scores import Scores, score_documents
from cascade_srn.evaluation.sentences import SentenceAnalysis, analyse_sentence
from cascade_srn.schema import Schema
from cascade_srn.types import Document

FORMAT_VERSION = 1
# Where the entities of the predictions are from, and what figures are then called.
CONDITIONS = {"predicted": "end to end", "gold": "with gold entities"}


@dataclass(frozen=True)
class Analysis:
    """The figures of :func:`analyse`, each documented in the module that makes it and in ``docs/evaluation.md``.

    ``entities`` says where the entities of the predictions are from: "predicted" by the model, or "gold" ones that it
    was given. ``about`` is whatever the caller wants to have beside the figures: a model's name, a data set's.
    """

    schema: Schema
    entities: str
    scores: Scores
    in_triples: InTriples
    entity_errors: Errors
    relation_errors: Errors
    breakdowns: tuple[Breakdown, ...]
    entity_calibration: Calibration
    relation_calibration: Calibration
    entity_confusion: Confusion
    relation_confusion: Confusion
    sentences: tuple[SentenceAnalysis, ...]
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """What every figure is labelled with: "end to end" or "with gold entities"."""
        return CONDITIONS[self.entities]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; shares, scores, precision and the like within 0..1.

        With gold entities all that is about entities alone is left out or null: those figures say nothing about a
        model that was given them, and a perfect NER score must not get into anybody's table.
        """
        given = self.entities == "gold"
        scores = self.scores.to_dict()
        breakdowns = [breakdown.to_dict() for breakdown in self.breakdowns]
        if given:
            for record in (scores, *(breakdown["tasks"] for breakdown in breakdowns)):
                record.pop("ner", None)
        return {
            "format_version": FORMAT_VERSION,
            "about": dict(self.about),
            "protocol": {
                "symmetric": self.scores.symmetric,
                "entities": self.entities,
                "condition": self.condition,
            },
            "schema": self.schema.to_dict(),
            "data": {
                "n_documents": len({sentence.document for sentence in self.sentences}),
                "n_sentences": len(self.sentences),
                "n_words": sum(len(sentence.words) for sentence in self.sentences),
                "n_entities": self.scores.ner.counts.n_gold,
                "n_relations": self.scores.re_strict.counts.n_gold,
            },
            "scores": scores,
            "in_triples": None if given else self.in_triples.to_dict(),
            "entity_errors": None if given else self.entity_errors.to_dict(),
            "relation_errors": self.relation_errors.to_dict(),
            "breakdowns": breakdowns,
            "calibration": {
                "entities": None if given else self.entity_calibration.to_dict(),
                "relations": self.relation_calibration.to_dict(),
            },
            "confusion": {
                "entities": None if given else self.entity_confusion.to_dict(),
                "relations": self.relation_confusion.to_dict(),
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
) -> Analysis:
    """Analyse predictions against gold, document by document and sentence by sentence.

    With ``training_documents`` there are scores for entity texts that were seen in training and that were not. Say
    ``entities="gold"`` where the predicted relations are between gold entities that the model was given.
    """
    require_choice("entities", entities, tuple(CONDITIONS))
    require_policy(symmetric)
    gold, predicted = list(gold_documents), list(predicted_documents)
    pairs = list(align_documents(gold, predicted))
    places = [(d, number, s) for number, d in enumerate(gold) for s in range(len(d.sentences))]
    return Analysis(
        schema=schema,
        entities=entities,
        scores=score_documents(gold, predicted, schema=schema, symmetric=symmetric),
        in_triples=group_in_triples(pairs),
        entity_errors=count_entity_errors(pairs, schema=schema),
        relation_errors=count_relation_errors(pairs, schema=schema, symmetric=symmetric),
        breakdowns=tuple(break_down(pairs, schema=schema, symmetric=symmetric, training_documents=training_documents)),
        entity_calibration=calibrate_entities(pairs),
        relation_calibration=calibrate_relations(pairs, schema=schema, symmetric=symmetric),
        entity_confusion=confuse_entities(pairs, schema=schema),
        relation_confusion=confuse_relations(pairs, schema=schema, symmetric=symmetric),
        sentences=tuple(
            analyse_sentence(pair, document_id=d.id, document=number, sentence=s, schema=schema, symmetric=symmetric)
            for pair, (d, number, s) in zip(pairs, places, strict=True)
        ),
        about=dict(about or {}),
    )
