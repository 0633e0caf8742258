"""The calibration curve as coordinates of an SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from cascade_srn.evaluation.report.facts import Kind, Kinds

Record = Mapping[str, Any]
View = dict[str, Any]

TASKS = {
    "ner": ("Entities", "an entity is right when its first word, its last word and its type are"),
    "re_boundaries": (
        "Relations, boundaries",
        "a relation is right when the words of both arguments and its type are",
    ),
    "re_strict": (
        "Relations, strict",
        "a relation is right when the words and the entity types of both arguments and its type are",
    ),
}
# What the labels of a task are in facts, and in the schema.
LABELS_OF = {
    "ner": ("e", "entity_types"),
    "re_strict": ("r", "relation_types"),
    "re_boundaries": ("r", "relation_types"),
}
POLICIES = {
    "directed": "(a, b) and (b, a) are two relations",
    "canonical": "(a, b) and (b, a) are one relation",
    "doubled": "each counts as (a, b) and as (b, a), two relations",
}
# A breakdown that can only be counted with the training data at hand, so that no facts lead to its sentences.
WITHOUT_FACTS = ("entity_text",)


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal."""
    return "–" if value is None else f"{100 * value:.1f}"


def protocol_name(task: str, analysis: Record, average: str = "micro") -> str:
    """The full name of a figure: task, policy for symmetric relations, average, condition."""
    protocol = analysis["protocol"]
    policy = [] if task == "ner" else [protocol["symmetric"]]
    return ", ".join([task, *policy, average, protocol["condition"]])


def headlines(analysis: Record) -> list[View]:
    """The scores of each task."""
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


def label_tables(analysis: Record) -> list[View]:
    """A table for each task, of entity types or of relation types."""
    found = []
    for task in TASKS:
        if task not in analysis["scores"]:
            continue
        prefix, labels = LABELS_OF[task]
        # What is correct in a sentence is judged strictly, so that no facts lead to what is correct by boundaries.
        linked = task != "re_boundaries"
        rows = [
            score_row(
                label,
                counts,
                f"{prefix}{analysis['schema'][labels].index(label)}" if linked else None,
                of=f"of type {label}",
            )
            for label, counts in analysis["scores"][task]["per_label"].items()
        ]
        found.append({"title": TASKS[task][0], "protocol": protocol_name(task, analysis, "per label"), "rows": rows})
    return found


def triple_table(analysis: Record) -> View | None:
    """Entities in and out of triples."""
    groups = analysis["in_triples"]
    if groups is None:
        return None
    names = {"in_triple": "in a relation", "out_of_triple": "in no relation"}
    own = groups["by_predicted_relations"]
    return {
        "title": "Entities in and out of relations",
        "protocol": protocol_name("ner", analysis, "by group"),
        "rows": [score_row(name, groups[key], f"t.{key}", of=name) for key, name in names.items()],
        "own": [
            {"name": name, "precision": percent(own[key]["precision"]), "n": own[key]["n_predicted"]}
            for key, name in names.items()
        ],
    }


def breakdowns(analysis: Record) -> list[View]:
    """Scores by sentence length, distance and so on: a table for each task of each."""
    found = []
    for breakdown in analysis["breakdowns"]:
        tables = []
        for task, groups in breakdown["tasks"].items():
            linked = breakdown["name"] not in WITHOUT_FACTS
            rows = [
                score_row(
                    group["group"],
                    group,
                    f"g.{breakdown['name']}.{task}.{place}" if linked else None,
                    of=f"{breakdown['title'].lower()}: {group['group']}",
                )
                for place, group in enumerate(groups)
            ]
            shown = [row for row in rows if row["n_gold"]["n"] or row["n_predicted"]["n"]]
            tables.append(
                {"title": TASKS[task][0], "protocol": protocol_name(task, analysis, "by group"), "rows": shown}
            )
        found.append({"title": breakdown["title"], "tables": tables})
    return found


def error_tables(analysis: Record, kinds: Kinds) -> list[View]:
    """The kinds of relation errors, then those of entity errors, with their numbers by label."""
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
        used = [place for place in range(len(labels)) if any(row["cells"][place]["n"] for row in rows)]
        for row in rows:
            row["cells"] = [row["cells"][place] for place in used]
        found.append(
            {
                "title": what,
                "protocol": f"{errors['protocol']}, {analysis['protocol']['condition']}",
                "n_errors": errors["n_errors"],
                "n_wrong": errors["n_wrong"],
                "n_missed": errors["n_missed"],
                "labels": [labels[place] for place in used],
                "rows": rows,
            }
        )
    return found


def _error_row(kind: Kind, record: Record, labels: Sequence[str], prefix: str) -> View:
    cells = [
        _number(record["per_label"].get(label, 0), f"{kind.token}.{prefix}{place}", f"{kind.name}, {label}")
        for place, label in enumerate(labels)
    ]
    return {
        "kind": kind,
        "n": _number(record["n"], kind.token, f"{kind.kind}: {kind.name}"),
        "share": percent(record["share"]),
        "width": f"{100 * record['share']:.2f}%",
        "cells": cells,
    }


def confusions(analysis: Record) -> list[View]:
    """The confusion matrices; a cell's shade is its share of its row."""
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
                said = _confused(gold if at < last else None, predicted if to < last else None)
                shade = "" if at == to == last else "right" if at == to else "wrong"
                cells.append(
                    _number(n, f"{prefix}.{at}.{to}", said)
                    | {"shade": shade, "share": f"{n / total if total else 0:.3f}"}
                )
            rows.append({"name": gold, "cells": cells})
        protocol = f"{confusion['protocol']}, {analysis['protocol']['condition']}"
        found.append({"title": what, "protocol": protocol, "columns": confusion["predicted"], "rows": rows})
    return found


def _confused(gold: str | None, predicted: str | None) -> str:
    if gold is None:
        return f"predicted {predicted}, nothing in gold"
    if predicted is None:
        return f"gold {gold}, nothing predicted"
    return f"gold {gold}, predicted {predicted}"


def score_row(name: str, counts: Record, token: str | None, *, of: str) -> View:
    """A row of precision, recall, F1 and the three numbers they are made of."""
    numbers = {}
    for key in ("gold", "predicted", "correct"):
        link = None if token is None else f"{token}.{key}"
        numbers[f"n_{key}"] = _number(counts[f"n_{key}"], link, f"{key}, {of}")
    return {"name": name, "width": f"{100 * counts['f1']:.2f}%", **_figures(counts), **numbers}


def _figures(counts: Record) -> View:
    return {name: percent(counts[name]) for name in ("precision", "recall", "f1")} | {
        f"n_{name}": counts.get(f"n_{name}") for name in ("gold", "predicted", "correct")
    }


def _number(n: int, token: str | None, said: str) -> View:
    """A number, the fact of the sentences behind it (none where it is 0), and what it is of."""
    return {"n": n, "token": token if n else None, "said": said}


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
