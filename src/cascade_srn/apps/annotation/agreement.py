"""Agreement between two annotators, and of annotators with the suggestions of the current model.

Two annotators: F1 of entities and relations, kappa over words, and all disagreements. Judgements of suggestions come
from the stored annotations, so that accepting, rejecting and correcting suggestions is all there is to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.learning import TRAIN, TRAINING, current_model
from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.suggestions import SuggestedMarks, Suggestions
from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.formats.jsonl import to_record
from cascade_srn.formats.registry import read_documents
from cascade_srn.formats.reports import WriteReport
from cascade_srn.model.folder import model_checksum
from cascade_srn.storage.bundled import find_model
from cascade_srn.types import Document, Entity, Relation, Sentence


@dataclass(frozen=True)
class ItemAgreement:
    """Agreement on entities or relations."""

    n_first: int  # Number of items of the first annotator
    n_second: int  # Number of items of the second one
    n_both: int  # Number of items that both have

    @property
    def f1(self) -> float | None:
        """F1, which is the same in both directions; None if neither has an item."""
        total = self.n_first + self.n_second
        return 2 * self.n_both / total if total else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values. Precision and recall take the first annotator as the reference."""
        return {
            "f1": self.f1,
            "precision": self.n_both / self.n_second if self.n_second else None,
            "recall": self.n_both / self.n_first if self.n_first else None,
            "n": self.n_first + self.n_second - self.n_both,
            "n_first": self.n_first,
            "n_second": self.n_second,
            "n_both": self.n_both,
        }


@dataclass(frozen=True)
class Agreement:
    """Agreement of two annotators on the documents that both have done."""

    entities: ItemAgreement  # Agreement on entities: both boundaries and the label
    relations: ItemAgreement  # Agreement on relations: label, and both entities
    # Cohen's kappa of the entity labels of words. None if an annotator has entities that share words, so that a word
    # has several labels, or if all words have the same label.
    kappa: float | None
    n_documents: int  # Number of documents
    disagreements: tuple[dict[str, Any], ...]  # What only one of the two has. Items at the same place are paired.

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "entities": self.entities.to_dict(),
            "relations": self.relations.to_dict(),
            "kappa": self.kappa,
            "n_documents": self.n_documents,
            "disagreements": list(self.disagreements),
        }


def measure_agreement(project: Project, first: str, second: str) -> Agreement:
    """Compare two annotators.

    Args:
        project: The project.
        first: Name of an annotator.
        second: Name of another one.

    Raises:
        DataError: There is no such annotator, or they have no document in common.
    """
    known = project.annotators
    for name in (first, second):
        if name not in known:
            raise DataError(f"the project has no annotator {name!r}", did_you_mean(name, known))
    if first == second:
        raise DataError(f"{first!r} is compared with the same annotator", "Name two annotators")
    pairs = []
    for id in project.documents:
        ours, theirs = project.annotated(id, first), project.annotated(id, second)
        if ours is not None and theirs is not None:
            pairs.append((ours, theirs))
    if not pairs:
        raise DataError(f"{first!r} and {second!r} have no document that both have done", "Annotate the same documents")
    return compare_annotations(pairs, symmetric=project.labels.schema.symmetric)


