"""Collect what promised precision needs: predictions on calibration documents, and whether they are correct.

Correctness comes from annotated documents, or from a file in which people marked predictions as right or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.errors import count_false_positives
from cascade_srn.evaluation.items import align_documents
from cascade_srn.evaluation.scores import Counts, score_documents
from cascade_srn.formats.base import read_strictly
from cascade_srn.formats.files import parse_json_record, read_lines
from cascade_srn.formats.json_records import Value
from cascade_srn.inference.precision import (
    PrecisionRecord,
    ScoredPredictions,
    find_min_scores,
    label_groups,
    settings_checksum,
)
from cascade_srn.inference.precision_option import KINDS, PrecisionChoice
from cascade_srn.inference.predictor import BaseModel
from cascade_srn.network.examples import examples_of
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels that an evaluation reports."""

_WRONG, _BOUNDARIES, _STRICT, _NOT_JUDGED = 0, 1, 2, -1
Rows = dict[str, list[tuple[float, ...]]]


def measure_precision(model: BaseModel, documents: Sequence[Document]) -> PrecisionRecord:
    """Predict on annotated documents that the model was not trained on, and record what is correct."""
    examples = examples_of(documents, model.settings.encoder.context_words)
    sentences = iter(model.predictor().predict(examples))
    predicted = [tuple(islice(sentences, len(document.sentences))) for document in documents]
    rows: Rows = {kind: [] for kind in KINDS}
    for number, (document, found) in enumerate(zip(documents, predicted, strict=True)):
        for gold, sentence in zip(document.sentences, found, strict=True):
            _add_rows(rows, number, gold, sentence, model.schema)
    return _make_record(model, len(documents), "annotations", rows)


def _add_rows(rows: Rows, document: int, gold: Sentence, found: Sentence, schema: Schema) -> None:
    spans, triples = set(gold.entities), set(gold.triples)
    places = {_place(span) for span in spans}
    pairs = {(_place(triple.head), triple.label, _place(triple.tail)) for triple in triples}
    numbers = {span: number for number, span in enumerate(found.entities, len(rows["entities"]))}
    for span in found.entities:
        correct = _STRICT if span in spans else _BOUNDARIES if _place(span) in places else _WRONG
        rows["entities"].append((document, schema.entity_types.index(span.label), _score(span.score), correct, 0, 0))
    for triple in dict.fromkeys(found.triples):
        pair = _place(triple.head), triple.label, _place(triple.tail)
        correct = _STRICT if triple in triples else _BOUNDARIES if pair in pairs else _WRONG
        label, ends = schema.relation_types.index(triple.label), (numbers[triple.head], numbers[triple.tail])
        rows["relations"].append((document, label, _score(triple.score), correct, *ends))


def _place(span: Span) -> tuple[int, int]:
    return span.start, span.end


def _score(score: float | None) -> float:
    return 1.0 if score is None else score


def _make_record(model: BaseModel, n_documents: int, source: str, rows: Rows) -> PrecisionRecord:
    settings, schema = model.settings, model.schema
    return PrecisionRecord(
        n_documents,
        source,
        settings_checksum(settings, model.overlaps, settings.constraints),
        ScoredPredictions.of(schema.entity_types, rows["entities"]),
        ScoredPredictions.of(schema.relation_types, rows["relations"]),
    )


def read_review(path: Path, model: BaseModel, checksum: str) -> PrecisionRecord:
    """Read JSON lines as ``extract`` writes them, with a field ``correct`` in entities and relations.

    It is true or false. Predictions without it are not judged, and do not count. ``checksum`` is that of the model,
    whose scores the file must have.

    Raises:
        DataError: The file cannot be read, is of another model, or has no field ``correct``.
    """
    rows: Rows = {kind: [] for kind in KINDS}
    n_documents = 0
    for line, place in read_lines(path):
        if line.strip():
            record = read_strictly(parse_json_record, line, place)
            read_strictly(_read_reviewed, record, n_documents, rows, model.schema, checksum)
            n_documents += 1
    if all(row[3] == _NOT_JUDGED for kind in KINDS for row in rows[kind]):
        raise DataError(
            f"{str(path)!r} has no entity and no relation with a field 'correct'",
            "Add it to the output of extract: true or false",
        )
    return _make_record(model, n_documents, "review", rows)


def _read_reviewed(record: Value, document: int, rows: Rows, schema: Schema, checksum: str) -> None:
    made_by = record.get("model")
    if made_by is not None and made_by.string() != checksum:
        raise made_by.refuse("another model", "but the model that is calibrated has another checksum")
    first, entities = len(rows["entities"]), record.get_items("entities")
    for item in entities:
        rows["entities"].append((document, *_read_item(item, schema.entity_types), 0, 0))
    for item in record.get_items("relations"):
        ends = [first + item.field(name).index(len(entities), "entity") for name in ("head", "tail")]
        rows["relations"].append((document, *_read_item(item, schema.relation_types), *ends))


def _read_item(item: Value, labels: Sequence[str]) -> tuple[float, float, float]:
    """Return label, score and correctness."""
    label, correct = item.field("label"), item.get("correct")
    if label.string() not in labels:
        raise label.refuse("unknown label", "but the model does not have this label")
    if correct is not None and type(correct.raw) is not bool:
        raise correct.refuse("wrong type", "but true or false was expected")
    judged = _NOT_JUDGED if correct is None else _STRICT if correct.raw else _WRONG
    return labels.index(label.string()), item.field("score").score(), judged


@dataclass(frozen=True)
class Promise:
    """A promised level of precision, and what was measured on other documents.

    Attributes:
        name: "entities", "relations" or a label.
        level: The promised precision.
        min_score: Score from which predictions are kept; 0 keeps all.
        counts: Gold, predicted and correct items, strict and directed.
        false_positives: Share of the sentences without gold relations in which some are predicted; None without such
            sentences.
    """

    name: str
    level: float
    min_score: float
    counts: Counts
    false_positives: float | None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        names = ("name", "level", "min_score", "false_positives")
        return {name: getattr(self, name) for name in names} | self.counts.to_dict()


def measure_promises(
    record: PrecisionRecord,
    gold: Sequence[Document],
    predicted: Sequence[Document],
    schema: Schema,
    levels: Mapping[str, float] | None = None,
) -> list[Promise]:
    """Measure promised levels on annotated documents, strict and directed.

    Without ``levels``, :data:`LEVELS` are promised one by one, as far as they can be. Of those that keep all
    predictions, only the highest is measured.
    """
    found: list[Promise] = []
    asked = [{kind: level} for kind in KINDS for level in LEVELS] if levels is None else [levels]
    for one in asked:
        try:
            bounds = find_min_scores(record, schema, PrecisionChoice(levels=one))
        except ConfigError:  # the level cannot be promised
            continue
        filtered = [bounds.filter(document) for document in predicted]
        scores = score_documents(gold, filtered, schema=schema)
        share = count_false_positives(align_documents(gold, filtered))["relations"].share
        for kind, task in zip(KINDS, (scores.ner, scores.re_strict), strict=True):
            for name, labels in label_groups(kind, schema, one):
                counts = sum((task.per_label.get(label, Counts()) for label in labels), Counts())
                lowest = getattr(bounds, kind).get(labels[0], 0.0)
                if levels is None and found and (found[-1].name, found[-1].min_score, lowest) == (name, 0, 0):
                    found.pop()
                found.append(Promise(name, one[name], lowest, counts, share))
    return found
