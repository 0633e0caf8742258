"""The calibration curve as coordinates of an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from cascade_srn.evaluation.report.figures import percent, protocol_name

# The square of the plot inside its picture, in the picture's units.
LEFT, TOP, SIZE = 38, 10, 220
LARGEST, SMALLEST = 13.0, 3.0


def calibration_plots(analysis: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A reliability curve of entities and one of relations, where there are scores to draw."""
    found = []
    for what, key, prefix, task in (
        ("Entities", "entities", "be", "ner"),
        ("Relations", "relations", "br", "re_strict"),
    ):
        calibration = analysis["calibration"][key]
        if calibration is None or not calibration["n"]:
            continue
        points = [_point(one, place, prefix, calibration) for place, one in enumerate(calibration["bins"]) if one["n"]]
        found.append(
            {
                "title": what,
                "protocol": protocol_name(task, analysis, "precision by score"),
                "points": points,
                "path": " ".join(f"{point['x']:.1f},{point['y']:.1f}" for point in points),
                "n": calibration["n"],
                "n_unscored": calibration["n_unscored"],
                "mean_score": percent(calibration["mean_score"]),
                "precision": percent(calibration["precision"]),
                "error": percent(calibration["expected_calibration_error"]),
                "frame": {"left": LEFT, "top": TOP, "right": LEFT + SIZE, "bottom": TOP + SIZE, "size": SIZE},
                "ticks": [{"x": _x(tick / 4), "y": _y(tick / 4), "name": f"{25 * tick}"} for tick in range(5)],
            }
        )
    return found


def _point(one: Mapping[str, Any], place: int, prefix: str, calibration: Mapping[str, Any]) -> dict[str, Any]:
    scores = f"{one['low']:.1f}–{one['high']:.1f}"
    return {
        "x": _x(one["mean_score"]),
        "y": _y(one["precision"]),
        "radius": max(SMALLEST, LARGEST * sqrt(one["n"] / calibration["n"])),
        "scores": scores,
        "mean_score": percent(one["mean_score"]),
        "precision": percent(one["precision"]),
        "n": {"n": one["n"], "token": f"{prefix}.{place}", "said": f"score {scores}"},
        "n_correct": one["n_correct"],
    }


def _x(value: float) -> float:
    return LEFT + SIZE * value


def _y(value: float) -> float:
    return TOP + SIZE * (1 - value)
