"""Convert an analysis to tables and plots for the template."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from cascade_srn.evaluation.false_positives import FALSE_POSITIVES
from cascade_srn.evaluation.report.filters import Kind, Kinds
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
# Prefix of the labels in filter keys, and their name in the schema.
LABELS_OF = {
    "ner": ("e", "entity_types"),
    "re_strict": ("r", "relation_types"),
    "re_boundaries": ("r", "relation_types"),
}
POLICIES = {
    "directed": "(a, b) and (b, a) are two relations",
    "canonical": "(a, b) and (b, a) are one relation",
    "doubled": "each counts as two relations, (a, b) and (b, a)",
}
# Breakdowns without filter keys: this one needs the training data, which a report does not contain.
WITHOUT_KEYS = ("entity_text",)


def format_percent(value: float | None) -> str:
    """Format a fraction in percent with one decimal."""
    return "–" if value is None else f"{100 * value:.1f}"


def protocol_name(task: str, analysis: Record, average: str = "micro") -> str:
    """Return the full name of a figure: task, policy for symmetric relations, average and condition."""
    protocol = analysis["protocol"]
    policy = [] if task == "ner" else [protocol["symmetric"]]
    return ", ".join([task, *policy, average, protocol["condition"]])


def make_headlines(analysis: Record) -> list[View]:
    """Return the main scores of each task."""
    found = []
    for task, (title, definition) in TASKS.items():
        if task not in analysis["scores"]:
            continue
        scores = analysis["scores"][task]
        found.append(
            {
                "title": title,
                "definition": definition,
                "protocol": protocol_name(task, analysis),
                "micro": _figures(scores["micro"]),
                "macro": _figures(scores["macro"]) | {"n_labels": scores["macro"]["n_labels"]},
            }
        )
    return found


def make_false_positives(analysis: Record) -> list[View]:
    """Return the shares of sentences in which gold has nothing to find. Analyses of older versions have none."""
    rows = []
    for name, counts in analysis.get("false_positives", {}).items():
        description = FALSE_POSITIVES[name][0]
        linked = _linked_number(counts["n_predicted"], f"fp.{name}", f"predicted {description}")
        rows.append({"name": description, "n": linked, "n_of": counts["n_sentences"]} | _share(counts["share"]))
    return rows


def make_segmentation(analysis: Record) -> View | None:
    """Return what the words and sentences of the model keep of gold, or None if it got those of the data."""
    record = analysis.get("segmentation")
    if record is None:
        return None
    rows = [
        {"name": name.replace("_", " "), "n": _linked_number(one["n_found"], None, ""), "n_of": one["n_gold"]}
        | _share(one["share"])
        for name, one in record["found"].items()
    ]
    return {"n_sentences": record["n_sentences"], "n_gold_sentences": record["n_gold_sentences"], "rows": rows}


def _share(share: float | None) -> View:
    return {"share": format_percent(share), "width": f"{100 * (share or 0):.2f}%"}


def make_label_tables(analysis: Record) -> list[View]:
    """Return a table of the labels of each task."""
    found = []
    for task in TASKS:
        if task not in analysis["scores"]:
            continue
        prefix, labels = LABELS_OF[task]
        # Sentences are marked by strict matching, so that re_boundaries has no filter keys.
        linked = task != "re_boundaries"
        rows = [
            make_score_row(
                label,
                counts,
                f"{prefix}{analysis['schema'][labels].index(label)}" if linked else None,
                of=f"of type {label}",
            )
            for label, counts in analysis["scores"][task]["per_label"].items()
        ]
        found.append({"title": TASKS[task][0], "protocol": protocol_name(task, analysis, "per label"), "rows": rows})
    return found


def make_triple_table(analysis: Record) -> View | None:
    """Return the table of entities in and out of triples, or None with gold entities."""
    groups = analysis["in_triples"]
    if groups is None:
        return None
    names = {"in_triple": "in a relation", "out_of_triple": "in no relation"}
    own = groups["by_predicted_relations"]
    return {
        "title": "Entities in and out of relations",
        "protocol": protocol_name("ner", analysis, "by group"),
        "rows": [make_score_row(name, groups[key], f"t.{key}", of=name) for key, name in names.items()],
        "own": [
            {"name": name, "precision": format_percent(own[key]["precision"]), "n": own[key]["n_predicted"]}
            for key, name in names.items()
        ],
    }


def make_violation_table(analysis: Record) -> View | None:
    """Return violations of constraints by kind, or None without constraints and violations."""
    counts = analysis.get("constraints")  # missing in old analyses
    if counts is None:
        return None
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
        tables = []
        for task, groups in breakdown["tasks"].items():
            linked = breakdown["name"] not in WITHOUT_KEYS
            rows = [
                make_score_row(
                    group["group"],
                    group,
                    f"g.{breakdown['name']}.{task}.{position}" if linked else None,
                    of=f"{breakdown['title'].lower()}: {group['group']}",
                )
                for position, group in enumerate(groups)
            ]
            shown = [row for row in rows if row["n_gold"]["n"] or row["n_predicted"]["n"]]
            tables.append(
                {"title": TASKS[task][0], "protocol": protocol_name(task, analysis, "by group"), "rows": shown}
            )
        found.append({"title": breakdown["title"], "tables": tables})
    return found


def make_error_tables(analysis: Record, kinds: Kinds) -> list[View]:
    """Return the tables of relation errors and of entity errors, by kind and label."""
    found = []
    for what, key, prefix, labels in (
        ("Relation errors", "relation_errors", "r", analysis["schema"]["relation_types"]),
        ("Entity errors", "entity_errors", "e", analysis["schema"]["entity_types"]),
    ):
        errors = analysis[key]
        if errors is None:
            continue
        of_kind = kinds.relations if prefix == "r" else kinds.entities
        rows = [_error_row(kind, record, labels, prefix) for kind, record in zip(of_kind, errors["kinds"], strict=True)]
        used = [position for position in range(len(labels)) if any(row["cells"][position]["n"] for row in rows)]
        for row in rows:
            row["cells"] = [row["cells"][position] for position in used]
        found.append(
            {
                "title": what,
                "protocol": f"{errors['protocol']}, {analysis['protocol']['condition']}",
                "n_errors": errors["n_errors"],
                "n_wrong": errors["n_wrong"],
                "n_missed": errors["n_missed"],
                "labels": [labels[position] for position in used],
                "rows": rows,
            }
        )
    return found


def _error_row(kind: Kind, record: Record, labels: Sequence[str], prefix: str) -> View:
    cells = [
        _linked_number(record["per_label"].get(label, 0), f"{kind.key}.{prefix}{position}", f"{kind.name}, {label}")
        for position, label in enumerate(labels)
    ]
    return {
        "kind": kind,
        "n": _linked_number(record["n"], kind.key, f"{kind.kind}: {kind.name}"),
        "share": format_percent(record["share"]),
        "width": f"{100 * record['share']:.2f}%",
        "cells": cells,
    }


def make_confusions(analysis: Record) -> list[View]:
    """Return the confusion tables. The shade of a cell is its share of the row."""
    found = []
    for what, key, prefix in (("Entity types", "entities", "ce"), ("Relation types", "relations", "cr")):
        confusion = analysis["confusion"][key]
        if confusion is None:
            continue
        rows = []
        last = len(confusion["rows"]) - 1
        for at, (gold, numbers) in enumerate(zip(confusion["gold"], confusion["rows"], strict=True)):
            total = sum(numbers)
            cells = []
            for to, (predicted, n) in enumerate(zip(confusion["predicted"], numbers, strict=True)):
                description = _describe_confusion(gold if at < last else None, predicted if to < last else None)
                shade = "" if at == to == last else "right" if at == to else "wrong"
                cells.append(
                    _linked_number(n, f"{prefix}.{at}.{to}", description)
                    | {"shade": shade, "share": f"{n / total if total else 0:.3f}"}
                )
            rows.append({"name": gold, "cells": cells})
        protocol = f"{confusion['protocol']}, {analysis['protocol']['condition']}"
        found.append({"title": what, "protocol": protocol, "columns": confusion["predicted"], "rows": rows})
    return found


def _describe_confusion(gold: str | None, predicted: str | None) -> str:
    if gold is None:
        return f"predicted {predicted}, nothing in gold"
    if predicted is None:
        return f"gold {gold}, nothing predicted"
    return f"gold {gold}, predicted {predicted}"


def make_score_row(name: str, counts: Record, key: str | None, *, of: str) -> View:
    """Return a row of precision, recall, F1 and counts. Counts link to ``key``, if given."""
    numbers = {}
    for side in ("gold", "predicted", "correct"):
        link = None if key is None else f"{key}.{side}"
        numbers[f"n_{side}"] = _linked_number(counts[f"n_{side}"], link, f"{side}, {of}")
    return {"name": name, "width": f"{100 * counts['f1']:.2f}%", **_figures(counts), **numbers}


def _figures(counts: Record) -> View:
    return {name: format_percent(counts[name]) for name in ("precision", "recall", "f1")} | {
        f"n_{name}": counts.get(f"n_{name}") for name in ("gold", "predicted", "correct")
    }


def _linked_number(n: int, key: str | None, description: str) -> View:
    """Return a number with the filter key of its sentences, or None if it is 0."""
    return {"n": n, "key": key if n else None, "description": description}


# Position and size of the plot area inside the SVG, and radii of the points.
LEFT, TOP, SIZE = 38, 10, 220
MAX_RADIUS, MIN_RADIUS = 13.0, 3.0


def make_reliability_plots(analysis: Record) -> list[View]:
    """Return the reliability curves of entities and relations that have scores."""
    found = []
    for what, key, prefix, task in (
        ("Entities", "entities", "be", "ner"),
        ("Relations", "relations", "br", "re_strict"),
    ):
        curve = analysis["calibration"][key]
        if curve is None or not curve["n"]:
            continue
        points = [_make_point(one, f"{prefix}.{at}", curve["n"]) for at, one in enumerate(curve["bins"]) if one["n"]]
        found.append(
            {
                "title": what,
                "protocol": protocol_name(task, analysis, "precision by score"),
                "points": points,
                "path": " ".join(f"{point['x']:.1f},{point['y']:.1f}" for point in points),
                "n": curve["n"],
                "n_unscored": curve["n_unscored"],
                "mean_score": format_percent(curve["mean_score"]),
                "precision": format_percent(curve["precision"]),
                "error": format_percent(curve["expected_calibration_error"]),
                "frame": {"left": LEFT, "top": TOP, "right": LEFT + SIZE, "bottom": TOP + SIZE, "size": SIZE},
                "ticks": [{"x": _x(tick / 4), "y": _y(tick / 4), "name": f"{25 * tick}"} for tick in range(5)],
            }
        )
    return found


def _make_point(one: Record, key: str, n_all: int) -> View:
    scores = f"{one['low']:.1f}–{one['high']:.1f}"
    return {
        "x": _x(one["mean_score"]),
        "y": _y(one["precision"]),
        "radius": max(MIN_RADIUS, MAX_RADIUS * sqrt(one["n"] / n_all)),
        "scores": scores,
        "mean_score": format_percent(one["mean_score"]),
        "precision": format_percent(one["precision"]),
        "n": _linked_number(one["n"], key, f"score {scores}"),
        "n_correct": one["n_correct"],
    }


def _x(value: float) -> float:
    return LEFT + SIZE * value


def _y(value: float) -> float:
    return TOP + SIZE * (1 - value)
