"""Loss and scores over the steps, as a picture; matplotlib is imported here, and only when there is one to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cascade_srn.data.atomic import replacing_path

LOSSES = {"loss": "total", "loss_entity": "entity", "loss_subject": "subject", "loss_object": "object"}
SCORES = {"ner": "NER", "re_boundaries": "RE boundaries", "re_strict": "RE strict"}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw_curves(log: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw what a run logged; the file appears or is replaced as a whole."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for key, label in LOSSES.items():
        points = [(line["step"], line[key]) for line in log if key in line]
        if points:
            left.plot(*zip(*points, strict=True), label=label, linewidth=1.8 if key == "loss" else 1.0)
    left.set_yscale("log")
    left.set_ylabel("training loss of a sentence")
    scored = [line for line in log if "dev" in line]
    for key, label in SCORES.items():
        points = [(line["step"], 100 * line["dev"][key]) for line in scored]
        if points:
            right.plot(*zip(*points, strict=True), label=label, marker="o", markersize=3, linewidth=1.5)
    best = next((line["step"] for line in reversed(scored) if line["best"]), None)
    if best is not None:
        right.axvline(best, color="grey", linestyle=":", linewidth=1.0, label="best")
    right.set_ylim(bottom=0)
    right.set_ylabel(f"F1 on dev, {scored[0]['dev']['symmetric']}" if scored else "F1 on dev (none given)")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    with replacing_path(path) as beside:
        figure.savefig(beside, dpi=130, format="png")
