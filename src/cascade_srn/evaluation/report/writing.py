"""The report as one HTML file, made of an analysis or of the JSON that one was saved as."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Only drawings use it by name; whoever imports the report learns here, before anything is computed, that it is missing.
import jinja2  # noqa: F401

from cascade_srn.data.formats.files import replacing
from cascade_srn.drawing import stylesheet
from cascade_srn.drawing.templating import as_markup, environment, read_asset
from cascade_srn.errors import DataError
from cascade_srn.evaluation.analysis import FORMAT_VERSION, Analysis
from cascade_srn.evaluation.report.facts import FactFinder
from cascade_srn.evaluation.report.figures import (
    POLICIES,
    breakdowns,
    confusions,
    error_tables,
    headlines,
    label_tables,
    triple_table,
)
from cascade_srn.evaluation.report.plots import calibration_plots
from cascade_srn.evaluation.report.sentences import sentence_view

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
