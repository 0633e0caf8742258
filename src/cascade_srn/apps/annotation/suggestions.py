"""Suggestions of a model for the documents of a project, and the order in which to annotate them.

The folder ``suggestions`` may be deleted: it is filled again by the next run.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.annotations import Annotation, entity_key, relation_key
from cascade_srn.apps.annotation.project import Project
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.formats.jsonl import to_record
from cascade_srn.types import Document

SUGGESTIONS, PRIORITIES = "suggestions", "priorities.json"


@dataclass(frozen=True)
class SuggestedMarks:
    """What a model suggests for a document."""

    entities: tuple[Mapping[str, Any], ...] = ()  # Entities with ``id``, ``start``, ``end``, ``label`` and ``score``
    relations: tuple[Mapping[str, Any], ...] = ()  # Relations with ``id``, ``head``, ``tail``, ``label`` and ``score``
    model: str = ""  # Checksum of the model

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return plain values."""
        return {
            "entities": [dict(entity) for entity in self.entities],
            "relations": [dict(relation) for relation in self.relations],
        }

    def count_open(self, annotation: Annotation) -> int:
        """Count what is neither annotated nor rejected. An annotated entity decides about all on the same words."""
        rejected = set(annotation.rejected)
        spans = {one.id: (one.start, one.end) for one in annotation.entities}
        decided = set(spans.values())
        pairs = {(spans[one.head], spans[one.tail]) for one in annotation.relations}
        suggested = {one["id"]: (one["start"], one["end"], one["label"]) for one in self.entities}
        open_ids = {id for id, one in suggested.items() if one[:2] not in decided and entity_key(*one) not in rejected}
        usable = open_ids | {id for id, one in suggested.items() if one[:2] in decided}
        n_relations = 0
        for one in self.relations:
            head, tail = suggested[one["head"]], suggested[one["tail"]]
            key = relation_key(entity_key(*head), one["label"], entity_key(*tail))
            is_decided = (head[:2], tail[:2]) in pairs or key in rejected
            n_relations += not is_decided and {one["head"], one["tail"]} <= usable
        return len(open_ids) + n_relations


def suggestion_line(document: Document, model: str = "") -> bytes:
    """Return the line of a document that a model has annotated. ``model`` is its checksum."""
    record = to_record(document)
    entities = [
        {"id": f"s{number}", **{key: one[key] for key in ("start", "end", "label")}, "score": one.get("score")}
        for number, one in enumerate(record["entities"])
    ]
    relations = [
        {
            "id": f"t{number}",
            "head": f"s{one['head']}",
            "tail": f"s{one['tail']}",
            "label": one["label"],
            "score": one.get("score"),
        }
        for number, one in enumerate(record["relations"])
    ]
    line = {"id": document.id, "entities": entities, "relations": relations, "model": model}
    return f"{to_json(line)}\n".encode()


class Suggestions:
    """The suggestions of a project. New lines of its files are read when they are asked for.

    Files are read in the order of their names, so the suggestions of a later run replace those of earlier ones.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / SUGGESTIONS
        self.priorities: dict[str, float] = {}
        self._found: dict[str, SuggestedMarks] = {}
        self._positions: dict[str, int] = {}
        self._priorities_stamp: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def get(self, id: str) -> SuggestedMarks:
        """Return the suggestions for a document."""
        return self._found.get(id, SuggestedMarks())

    def __len__(self) -> int:
        return len(self._found)

    def refresh(self) -> None:
        """Read what was written since the last time."""
        with self._lock:
            try:
                names = sorted(name for name in os.listdir(self.folder) if name.endswith(".jsonl"))
            except FileNotFoundError:
                names = []
            if not names and self._positions:  # the folder was deleted
                self._found, self._positions, self.priorities = {}, {}, {}
            for name in names:
                self._read_on(name)
            self._read_priorities()

    def _read_on(self, name: str) -> None:
        at = self._positions.get(name, 0)
        try:
            with (self.folder / name).open("rb") as handle:
                handle.seek(at)
                data = handle.read()
        except FileNotFoundError:  # a later run has removed it
            return
        complete = data[: data.rfind(b"\n") + 1]
        for line in complete.splitlines():
            try:
                record = json.loads(line)
                marks = tuple(record["entities"]), tuple(record["relations"])
                self._found[record["id"]] = SuggestedMarks(*marks, record.get("model", ""))
            except (ValueError, KeyError, TypeError):
                continue  # suggestions are made again by the next run
        self._positions[name] = at + len(complete)

    def _read_priorities(self) -> None:
        try:
            found = (self.folder / PRIORITIES).stat()
            stamp = found.st_mtime_ns, found.st_ino
            if stamp != self._priorities_stamp:
                self.priorities = read_priorities(self.folder.parent)
                self._priorities_stamp = stamp
        except OSError:
            return


def read_priorities(folder: Path) -> dict[str, float]:
    """Return the priority of each document, or nothing if there are none."""
    try:
        content = json.loads((folder / SUGGESTIONS / PRIORITIES).read_text(encoding="utf-8"))
        return {str(id): float(value) for id, value in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_priorities(folder: Path, priorities: Mapping[str, float]) -> None:
    """Write the priority of each document. Higher ones come first."""
    path = folder / SUGGESTIONS / PRIORITIES
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as handle:
        handle.write(to_json(dict(priorities)).encode())


def remove_older(folder: Path, kept: str) -> None:
    """Remove the files of earlier runs."""
    for path in (folder / SUGGESTIONS).glob("*.jsonl"):
        if path.name < kept:
            path.unlink(missing_ok=True)


_TITLE = 80


@dataclass(frozen=True)
class QueueFilter:
    """Which documents are listed."""

    annotator: str  # Whose states are shown
    state: str = ""  # Only documents in this state; empty for all
    search: str = ""  # Only documents whose text or id contains this, in any case


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
