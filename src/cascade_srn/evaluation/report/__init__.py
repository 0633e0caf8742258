"""The analysis as one HTML file: figures, plots, and the sentences behind each number."""

from cascade_srn.evaluation.report.writing import REPORT_NAME, render_report, write_report

__all__ = ["REPORT_NAME", "render_report", "write_report"]
