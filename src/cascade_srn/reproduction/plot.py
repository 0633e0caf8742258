"""A filled table as a picture; matplotlib is imported here, and only when there is one to draw."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from cascade_srn.data.atomic import replacing_path
from cascade_srn.reproduction.results import TableResult
from cascade_srn.reproduction.tables import COLUMNS, SCORE, SPEED

OURS, PAPER = "#2a6fb0", "#d1632b"
_ACROSS = 3


def draw_table(result: TableResult, path: Path) -> None:
    """A panel for each figure: our mean of each row as a point with its deviation, the paper's as another point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = result.table.panels
    down = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / down)
    rows = [row for row in result.table.rows if row.variant is not None]
    height = down * (1.1 + 0.3 * len(rows))
    figure = Figure(figsize=(2.2 + 3.4 * across, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    for one, column in zip(axes, panels, strict=False):
        _panel(one, result, column)
    for one in axes[len(panels) :]:
        one.set_visible(False)
    handles = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(f"{result.table.title}: {result.about['encoder']} on {result.about['data']}", fontsize=10)
    with replacing_path(path) as beside:
        figure.savefig(beside, dpi=130, format="png")


def _panel(axes: Any, result: TableResult, column: str) -> None:
    kind = COLUMNS[column].kind
    rows = [row for row in result.table.rows if row.variant is not None]
    scale = 100 if kind == SCORE else 1
    theirs = [(row.paper[column], at) for at, row in enumerate(rows) if column in row.paper]
    if theirs:
        axes.plot(*zip(*theirs, strict=True), "D", color=PAPER, markersize=5, label="the paper")
    for at, row in enumerate(rows):
        found = result.measured(row, column)
        if found is not None:
            deviation = None if found.sd is None else scale * found.sd
            axes.errorbar(scale * found.mean, at, xerr=deviation, fmt="o", color=OURS, capsize=3, label="ours")
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    # The first row on top, as in the table. Panels share the axis: one that is upside down already stays so.
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if kind == SPEED:
        axes.set_xscale("log")
    axes.set_title(COLUMNS[column].heading, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
