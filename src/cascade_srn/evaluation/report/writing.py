"""The report as one HTML file, made of an analysis or of the JSON that one was saved as."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2  # noqa: F401

from cascade_srn.data.formats.files import replacing
from cascade_srn.drawing import Mark, draw_sentence, stylesheet
from cascade_srn.drawing.render import as_markup, environment, read_asset
from cascade_srn.drawing.view import said
from cascade_srn.errors import DataError
from cascade_srn.evaluation.analysis import FORMAT_VERSION, Analysis
from cascade_srn.evaluation.report.facts import CORRECT, FactFinder, Kinds, pair_of
from cascade_srn.evaluation.report.figures import (
    POLICIES,
    breakdowns,
    calibration_plots,
    confusions,
    error_tables,
    headlines,
    label_tables,
    triple_table,
)
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


# Only drawings use it by name; whoever imports the report learns here, before anything is computed, that it is missing.


HERE = "cascade_srn.evaluation.report"
REPORT_NAME = "report.html"


def write_report(analysis: Analysis | Mapping[str, Any], folder: str | Path, *, title: str = "Evaluation") -> Path:
    """Write ``report.html`` into a folder, which is made if there is none, and return its path.

    Give the analysis, or what ``analysis.json`` holds. The file needs no network and forbids itself to use one.
    """
    page = render_report(analysis, title=title)
    target = Path(folder) / REPORT_NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as handle:
        handle.write(page.encode())
    return target


def render_report(analysis: Analysis | Mapping[str, Any], *, title: str = "Evaluation") -> str:
    """The report as a string."""
    record = analysis.to_dict() if isinstance(analysis, Analysis) else analysis
    _require_analysis(record)
    finder = FactFinder.of(record)
    script = read_asset("report.js", HERE)
    symmetric = record["protocol"]["symmetric"]
    return (
        environment(HERE)
        .get_template("report.html.jinja")
        .render(
            title=title,
            analysis=record,
            policy=POLICIES[symmetric],
            style=as_markup(stylesheet() + read_asset("report.css", HERE)),
            script=as_markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            headlines=headlines(record),
            label_tables=label_tables(record),
            triples=triple_table(record),
            errors=error_tables(record, finder.kinds),
            breakdowns=breakdowns(record),
            calibrations=calibration_plots(record),
            confusions=confusions(record),
            kinds=finder.kinds,
            sentences=[sentence_view(one, number, finder) for number, one in enumerate(record["sentences"], start=1)],
        )
    )


def _require_analysis(record: Mapping[str, Any]) -> None:
    version = record.get("format_version") if isinstance(record, Mapping) else None
    if version != FORMAT_VERSION:
        raise DataError(
            f"the analysis has the format version {version!r}, this report is made of version {FORMAT_VERSION}; "
            "give an analysis or what its analysis.json holds, or evaluate again"
        )
