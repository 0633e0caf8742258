"""Convert an analysis to tables and plots for the template."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from cascade_srn.evaluation.errors import FALSE_POSITIVES
from cascade_srn.evaluation.report.filters import ENTITY_LOOKS, RELATION_LOOKS
from cascade_srn.inference.constraints import KINDS

Record = Mapping[str, Any]
View = dict[str, Any]

TASKS = {
    "ner": ("Entities", "An entity is correct if its boundaries and its type are."),
    "re_boundaries": (
        "Relations, boundaries",
        "A relation is correct if the boundaries of both arguments and its type are.",
    ),
    "re_strict": (
        "Relations, strict",
        "A relation is correct if the boundaries and entity types of both arguments and its type are.",
    ),
}
POLICIES = {
    "directed": "(a, b) and (b, a) are two relations",
    "canonical": "(a, b) and (b, a) are one relation",
    "doubled": "each counts as two relations, (a, b) and (b, a)",
}
# Breakdowns without filter keys: this one needs the training data, which a report does not contain.
WITHOUT_KEYS = ("entity_text",)
TRIPLE_GROUPS = {"in_triple": "in a relation", "out_of_triple": "in no relation"}


def format_percent(value: float | None) -> str:
    """Format a fraction in percent with one decimal."""
    return "–" if value is None else f"{100 * value:.1f}"


def make_views(analysis: Record) -> View:
    """Return all tables and plots of an analysis by their names in the template."""
    return {
        "headlines": make_headlines(analysis),
        "false_positives": [
            (FALSE_POSITIVES[name][0], counts["n_sentences"], counts["n_predicted"], f"fp.{name}", counts["share"])
            for name, counts in analysis["false_positives"].items()
        ],
        "segmentation": make_segmentation_rows(analysis),
        "label_tables": make_label_tables(analysis),
        "triples": make_triple_table(analysis),
        "errors": make_error_tables(analysis),
        "violations": make_violation_table(analysis),
        "breakdowns": make_breakdowns(analysis),
        "calibrations": make_reliability_plots(analysis),
        "precision_plots": make_precision_plots(analysis),
        "confusions": make_confusions(analysis),
    }


def protocol_name(task: str, analysis: Record, average: str = "micro") -> str:
    """Return the full name of a figure: task, policy for symmetric relations, average and condition."""
    protocol = analysis["protocol"]
    policy = [] if task == "ner" else [protocol["symmetric"]]
    return ", ".join([task, *policy, average, protocol["condition"]])


def make_headlines(analysis: Record) -> list[View]:
    """Return the main scores of each task."""
    return [
        {"title": title, "definition": definition, "protocol": protocol_name(task, analysis)} | analysis["scores"][task]
        for task, (title, definition) in TASKS.items()
        if task in analysis["scores"]
    ]


def make_segmentation_rows(analysis: Record) -> list[tuple[Any, ...]]:
    """Return what the words and sentences of the model keep of gold. There are no rows if it got those of the data."""
    found = {} if analysis["segmentation"] is None else analysis["segmentation"]["found"]
    return [(name.replace("_", " "), one["n_gold"], one["n_found"], None, one["share"]) for name, one in found.items()]


def make_label_tables(analysis: Record) -> list[View]:
    """Return a table of the labels of each task."""
    found = []
    for task in (task for task in TASKS if task in analysis["scores"]):
        prefix, labels = ("e", "entity_types") if task == "ner" else ("r", "relation_types")
        # Sentences are marked by strict matching, so that re_boundaries has no filter keys.
        keys = {
            label: f"{prefix}{at}" for at, label in enumerate(analysis["schema"][labels]) if task != "re_boundaries"
        }
        rows = [
            make_score_row(label, counts, keys.get(label), f"of type {label}")
            for label, counts in analysis["scores"][task]["per_label"].items()
        ]
        found.append({"title": TASKS[task][0], "protocol": protocol_name(task, analysis, "per label"), "rows": rows})
    return found


def make_triple_table(analysis: Record) -> View | None:
    """Return the table of entities in and out of triples, or None with gold entities."""
    groups = analysis["in_triples"]
    if groups is None:
        return None
    return {
        "title": "Entities in and out of relations",
        "protocol": protocol_name("ner", analysis, "by group"),
        "rows": [make_score_row(name, groups[key], f"t.{key}", name) for key, name in TRIPLE_GROUPS.items()],
        "own": {name: groups["by_predicted_relations"][key] for key, name in TRIPLE_GROUPS.items()},
    }


def make_violation_table(analysis: Record) -> View | None:
    """Return violations of constraints by kind, or None without constraints and violations."""
    counts = analysis["constraints"]
    sides = counts["gold"], counts["predicted"]
    if not analysis["schema"].get("constraints") and not any(side["n_violations"] for side in sides):
        return None
    return {
        "applied": counts["applied"],
        "totals": [side["n_relations"] for side in sides],
        "rows": [(description, *(side[kind] for side in sides)) for kind, description in KINDS.items()],
    }


def make_breakdowns(analysis: Record) -> list[View]:
    """Return the tables of each breakdown by task, without empty groups."""
    found = []
    for breakdown in analysis["breakdowns"]:
        name, title, tables = breakdown["name"], breakdown["title"], []
        for task, groups in breakdown["tasks"].items():
            rows = [
                make_score_row(
                    group["group"],
                    group,
                    None if name in WITHOUT_KEYS else f"g.{name}.{task}.{position}",
                    f"{title.lower()}: {group['group']}",
                )
                for position, group in enumerate(groups)
                if group["n_gold"] or group["n_predicted"]
            ]
            tables.append(
                {"title": TASKS[task][0], "protocol": protocol_name(task, analysis, "by group"), "rows": rows}
            )
        found.append({"title": title, "tables": tables})
    return found


def make_error_tables(analysis: Record) -> list[View]:
    """Return the tables of relation errors and of entity errors, by kind and by the labels that have errors."""
    found = []
    for title, errors, looks, prefix, names in (
        ("Relation errors", analysis["relation_errors"], RELATION_LOOKS, "r", analysis["schema"]["relation_types"]),
        ("Entity errors", analysis["entity_errors"], ENTITY_LOOKS, "e", analysis["schema"]["entity_types"]),
    ):
        if errors is None:
            continue
        labels = {name: f"{prefix}{position}" for position, name in enumerate(names)}
        used = {name: key for name, key in labels.items() if any(kind["per_label"][name] for kind in errors["kinds"])}
        rows = [{"kind": kind, "counts": record} for kind, record in zip(looks, errors["kinds"], strict=True)]
        protocol = f"{errors['protocol']}, {analysis['protocol']['condition']}"
        found.append({**errors, "title": title, "protocol": protocol, "labels": used, "rows": rows})
    return found


def make_confusions(analysis: Record) -> list[View]:
    """Return the confusion tables. The shade of a cell is its share of the row."""
    found = []
    for title, key, prefix in (("Entity types", "entities", "ce"), ("Relation types", "relations", "cr")):
        confusion = analysis["confusion"][key]
        if confusion is None:
            continue
        rows = []
        last = len(confusion["rows"]) - 1
        for at, (gold, numbers) in enumerate(zip(confusion["gold"], confusion["rows"], strict=True)):
            total = sum(numbers)
            cells = [
                {
                    "n": n,
                    "key": f"{prefix}.{at}.{to}",
                    "description": _describe_confusion(gold if at < last else None, predicted if to < last else None),
                    "shade": "" if at == to == last else "right" if at == to else "wrong",
                    "share": f"{n / total if total else 0:.3f}",
                }
                for to, (predicted, n) in enumerate(zip(confusion["predicted"], numbers, strict=True))
            ]
            rows.append({"name": gold, "cells": cells})
        protocol = f"{confusion['protocol']}, {analysis['protocol']['condition']}"
        found.append({"title": title, "protocol": protocol, "columns": confusion["predicted"], "rows": rows})
    return found


def _describe_confusion(gold: str | None, predicted: str | None) -> str:
    if gold is None:
        return f"predicted {predicted}, nothing in gold"
    if predicted is None:
        return f"gold {gold}, nothing predicted"
    return f"gold {gold}, predicted {predicted}"


def make_score_row(name: str, counts: Record, key: str | None, of: str) -> View:
    """Return a row of precision, recall, F1 and counts. Counts link to ``key``, if given. ``of`` describes them."""
    return {"name": name, "counts": counts, "key": key, "of": of}


# Position and size of the plot area inside the SVG, and radii of the points.
LEFT, TOP, SIZE = 38, 10, 220
MAX_RADIUS, MIN_RADIUS = 13.0, 3.0


def make_reliability_plots(analysis: Record) -> list[View]:
    """Return the reliability curves of entities and relations that have scores."""
    found = []
    for title, key, prefix, task in (
        ("Entities", "entities", "be", "ner"),
        ("Relations", "relations", "br", "re_strict"),
    ):
        curve = analysis["calibration"][key]
        if curve is None or not curve["n"]:
            continue
        points = [_make_point(one, f"{prefix}.{at}", curve["n"]) for at, one in enumerate(curve["bins"]) if one["n"]]
        found.append(
            {
                **curve,
                "title": title,
                "protocol": protocol_name(task, analysis, "precision by score"),
                "points": points,
                "path": " ".join(f"{point['x']:.1f},{point['y']:.1f}" for point in points),
                **_AXES,
            }
        )
    return found


def make_precision_plots(analysis: Record) -> list[View]:
    """Return the curves of precision by recall, with the levels that can be promised. Older analyses have none."""
    found = []
    for curve in analysis.get("precision_curves", ()):
        task = curve["task"]
        policy = [] if task == "ner" else ["directed"]
        protocol = ", ".join([task, *policy, "precision by recall", analysis["protocol"]["condition"]])
        promised = [
            {
                "level": level,
                "score": f"{score:g}" if score else "all",
                "recall": recall,
                "x": _x(recall),
                "y": _y(level),
            }
            for level, score, recall in curve["promised"]
        ]
        path = " ".join(f"{_x(recall):.1f},{_y(precision):.1f}" for _, precision, recall in curve["measured"])
        steps = " ".join(f"{point['x']:.1f},{point['y']:.1f}" for point in promised)
        view = {"title": TASKS[task][0], "definition": TASKS[task][1], "protocol": protocol, "promised": promised}
        found.append({**view, "path": path, "promised_path": steps, **_AXES})
    return found


def _make_point(one: Record, key: str, n_all: int) -> View:
    return {
        **one,
        "x": _x(one["mean_score"]),
        "y": _y(one["precision"]),
        "radius": max(MIN_RADIUS, MAX_RADIUS * sqrt(one["n"] / n_all)),
        "scores": f"{one['low']:.1f}–{one['high']:.1f}",
        "key": key,
    }


def _x(value: float) -> float:
    return LEFT + SIZE * value


def _y(value: float) -> float:
    return TOP + SIZE * (1 - value)


_AXES: View = {
    "frame": {"left": LEFT, "top": TOP, "right": LEFT + SIZE, "bottom": TOP + SIZE, "size": SIZE},
    "ticks": [{"x": _x(tick / 4), "y": _y(tick / 4), "name": f"{25 * tick}"} for tick in range(5)],
}
