"""What commands say of the data that they read."""

from __future__ import annotations

import typer

from cascade_srn.data.reports import OUTWARD, ReadReport, may_be_missed


def tell_unread(report: ReadReport) -> None:
    """Say what there is in the data that its format does not read, a misspelt field for one, or reads otherwise."""
    for kind, count in report.noted.items():
        if may_be_missed(kind) or kind == OUTWARD:
            typer.echo(f"Note: {count} x {kind} (first: {report.examples[kind][0]})", err=True)
