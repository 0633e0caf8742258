"""Scores of coreference clusters: MUC, B³ and CEAF-e, and their mean, the CoNLL score.

They are those of the reference scorer (Pradhan et al. 2014), which counts predicted mentions that gold does not have,
and the reverse. Clusters of one mention count in B³ and CEAF-e, if there are any.

* MUC (Vilain et al. 1995) counts the links that would join the parts into which the other side cuts a cluster.
* B³ (Bagga and Baldwin 1998) averages, over mentions, the share of a mention's cluster that is right.
* CEAF-e (Luo 2005) pairs gold and predicted clusters one to one, for the largest sum of similarities.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.errors import AnnotationError
from cascade_srn.evaluation.items import align_documents, format_table
from cascade_srn.types import Document

Clusters = Sequence[Collection[Hashable]]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Numerators and denominators of a recall and a precision. Those of several documents can be added.

    Attributes:
        found: Numerator of the recall.
        n_gold: Denominator of the recall.
        correct: Numerator of the precision.
        n_predicted: Denominator of the precision.
    """

    found: float = 0.0
    n_gold: int = 0
    correct: float = 0.0
    n_predicted: int = 0

    @property
    def recall(self) -> float:
        """Recall, or 0 if gold has nothing to find."""
        return self.found / self.n_gold if self.n_gold else 0.0

    @property
    def precision(self) -> float:
        """Precision, or 0 if nothing is predicted."""
        return self.correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, or 0 if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def __add__(self, other: Ratios) -> Ratios:
        return Ratios(
            self.found + other.found,
            self.n_gold + other.n_gold,
            self.correct + other.correct,
            self.n_predicted + other.n_predicted,
        )

    def to_dict(self) -> dict[str, float]:
        """Convert to plain values for JSON, as fractions."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True, slots=True)
class CoreferenceScores:
    """Scores of coreference clusters. Scores of several documents can be added."""

    muc: Ratios = Ratios()
    b_cubed: Ratios = Ratios()
    ceaf_e: Ratios = Ratios()

    @property
    def conll_f1(self) -> float:
        """Mean F1 of the three metrics."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf_e.f1) / 3

    def __add__(self, other: CoreferenceScores) -> CoreferenceScores:
        return CoreferenceScores(self.muc + other.muc, self.b_cubed + other.b_cubed, self.ceaf_e + other.ceaf_e)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON, as fractions."""
        return {
            "muc": self.muc.to_dict(),
            "b_cubed": self.b_cubed.to_dict(),
            "ceaf_e": self.ceaf_e.to_dict(),
            "conll_f1": self.conll_f1,
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("", "precision", "recall", "F1")]
        for name, of_metric in (("MUC", self.muc), ("B³", self.b_cubed), ("CEAF-e", self.ceaf_e)):
            values = (of_metric.precision, of_metric.recall, of_metric.f1)
            rows.append((name, *(f"{100 * value:.1f}" for value in values)))
        return format_table([*rows, ("CoNLL", "", "", f"{100 * self.conll_f1:.1f}")])


def score_coreference(gold: Iterable[Document], predicted: Iterable[Document]) -> CoreferenceScores:
    """Score the coreference clusters of documents.

    Args:
        gold: Annotated documents.
        predicted: Predictions on the same words, in the same order.

    Returns:
        The scores over all documents: numerators and denominators are summed, as the reference scorer does.

    Raises:
        AnnotationError: If the documents do not have the same words.
    """
    gold, predicted = list(gold), list(predicted)
    for _ in align_documents(gold, predicted):
        pass
    scores = (score_clusters(one.clusters, other.clusters) for one, other in zip(gold, predicted, strict=True))
    return sum(scores, CoreferenceScores())


def score_clusters(gold: Clusters, predicted: Clusters) -> CoreferenceScores:
    """Score the clusters of one document. Mentions are any hashable values, and equal mentions are the same.

    Raises:
        AnnotationError: If a mention occurs twice on one side.

    Example:
        >>> print(score_clusters(["abc", "de"], ["ab", "cde"]))
                precision  recall    F1
        MUC          66.7    66.7  66.7
        B³           73.3    73.3  73.3
        CEAF-e       80.0    80.0  80.0
        CoNLL                      73.3
    """
    in_gold, in_predicted = _owners(gold, "gold"), _owners(predicted, "predicted")
    # For each pair of clusters, the number of mentions that they share; pairs that share none are left out.
    shared = Counter((in_gold[m], in_predicted[m]) for m in in_gold.keys() & in_predicted.keys())
    sizes = [len(c) for c in gold], [len(c) for c in predicted]
    similarity = _best_similarity(shared, *sizes)
    return CoreferenceScores(
        Ratios(
            _found_links(sizes[0], shared, 0), _n_links(sizes[0]), _found_links(sizes[1], shared, 1), _n_links(sizes[1])
        ),
        Ratios(
            sum(n * n / sizes[0][one] for (one, _), n in shared.items()),
            sum(sizes[0]),
            sum(n * n / sizes[1][other] for (_, other), n in shared.items()),
            sum(sizes[1]),
        ),
        Ratios(similarity, len(gold), similarity, len(predicted)),
    )


def _owners(clusters: Clusters, side: str) -> dict[Hashable, int]:
    """Return the number of the cluster of each mention."""
    owners: dict[Hashable, int] = {}
    for number, cluster in enumerate(clusters):
        for mention in cluster:
            if mention in owners:
                raise AnnotationError(f"the {side} clusters have the mention {mention!r} twice", "Remove the repeat")
            owners[mention] = number
    return owners


def _n_links(sizes: Sequence[int]) -> int:
    """Return the number of links that hold clusters together."""
    return sum(max(size - 1, 0) for size in sizes)


def _found_links(sizes: Sequence[int], shared: Mapping[tuple[int, int], int], side: int) -> int:
    """Return the number of links of one side's clusters that the other side has.

    The other side cuts a cluster into parts: its mentions in each cluster of the other side, and each other mention on
    its own. Joining n mentions that are in p parts needs p - 1 links, so n - p links are found.
    """
    n_shared: Counter[int] = Counter()
    n_parts: Counter[int] = Counter()
    for pair, n in shared.items():
        n_shared[pair[side]] += n
        n_parts[pair[side]] += 1
    return sum(n_shared[number] - n_parts[number] for number in range(len(sizes)))


def _best_similarity(
    shared: Mapping[tuple[int, int], int], gold_sizes: Sequence[int], predicted_sizes: Sequence[int]
) -> float:
    """Return the largest sum of similarities of a one-to-one pairing.

    The similarity of two clusters is the Dice coefficient of their mentions. Only clusters that share a mention can be
    paired, so each connected group of clusters is solved on its own, which keeps the tables small.
    """
    similarity = {(i, j): 2 * n / (gold_sizes[i] + predicted_sizes[j]) for (i, j), n in shared.items()}
    total = 0.0
    for rows, columns in _connected_groups(shared):
        table = [[similarity.get((i, j), 0.0) for j in columns] for i in rows]
        total += _assign(table if len(rows) <= len(columns) else [list(row) for row in zip(*table, strict=True)])
    return total


def _connected_groups(pairs: Iterable[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    """Return the connected components of a bipartite graph, as left and right nodes."""
    neighbours: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for one, other in pairs:
        neighbours[0, one].append((1, other))
        neighbours[1, other].append((0, one))
    groups, seen = [], set()
    for start in sorted(neighbours):
        if start in seen:
            continue
        seen.add(start)
        todo, group = [start], [start]
        while todo:
            found = [node for node in neighbours[todo.pop()] if node not in seen]
            seen.update(found)
            todo += found
            group += found
        groups.append((sorted(n for side, n in group if side == 0), sorted(n for side, n in group if side == 1)))
    return groups


def _assign(table: Sequence[Sequence[float]]) -> float:
    """Return the largest sum of entries with one in each row and at most one in each column (Kuhn and Munkres).

    Rows are added one by one along a shortest augmenting path, with prices of rows and columns that keep all reduced
    costs positive: O(rows² x columns). The table has at least as many columns as rows.
    """
    n_columns = len(table[0])
    row_price, column_price = [0.0] * len(table), [0.0] * (n_columns + 1)
    owner: list[int | None] = [None] * (n_columns + 1)  # row of each column; the last column is the start of a path
    for new_row in range(len(table)):
        owner[n_columns], at = new_row, n_columns
        distance, previous = [math.inf] * n_columns, [n_columns] * n_columns
        visited = [False] * (n_columns + 1)
        while (row := owner[at]) is not None:
            visited[at] = True
            free = [column for column in range(n_columns) if not visited[column]]
            for column in free:
                cost = -table[row][column] - row_price[row] - column_price[column]
                if cost < distance[column]:
                    distance[column], previous[column] = cost, at
            nearest = min(free, key=distance.__getitem__)
            step = distance[nearest]
            for column in range(n_columns + 1):
                if visited[column]:
                    visited_row = owner[column]
                    assert visited_row is not None
                    row_price[visited_row] += step
                    column_price[column] -= step
                else:
                    distance[column] -= step
            at = nearest
        while at != n_columns:
            owner[at] = owner[previous[at]]
            at = previous[at]
    return sum(table[row][column] for column, row in enumerate(owner[:n_columns]) if row is not None)
