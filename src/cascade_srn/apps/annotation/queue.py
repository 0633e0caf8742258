"""The order in which the documents of a project are annotated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.suggestions import Suggestions

_TITLE = 80


@dataclass(frozen=True)
class QueueFilter:
    """Which documents are listed.

    Attributes:
        annotator: Whose states are shown.
        state: Only documents in this state; empty for all.
        search: Only documents whose text or id contains this, in any case.
    """

    annotator: str
    state: str = ""
    search: str = ""


def order_documents(project: Project, suggestions: Suggestions) -> list[str]:
    """Return the ids of all documents, the most useful ones first.

    Held-out documents are spread evenly, in the order of the input. Chosen by priority, they would not be a random
    sample, and the scores on them would be wrong.
    """
    ids = list(project.documents)
    priorities = suggestions.priorities
    if not priorities:
        return ids
    held_out = [id for id in ids if project.is_held_out(id)]
    rest = [id for id in ids if not project.is_held_out(id)]
    rest.sort(key=lambda id: -priorities.get(id, 0.0))
    every = max(1, round(len(rest) / len(held_out))) if held_out else 0
    ordered: list[str] = []
    for number, id in enumerate(rest, 1):
        ordered.append(id)
        if every and number % every == 0 and held_out:
            ordered.append(held_out.pop(0))
    return ordered + held_out


def list_queue(
    project: Project, suggestions: Suggestions, wanted: QueueFilter, *, offset: int = 0, limit: int = 50
) -> dict[str, Any]:
    """Return the number of matching documents, and a part of their list."""
    suggestions.refresh()
    needle = wanted.search.casefold().strip()
    found = [
        id
        for id in order_documents(project, suggestions)
        if (not wanted.state or project.state(id, wanted.annotator) == wanted.state)
        and (not needle or needle in id.casefold() or needle in project.documents[id].text.casefold())
    ]
    items = [_item(project, suggestions, id, wanted.annotator) for id in found[offset : offset + limit]]
    return {"total": len(found), "items": items}


def _item(project: Project, suggestions: Suggestions, id: str, annotator: str) -> dict[str, Any]:
    annotation = project.annotation(id, annotator)
    return {
        "id": id,
        "title": _title(project.documents[id].text),
        "state": annotation.state,
        "n_entities": len(annotation.entities),
        "n_relations": len(annotation.relations),
        "n_suggestions": suggestions.get(id).count_open(annotation),
        "priority": round(suggestions.priorities.get(id, 0.0), 4),
        "held_out": project.is_held_out(id),
    }


def _title(text: str) -> str:
    """Return the first words of a text."""
    start = " ".join(text[: 4 * _TITLE].split())
    return start if len(start) <= _TITLE else f"{start[: _TITLE - 1].rpartition(' ')[0] or start[: _TITLE - 1]}…"
