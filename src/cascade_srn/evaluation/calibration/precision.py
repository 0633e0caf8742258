"""Collect what promised precision needs: predictions on calibration documents, and whether they are correct.

Correctness comes from annotated documents, or from a file in which people marked predictions as right or wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.errors import count_false_positives
from cascade_srn.evaluation.items import align_documents
from cascade_srn.evaluation.scores import Counts
from cascade_srn.formats.base import read_strictly
from cascade_srn.formats.files import parse_json_record, read_lines
from cascade_srn.formats.json_records import Value
from cascade_srn.inference.options import KINDS, PrecisionChoice
from cascade_srn.inference.precision import (
    PrecisionRecord,
    RankedPredictions,
    ScoredPredictions,
    find_min_scores,
    label_groups,
    settings_checksum,
)
from cascade_srn.inference.predictor import BaseModel
from cascade_srn.network.examples import examples_of
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels that an evaluation reports, besides the highest possible one."""
CURVES = {
    "ner": ("entities", "strict"),
    "re_strict": ("relations", "strict"),
    "re_boundaries": ("relations", "boundaries"),
}
"""Kind and notion of correctness of the curves by task."""

_NO_CHOICE = PrecisionChoice()
# Scores of a curve.
_N_POINTS = 40
_WRONG, _BOUNDARIES, _STRICT, _NOT_JUDGED = 0, 1, 2, -1
Rows = dict[str, list[tuple[float, ...]]]


def measure_precision(model: BaseModel, documents: Sequence[Document]) -> PrecisionRecord:
    """Predict on annotated documents that the model was not trained on, and record what is correct."""
    examples = examples_of(documents, model.settings.encoder.context_words)
    sentences = iter(model.predictor().predict(examples))
    predicted = [replace(d, sentences=tuple(islice(sentences, len(d.sentences)))) for d in documents]
    settings = settings_checksum(model.settings, model.overlaps, model.settings.constraints)
    return record_predictions(documents, predicted, model.schema, settings)


def record_predictions(
    gold: Sequence[Document], predicted: Sequence[Document], schema: Schema, settings: str = ""
) -> PrecisionRecord:
    """Record which predictions on annotated documents are correct. Both have the same sentences.

    ``settings`` is the checksum of the settings that the predictions were made with.
    """
    rows: Rows = {kind: [] for kind in KINDS}
    for number, (document, found) in enumerate(zip(gold, predicted, strict=True)):
        for annotated, sentence in zip(document.sentences, found.sentences, strict=True):
            _add_rows(rows, number, annotated, sentence, schema)
    return _make_record(len(gold), "annotations", settings, schema, rows)


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