def compare_annotations(
    pairs: Sequence[tuple[Document, Document]], *, symmetric: frozenset[str] = frozenset()
) -> Agreement:
    """Compare pairs of documents with the same words."""
    entities, relations = Counter[str](), Counter[str]()
    disagreements: list[dict[str, Any]] = []
    words: list[tuple[str, str]] | None = []
    for ours, theirs in pairs:
        sides = ours, theirs
        _count(entities, *({one: one for one in side.entities} for side in sides))
        _count(relations, *({_relation_key(one, symmetric): one for one in side.relations} for side in sides))
        disagreements += _disagreements(ours, theirs, symmetric)
        for one, other in zip(ours.sentences, theirs.sentences, strict=True):
            labels = _word_labels(one), _word_labels(other)
            if labels[0] is None or labels[1] is None:
                words = None
            elif words is not None:
                words += zip(*labels, strict=True)  # type: ignore[arg-type]
    return Agreement(
        ItemAgreement(entities["first"], entities["second"], entities["both"]),
        ItemAgreement(relations["first"], relations["second"], relations["both"]),
        None if words is None else cohen_kappa(words),
        len(pairs),
        tuple(disagreements),
    )


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return Cohen's kappa of pairs of categories; None if chance agreement is complete.

    Example:
        >>> cohen_kappa([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")])
        0.5
    """
    if not pairs:
        return None
    n = len(pairs)
    firsts, seconds = Counter(first for first, _ in pairs), Counter(second for _, second in pairs)
    # In whole numbers, so that complete chance agreement is recognised.
    by_chance = sum(count * seconds[category] for category, count in firsts.items())
    if by_chance == n * n:
        return None
    observed = sum(first == second for first, second in pairs)
    return (observed * n - by_chance) / (n * n - by_chance)


def _count(counts: Counter[str], first: dict[Any, Any], second: dict[Any, Any]) -> None:
    counts.update(first=len(first), second=len(second), both=len(first.keys() & second.keys()))


def _relation_key(relation: Relation, symmetric: frozenset[str]) -> tuple[Entity, str, Entity]:
    head, tail = relation.head, relation.tail
    if relation.label in symmetric and tail < head:
        head, tail = tail, head
    return head, relation.label, tail


def _word_labels(sentence: Sentence) -> list[str] | None:
    """Return the label of each word, empty outside of entities; None if entities share words."""
    labels = [""] * len(sentence)
    for span in sentence.entities:
        if any(labels[span.start : span.end]):
            return None
        labels[span.start : span.end] = [span.label] * (span.end - span.start)
    return labels


def _disagreements(ours: Document, theirs: Document, symmetric: frozenset[str]) -> Iterator[dict[str, Any]]:
    starts = [sentence.start for sentence in ours.sentences]

    def place(start: int) -> int:
        return max(number for number, first in enumerate(starts) if first <= start)

    sides = [{one: one for one in side.entities} for side in (ours, theirs)]
    for first, second in _pair(*_only(*sides), _overlap):
        known = first or second
        assert known is not None
        yield _entry(ours, place(known.start), "entity", _show_entity(first), _show_entity(second))
    keys = [{_relation_key(one, symmetric): one for one in side.relations} for side in (ours, theirs)]
    for one, other in _pair(*_only(*keys), _same_ends):
        relation = one or other
        assert relation is not None
        yield _entry(ours, place(relation.head.start), "relation", _show_relation(one), _show_relation(other))


def _only(first: dict[Any, Any], second: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the items that only the first has, and those that only the second has."""
    return (
        [value for key, value in first.items() if key not in second],
        [value for key, value in second.items() if key not in first],
    )


def _pair(first: list[Any], second: list[Any], matches: Any) -> Iterator[tuple[Any, Any]]:
    """Pair each item with the first of the other side that matches; the rest with None."""
    rest = list(second)
    for one in first:
        other = next((candidate for candidate in rest if matches(one, candidate)), None)
        if other is not None:
            rest.remove(other)
        yield one, other
    for other in rest:
        yield None, other


def _overlap(one: Entity, other: Entity) -> bool:
    return one.start < other.end and other.start < one.end


def _same_ends(one: Relation, other: Relation) -> bool:
    straight = _overlap(one.head, other.head) and _overlap(one.tail, other.tail)
    return straight or (_overlap(one.head, other.tail) and _overlap(one.tail, other.head))


def _entry(document: Document, sentence: int, kind: str, first: Any, second: Any) -> dict[str, Any]:
    return {"document": document.id, "sentence": sentence, "kind": kind, "first": first, "second": second}


def _show_entity(entity: Entity | None) -> dict[str, Any] | None:
    if entity is None:
        return None
    return {"start": entity.start, "end": entity.end, "label": entity.label, "text": entity.text}


def _show_relation(relation: Relation | None) -> dict[str, Any] | None:
    if relation is None:
        return None
    return {"head": _show_entity(relation.head), "label": relation.label, "tail": _show_entity(relation.tail)}


REVIEW = "review"
"""Name of the export for ``calibrate --reviewed``."""


def write_review(project: Project, path: Path, annotator: str | None = None) -> WriteReport:
    """Write the suggestions of the current model in documents that are done, as right or wrong.

    A suggestion is right if the annotation has it. Documents that the model has learned from are left out, because its
    suggestions are better there than elsewhere.

    Args:
        project: The project.
        path: File of JSON lines to write, as ``extract`` writes them, with a field ``correct``.
        annotator: Whose annotations. None: the adjudicated one of each document, or else the one saved last.

    Raises:
        DataError: There is no model, or no document with judged suggestions.
    """
    name = current_model(project)
    if name is None:
        raise DataError("the project has no model whose suggestions are judged", "Train a model first")
    folder = find_model(name)
    model, learned = model_checksum(folder), _learned_from(project, folder)
    suggestions = Suggestions(project.folder)
    suggestions.refresh()
    symmetric = project.labels.schema.symmetric
    lines = [
        to_json({"id": document.id, "text": document.text, "model": model} | judge(found, document, symmetric))
        for document in project.annotated_documents(annotator)
        if document.id not in learned and (found := suggestions.get(document.id)).model == model
    ]
    if not lines:
        raise DataError(
            "no document that is done has suggestions of the current model, besides those that it has learned from",
            "Mark held-out or new documents as done",
        )
    with replacing(path) as handle:
        handle.writelines(f"{line}\n".encode() for line in lines)
    return WriteReport(REVIEW, len(lines))


def _learned_from(project: Project, model: Path) -> set[str]:
    """Return the ids of the documents of the project that a model was trained on, as far as the project knows."""
    is_own = model.is_relative_to(project.folder / TRAINING)
    return {one.id for one in read_documents(model.parents[1] / TRAIN, "jsonl")} if is_own else set()


def judge(suggested: SuggestedMarks, document: Document, symmetric: Collection[str]) -> dict[str, Any]:
    """Return suggestions with a field ``correct``: whether an annotated document has them, entity types included."""
    gold = to_record(document)
    spans = [(one["start"], one["end"], one["label"]) for one in gold["entities"]]
    pairs = {(spans[one["head"]], one["label"], spans[one["tail"]]) for one in gold["relations"]}
    pairs |= {(tail, label, head) for head, label, tail in pairs if label in symmetric}
    places = {one["id"]: (one["start"], one["end"], one["label"]) for one in suggested.entities}
    numbers = {id: number for number, id in enumerate(places)}
    entities = [
        dict(one) | {"id": numbers[one["id"]], "correct": places[one["id"]] in spans} for one in suggested.entities
    ]
    relations = []
    for one in suggested.relations:
        triple = places[one["head"]], one["label"], places[one["tail"]]
        ends = {name: numbers[one[name]] for name in ("head", "tail")}
        relations.append(ends | {"label": one["label"], "score": one["score"], "correct": triple in pairs})
    return {"entities": entities, "relations": relations}
