"""The sentences behind the numbers: gold and prediction drawn, errors marked by kind and told in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cascade_srn.drawing import Mark, draw_sentence
from cascade_srn.drawing.templating import as_markup
from cascade_srn.drawing.view import said
from cascade_srn.evaluation.report.facts import FactFinder, pair_of
from cascade_srn.evaluation.report.kinds import CORRECT, Kinds
from cascade_srn.types import Sentence, Span, Triple

Record = Mapping[str, Any]
SIDES = {"gold": "Gold", "predicted": "Predicted"}


def sentence_view(record: Record, number: int, finder: FactFinder) -> dict[str, Any]:
    """A sentence for the template; ``number`` is its place in the report, from 1."""
    pair = pair_of(record)
    drawings, errors = [], []
    for side, name in SIDES.items():
        sentence = pair.gold if side == "gold" else pair.predicted
        marks = _marks(record[side], sentence, finder.kinds)
        html = draw_sentence(sentence, schema=finder.schema, marks=marks, name=f"{name}, sentence {number}")
        drawings.append({"name": name, "html": as_markup(html)})
        errors += _errors(record[side], sentence, finder.kinds, side)
    return {
        "number": number,
        "title": f"{record['document_id'] or 'document ' + str(record['document'] + 1)}",
        "place": record["sentence"] + 1,
        "n_errors": record["n_errors"],
        "facts": " ".join(finder.facts(record)),
        "text": " ".join(record["words"]),
        "drawings": drawings,
        "errors": errors,
    }


def _judged(side: Record, sentence: Sentence) -> list[tuple[Span | Triple, Record]]:
    """Each entity and relation of one side with its record."""
    items: list[Span | Triple] = [*sentence.entities, *sentence.triples]
    return list(zip(items, [*side["entities"], *side["relations"]], strict=True))


def _marks(side: Record, sentence: Sentence, kinds: Kinds) -> dict[Span | Triple, Mark]:
    return {
        item: CORRECT if record["correct"] else kinds.find(record["kind"]).mark
        for item, record in _judged(side, sentence)
    }


def _errors(side: Record, sentence: Sentence, kinds: Kinds, name: str) -> list[dict[str, Any]]:
    """Each error of one side: its kind, and what it is in words."""
    return [
        {
            "kind": kinds.find(record["kind"]),
            "told": said(item, sentence, CORRECT) + _instead(record, name),
        }
        for item, record in _judged(side, sentence)
        if not record["correct"]
    ]


def _instead(record: Record, side: str) -> str:
    other = "predicted" if side == "gold" else "in gold"
    notes = []
    if record.get("instead"):
        notes.append(f"{other} instead: {', '.join(record['instead'])}")
    if record.get("reversed"):
        notes.append(f"{other} the other way round")
    return f" ({'; '.join(notes)})" if notes else ""