def _make_record(n_documents: int, source: str, settings: str, schema: Schema, rows: Rows) -> PrecisionRecord:
    entities = ScoredPredictions.of(schema.entity_types, rows["entities"])
    relations = ScoredPredictions.of(schema.relation_types, rows["relations"])
    return PrecisionRecord(n_documents, source, settings, entities, relations)


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
    settings = settings_checksum(model.settings, model.overlaps, model.settings.constraints)
    return _make_record(n_documents, "review", settings, model.schema, rows)


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
        notion: What is correct: "strict" or "boundaries".
        min_score: Score from which predictions are kept; 0 keeps all.
        counts: Gold, predicted and correct items, directed.
        false_positives: Share of the sentences without gold relations in which some are predicted; None without such
            sentences.
    """

    name: str
    level: float
    notion: str
    min_score: float
    counts: Counts
    false_positives: float | None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        names = ("name", "level", "notion", "min_score", "false_positives")
        return {name: getattr(self, name) for name in names} | self.counts.to_dict()


def measure_promises(
    record: PrecisionRecord,
    gold: Sequence[Document],
    predicted: Sequence[Document],
    schema: Schema,
    choice: PrecisionChoice = _NO_CHOICE,
) -> list[Promise]:
    """Measure promised levels on annotated documents, directed.

    If none are chosen, :data:`LEVELS` and the highest possible level of each kind are promised one by one, strict, as
    far as they can be. Of those that keep all predictions, only the highest is measured.
    """
    found: list[Promise] = []
    measured = record_predictions(gold, predicted, schema)
    for one in [choice] if choice.levels else _default_choices(record):
        try:
            bounds = find_min_scores(record, schema, one)
        except ConfigError:  # the level cannot be promised
            continue
        share = count_false_positives(align_documents(gold, [bounds.filter(d) for d in predicted]))["relations"].share
        for kind in KINDS:
            for name, labels in label_groups(kind, schema, one.levels):
                lowest = getattr(bounds, kind).get(labels[0], 0.0)
                kept = RankedPredictions.of(measured, kind, labels, bounds, one.notion)
                n_gold = _count_gold(gold, kind, labels)
                if not choice.levels and found and (found[-1].name, found[-1].min_score, lowest) == (name, 0, 0):
                    found.pop()
                counts = Counts(n_gold, *kept.count_from(lowest))
                found.append(Promise(name, one.levels[name], one.notion, lowest, counts, share))
    return found


def _default_choices(record: PrecisionRecord) -> Iterator[PrecisionChoice]:
    for kind in KINDS:
        highest = RankedPredictions.of(record, kind, getattr(record, kind).labels).highest_level()
        for level in () if highest is None else (*(level for level in LEVELS if level < highest), highest):
            yield PrecisionChoice(levels={kind: level})


def _count_gold(gold: Sequence[Document], kind: str, labels: Collection[str]) -> int:
    sentences = [sentence for document in gold for sentence in document.sentences]
    items: list[set[Any]] = [set(s.entities if kind == "entities" else s.triples) for s in sentences]
    return sum(item.label in labels for one in items for item in one)


@dataclass(frozen=True)
class PrecisionCurve:
    """Precision and recall from each score on, and the levels of precision that can be promised.

    Attributes:
        task: A key of :data:`CURVES`.
        notion: What is correct: "strict" or "boundaries".
        measured: Scores from which predictions are kept, with precision and recall, the highest first.
        promised: Levels, each with the score from which it is promised and the recall from there, the highest first.
            Each has more recall than those before.
    """

    task: str
    notion: str
    measured: list[tuple[float, float, float]]
    promised: list[tuple[float, float, float]]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return asdict(self)


def measure_curves(
    record: PrecisionRecord, measured: PrecisionRecord, gold: Sequence[Document]
) -> list[PrecisionCurve]:
    """Return the curves of tasks with gold items and predictions.

    Args:
        record: Statistics that levels are promised from.
        measured: Predictions on the gold documents.
        gold: Annotated documents.
    """
    curves = []
    for task, (kind, notion) in CURVES.items():
        labels = getattr(record, kind).labels
        tested, found = (RankedPredictions.of(one, kind, labels, notion=notion) for one in (record, measured))
        if (n_gold := _count_gold(gold, kind, labels)) and len(found.score):
            curves.append(PrecisionCurve(task, notion, _measure(found, n_gold), _promise(tested, found, n_gold)))
    return curves


def _measure(found: RankedPredictions, n_gold: int) -> list[tuple[float, float, float]]:
    scores = [float(score) for score in found.score[found.ranks(_N_POINTS) - 1]]
    counts = [Counts(n_gold, *found.count_from(score)) for score in scores]
    return [(score, one.precision, one.recall) for score, one in zip(scores, counts, strict=True)]


def _promise(tested: RankedPredictions, found: RankedPredictions, n_gold: int) -> list[tuple[float, float, float]]:
    promised: list[tuple[float, float, float]] = []
    for level in (at / 100 for at in range(99, 0, -1)):
        score = tested.find_min_score(level)
        if score is None:
            continue
        recall = Counts(n_gold, *found.count_from(score)).recall
        if not promised or recall > promised[-1][2]:
            promised.append((level, score, recall))
        if not score:  # lower levels keep all predictions, too
            break
    return promised
