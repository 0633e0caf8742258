"""Divide training data by whole documents, with about the same labels in all parts."""

import random
from collections import Counter
from collections.abc import Sequence

from cascade_srn.errors import DataError
from cascade_srn.types import Document

Labels = Counter[tuple[str, str]]
"""Numbers of annotations by kind and label."""

# The documents themselves, whose share counts like that of a label.
_DOCUMENT = ("document", "")
_MAX_PASSES, _LEAST_GAIN = 20, 1e-9


def hold_out(documents: Sequence[Document], share: float, seed: int = 0) -> tuple[list[Document], list[Document]]:
    """Divide documents into a large part to learn from and a small part to score, each in the given order.

    Starting from a random choice, single documents are moved as long as that brings the shares of all labels nearer to
    the wanted one. Documents stay whole, so the shares are approximate. A label of a single document stays in the large
    part if possible. Both parts have an entity.

    Args:
        documents: Annotated documents.
        share: Share of the small part, between 0 and 1.
        seed: Seed of the order in which documents are considered.

    Raises:
        DataError: If there are fewer than two documents with entities.
    """
    counts = [count_labels(document) for document in documents]
    annotated = [number for number, found in enumerate(counts) if found]
    if len(annotated) < 2:
        raise DataError(
            f"data.dev is {share:g}, but a share can only be held out of two or more documents with entities "
            f"(found: {len(annotated)})",
            "Divide the data into more documents, or give a file",
            option="data.dev",
        )
    order = list(range(len(documents)))
    random.Random(seed).shuffle(order)
    held = _choose(counts, order, share)
    rest = [number for number in order if number not in held and counts[number]]
    if not any(counts[number] for number in held):
        held.add(_least_needed(rest, counts))
    elif not rest:
        held.discard(next(number for number in order if number in held and counts[number]))
    parts: tuple[list[Document], list[Document]] = [], []
    for number, document in enumerate(documents):
        parts[number in held].append(document)
    return parts


def divide(documents: Sequence[Document], n_parts: int, seed: int = 0) -> list[list[Document]]:
    """Divide documents into parts of about the same size and labels, each in the given order.

    Labels are considered from the rarest on. A document with the label goes to the part that lacks most of it
    (iterative stratification; Sechidis, Tsoumakas and Vlahavas 2011). Documents without annotations come last. Each
    part has an entity.

    Args:
        documents: Annotated documents.
        n_parts: Number of parts.
        seed: Seed of the order in which documents are considered.

    Raises:
        DataError: If there are fewer documents with entities than parts.
    """
    counts = [count_labels(document) for document in documents]
    n_annotated = sum(map(bool, counts))
    if n_annotated < n_parts:
        raise DataError(
            f"data.folds is {n_parts}, but there are only {n_annotated} documents with entities",
            "Use fewer folds, or divide the data into more documents",
            option="data.folds",
        )
    order = list(range(len(documents)))
    random.Random(seed).shuffle(order)
    parts = _assign(counts, order, n_parts)
    for part in parts:
        while not any(counts[number] for number in part):
            richest = max(parts, key=lambda other: sum(bool(counts[number]) for number in other))
            moved = next(number for number in richest if counts[number])
            richest.remove(moved)
            part.append(moved)
    return [[documents[number] for number in sorted(part)] for part in parts]


def _assign(counts: Sequence[Labels], order: Sequence[int], n_parts: int) -> list[list[int]]:
    """Return the numbers of the documents of each part."""
    sizes = [Counter({_DOCUMENT: 1}) + found for found in counts]
    total: Labels = sum(sizes, Counter())
    # Number of annotations of each label that each part still lacks.
    lacking = [{label: count / n_parts for label, count in total.items()} for _ in range(n_parts)]
    n_documents = Counter(label for found in sizes for label in found)
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    left = set(order)
    # Documents themselves count as the most frequent label, so that those without annotations come last.
    for label in sorted(n_documents, key=lambda label: (label == _DOCUMENT, n_documents[label], label)):
        for number in (number for number in order if number in left and label in sizes[number]):
            chosen = max(range(n_parts), key=lambda part: (lacking[part][label], lacking[part][_DOCUMENT]))
            parts[chosen].append(number)
            left.remove(number)
            for found, count in sizes[number].items():
                lacking[chosen][found] -= count
    return parts


def count_labels(document: Document) -> Labels:
    """Count the entities and relations of a document by kind and label."""
    found: Labels = Counter()
    for sentence in document.sentences:
        found.update(("entity", entity.label) for entity in sentence.entities)
        found.update(("relation", triple.label) for triple in sentence.triples)
    return found


def _choose(counts: Sequence[Labels], order: Sequence[int], share: float) -> set[int]:
    """Return the numbers of the documents to hold out."""
    sizes = [Counter({_DOCUMENT: 1}) + found for found in counts]
    total: Labels = sum(sizes, Counter())
    n_documents = Counter(label for found in counts for label in found)
    held = set(order[: round(share * len(order))])
    # Number of held annotations of each label, minus the number to hold.
    excess = {label: -share * count for label, count in total.items()}
    for number in held:
        for label, count in sizes[number].items():
            excess[label] += count

    def gain(number: int, sign: int) -> float:
        """Return by how much the squared errors, relative to the number of annotations, fall if a document moves."""
        return sum(-n * (2 * sign * excess[label] + n) / total[label] for label, n in sizes[number].items())

    for _ in range(_MAX_PASSES):
        before = set(held)
        for number in order:
            sign = -1 if number in held else 1
            is_only = any(n_documents[label] == 1 for label in counts[number])
            if (sign < 0 and is_only) or (gain(number, sign) > _LEAST_GAIN and not is_only):
                held.symmetric_difference_update({number})
                for label, n in sizes[number].items():
                    excess[label] += sign * n
        if held == before:
            break
    return held


def _least_needed(numbers: Sequence[int], counts: Sequence[Labels]) -> int:
    """Return the first document whose labels the others have as well, or else the first with the fewest other ones."""
    n_documents = Counter(label for number in numbers for label in counts[number])
    return min(numbers, key=lambda number: sum(n_documents[label] == 1 for label in counts[number]))
