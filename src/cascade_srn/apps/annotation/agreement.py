"""Agreement between two annotators: F1 of entities and relations, kappa over words, and all disagreements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.apps.annotation.project import Project
from cascade_srn.errors import DataError, did_you_mean
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
