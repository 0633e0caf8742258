"""Write the report as one HTML file, from an analysis or its JSON."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2  # noqa: F401 (fails here, before any work, if it is missing)

from cascade_srn.drawing import Mark, draw_sentence, stylesheet
from cascade_srn.drawing.render import as_markup, environment, read_asset
from cascade_srn.drawing.view import describe_item
from cascade_srn.errors import DataError
from cascade_srn.evaluation.analysis import FORMAT_VERSION, Analysis
from cascade_srn.evaluation.report.figures import POLICIES, format_percent, make_views
from cascade_srn.evaluation.report.filters import (
    CORRECT,
    ENTITY_LOOKS,
    LOOKS,
    RELATION_LOOKS,
    FilterKeys,
    read_pair,
)
from cascade_srn.formats.files import replacing
from cascade_srn.types import Sentence, Span, Triple

Record = Mapping[str, Any]
SIDES = {"gold": "Gold", "predicted": "Predicted"}


def make_sentence_view(record: Record, number: int, keys: FilterKeys) -> dict[str, Any]:
    """Convert a sentence for the template. ``number`` counts the sentences of the report from 1."""
    pair = read_pair(record)
    drawings, errors = [], []
    for side, name in SIDES.items():
        sentence = pair.gold if side == "gold" else pair.predicted
        marks = _marks(record[side], sentence)
        html = draw_sentence(sentence, schema=keys.schema, marks=marks, name=f"{name}, sentence {number}")
        drawings.append({"name": name, "html": as_markup(html)})
        errors += _errors(record[side], sentence, side)
    return {
        "number": number,
        "title": f"{record['document_id'] or 'document ' + str(record['document'] + 1)}",
        "position": record["sentence"] + 1,
        "n_errors": record["n_errors"],
        "filter_keys": " ".join(keys.find(record)),
        "text": " ".join(record["words"]),
        "drawings": drawings,
        "errors": errors,
    }


def _pair_with_records(side: Record, sentence: Sentence) -> list[tuple[Span | Triple, Record]]:
    items: list[Span | Triple] = [*sentence.entities, *sentence.triples]
    return list(zip(items, [*side["entities"], *side["relations"]], strict=True))


def _marks(side: Record, sentence: Sentence) -> dict[Span | Triple, Mark]:
    return {
        item: CORRECT if record["correct"] else LOOKS[record["kind"]].mark
        for item, record in _pair_with_records(side, sentence)
    }


def _errors(side: Record, sentence: Sentence, name: str) -> list[dict[str, Any]]:
    """Return the kind and description of each error of one side."""
    return [
        {
            "kind": LOOKS[record["kind"]],
            "description": describe_item(item, sentence, CORRECT) + _describe_other_side(record, name),
        }
        for item, record in _pair_with_records(side, sentence)
        if not record["correct"]
    ]


def _describe_other_side(record: Record, side: str) -> str:
    other = "predicted" if side == "gold" else "in gold"
    notes = []
    if record.get("instead"):
        notes.append(f"{other} instead: {', '.join(record['instead'])}")
    if record.get("reversed"):
        notes.append(f"{other} in the other direction")
    return f" ({'; '.join(notes)})" if notes else ""


HERE = "cascade_srn.evaluation.report"
REPORT_NAME = "report.html"


def write_report(analysis: Analysis | Mapping[str, Any], folder: str | Path, *, title: str = "Evaluation") -> Path:
    """Write ``report.html``, which needs no network and blocks network access by its content security policy.

    The analysis may also be the content of ``analysis.json``.
    """
    page = render_report(analysis, title=title)
    target = Path(folder) / REPORT_NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as handle:
        handle.write(page.encode())
    return target


def render_report(analysis: Analysis | Mapping[str, Any], *, title: str = "Evaluation") -> str:
    """Render the report as a string. See :func:`write_report`."""
    record = analysis.to_dict() if isinstance(analysis, Analysis) else analysis
    _require_analysis(record)
    keys = FilterKeys.from_analysis(record)
    script = read_asset("report.js", HERE)
    templates = environment(HERE)
    templates.filters["percent"] = format_percent
    return templates.get_template("report.html.jinja").render(
        title=title,
        analysis=record,
        policy=POLICIES[record["protocol"]["symmetric"]],
        style=as_markup(stylesheet() + read_asset("report.css", HERE)),
        script=as_markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        kinds={"entities": () if keys.given_entities else ENTITY_LOOKS, "relations": RELATION_LOOKS},
        sentences=[make_sentence_view(one, number, keys) for number, one in enumerate(record["sentences"], start=1)],
        **make_views(record),
    )


def _require_analysis(record: Mapping[str, Any]) -> None:
    version = record.get("format_version") if isinstance(record, Mapping) else None
    if version != FORMAT_VERSION:
        raise DataError(
            f"the analysis has format version {version!r}, but the report needs version {FORMAT_VERSION}",
            "Pass an analysis or the content of its analysis.json, or evaluate again",
        )
