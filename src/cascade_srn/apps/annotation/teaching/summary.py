"""What teaching has brought: labels, cost, agreement with the teacher, and scores on what a person has checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cascade_srn.apps.annotation.agreement import compare_annotations
from cascade_srn.apps.annotation.learning import read_curve
from cascade_srn.apps.annotation.project import TEACHER, Project
from cascade_srn.apps.annotation.teaching.answers import DROPPED
from cascade_srn.apps.annotation.teaching.ledger import TEACHING
from cascade_srn.apps.annotation.teaching.run import SUMMARY

_SCORES = {"ner": "NER", "re": "strict RE"}


def summarize(project: Project) -> dict[str, Any] | None:
    """Return what is known about the teaching of a project as plain values; None if there was none.

    ``student`` has the scores of the last training on held-out sentences that a person has checked, and in ``teacher``
    those on the labels of the teacher. ``teacher_f1`` compares the teacher with persons on the same sentences.
    """
    try:
        found = json.loads((project.folder / TEACHING / SUMMARY).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    checked = [id for id in project.documents if project.is_held_out(id) and id not in project.unchecked()]
    pairs = [
        (person, teacher)
        for id in checked
        if (person := project.annotated(id)) and (teacher := project.annotated(id, TEACHER))
    ]
    agreement = compare_annotations(pairs, symmetric=project.labels.schema.symmetric) if pairs else None
    curve = read_curve(project)
    student = curve[-1] if curve else None
    cost = found["cost"]
    points = {name: 100 * student[name] if student and student[name] else None for name in _SCORES}
    return {
        **found,
        "checked": len(pairs),
        "held_out": sum(map(project.is_held_out, project.documents)),
        "teacher_f1": agreement and {"entities": agreement.entities.f1, "relations": agreement.relations.f1},
        "student": student,
        "cost_per_point": {name: cost / n if cost and n else None for name, n in points.items()},
    }


def describe(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a summary."""
    yield (
        f"Teacher {found['model']}: {found['answers']:,} answers, {found['labelled']:,} of {found['sentences']:,} "
        f"sentences labelled, {found['entities']:,} entities, {found['relations']:,} relations"
    )
    if found["dropped"]:
        yield f"Dropped: {', '.join(f'{n:,} {DROPPED[kind]}' for kind, n in found['dropped'].items())}"
    if found["problems"]:
        yield f"Answers not used: {', '.join(f'{n:,} x {problem}' for problem, n in found['problems'].items())}"
    if found["agreement"] is not None:
        yield f"Agreement of two answers: F1 {100 * found['agreement']:.1f}, mean of {found['compared']:,} sentences"
    asked, answered = found["tokens"]
    cost = "" if found["cost"] is None else f", {found['cost']:.4f} in money"
    yield f"Cost: {asked:,} tokens of questions, {answered:,} of answers{cost}"
    n_open, tokens, money = found["open"]
    if n_open:
        price = f", {money:.4f}" if money else ""
        yield f"Requests without an answer that may have been charged: {n_open:,} (at most {tokens:,} tokens{price})"
    student = found["student"]
    if student and student.get("teacher"):
        agreed = student["teacher"]
        n = agreed["n_held_out"]
        yield f"Student against the teacher (agreement): {_scores(agreed)} on {n:,} held-out sentences"
    if found["teacher_f1"]:
        scores = ", ".join(f"{kind} F1 {_percent(f1)}" for kind, f1 in found["teacher_f1"].items())
        yield f"Teacher against persons: {scores} on {found['checked']:,} held-out sentences"
    if student and student["n_held_out"]:
        yield f"Student against persons (score): {_scores(student)} on {student['n_held_out']:,} held-out sentences"
    else:
        yield (
            f"Student against persons: no score. Check some of the {found['held_out']:,} held-out sentences and train."
        )
    if any(found["cost_per_point"].values()):
        parts = [f"{value:.4f} ({_SCORES[name]})" for name, value in found["cost_per_point"].items() if value]
        yield f"Cost per point of F1 against persons: {', '.join(parts)}"


def _scores(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{title} F1 {_percent(point[name])}" for name, title in _SCORES.items())


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
