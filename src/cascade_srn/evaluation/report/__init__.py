"""HTML report of an analysis: figures, plots and annotated sentences."""

from cascade_srn.evaluation.report.writing import REPORT_NAME, render_report, write_report

__all__ = ["REPORT_NAME", "render_report", "write_report"]
