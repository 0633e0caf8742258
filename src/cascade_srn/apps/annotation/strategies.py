"""Strategies that say how much it helps to annotate a unit, given the units that were taken before.

The gain of a unit never rises when others are taken. So the best unit can be found with a priority queue whose entries
are updated only when they come to the top (lazy greedy selection), in nearly linear time and without approximation.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import ClassVar

from cascade_srn.apps.annotation.units import Unit, plain_words, shingles
from cascade_srn.types import Document

# Units that share this part of all their shingles are near-duplicates.
NEAR_DUPLICATE = 0.5


class Strategy:
    """How much a unit helps. By default, that does not depend on other units."""

    needs_model: ClassVar[bool] = False
    removes_near_duplicates: ClassVar[bool] = False

    def __init__(self, units: Sequence[Unit], annotated: Sequence[Document] = ()) -> None:
        """Prepare to rank ``units``, beside documents that are annotated already."""

    def gain(self, unit: Unit) -> float:
        """Return how much a unit helps, given those taken so far."""
        raise NotImplementedError

    def take(self, unit: Unit) -> None:
        """Take a unit, which may lower the gains of others."""


class Random(Strategy):
    """All units help alike. The order is random."""

    def gain(self, unit: Unit) -> float:
        """Return 0."""
        return 0.0


class Uncertainty(Strategy):
    """Expected number of corrections: the sum of the error probabilities of all decisions.

    It is divided by the square root of the number of words. Without it, the longest units would win; with the number
    itself, short fragments would.
    """

    needs_model = True

    def gain(self, unit: Unit) -> float:
        """Return the expected corrections, by length."""
        return sum(decision.error for decision in unit.decisions) / math.sqrt(unit.n_words)


class Diversity(Strategy):
    """Words that are frequent in the input, and rare in what was taken.

    Each word of a unit counts the logarithm of its number of units, halved for each unit with it that was taken.
    """

    removes_near_duplicates = True

    def __init__(self, units: Sequence[Unit], annotated: Sequence[Document] = ()) -> None:
        found = Counter(word for unit in units for word in set(unit.words))
        # Words of one unit only are often names, numbers or errors.
        self._weights = {word: math.log2(count) for word, count in found.items() if count > 1}
        self._taken = Counter(
            word for document in annotated for sentence in document.sentences for word in set(plain_words([sentence]))
        )

    def gain(self, unit: Unit) -> float:
        """Return the weight of the words that are new or rare, by length."""
        weights = (self._weights.get(word, 0.0) * _halved(self._taken[word]) for word in set(unit.words))
        return sum(weights) / math.sqrt(unit.n_words)

    def take(self, unit: Unit) -> None:
        """Count the words."""
        self._taken.update(set(unit.words))


class LabelCoverage(Strategy):
    """Probable annotations of labels that are rare so far, in annotated documents and in the units taken."""

    needs_model = True

    def __init__(self, units: Sequence[Unit], annotated: Sequence[Document] = ()) -> None:
        self._n_labels = _LabelCounts(annotated)

    def gain(self, unit: Unit) -> float:
        """Return the probabilities of all decisions, weighted by the rarity of their labels."""
        weighted = (decision.probability * self._n_labels.rarity(decision.label) for decision in unit.decisions)
        return sum(weighted) / math.sqrt(unit.n_words)

    def take(self, unit: Unit) -> None:
        """Count the expected annotations."""
        self._n_labels.add(unit)


class Combined(Strategy):
    """Expected corrections, of rare labels more than of frequent ones, and of each phrase less every time."""

    needs_model = True
    removes_near_duplicates = True

    def __init__(self, units: Sequence[Unit], annotated: Sequence[Document] = ()) -> None:
        self._n_labels = _LabelCounts(annotated)
        self._keys: Counter[str] = Counter(
            entity.text.casefold() for document in annotated for entity in document.entities
        )

    def gain(self, unit: Unit) -> float:
        """Return the weighted expected corrections, by length."""
        weighted = (
            decision.error * self._n_labels.rarity(decision.label) * _halved(self._keys[decision.key])
            for decision in unit.decisions
        )
        return sum(weighted) / math.sqrt(unit.n_words)

    def take(self, unit: Unit) -> None:
        """Count the phrases and the expected annotations."""
        self._n_labels.add(unit)
        self._keys.update({decision.key for decision in unit.decisions})


class _LabelCounts:
    """Numbers of annotations by label, expected ones included."""

    def __init__(self, annotated: Iterable[Document]) -> None:
        self._counts: defaultdict[str, float] = defaultdict(float)
        for document in annotated:
            labels = [entity.label for entity in document.entities]
            for label in [*labels, *(relation.label for relation in document.relations)]:
                self._counts[label] += 1

    def rarity(self, label: str) -> float:
        """Return a weight of at most 1 that falls with the square root of the number of annotations."""
        return 1 / math.sqrt(1 + self._counts.get(label, 0.0))

    def add(self, unit: Unit) -> None:
        """Count the expected annotations of a unit."""
        for decision in unit.decisions:
            self._counts[decision.label] += decision.probability


def _halved(times: int) -> float:
    return math.ldexp(1.0, -min(times, 1000))


STRATEGIES: dict[str, type[Strategy]] = {
    "combined": Combined,
    "uncertainty": Uncertainty,
    "coverage": LabelCoverage,
    "diversity": Diversity,
    "random": Random,
}


def rank_units(
    units: Sequence[Unit], strategy: str, n: int, annotated: Sequence[Document] = ()
) -> list[tuple[Unit, float]]:
    """Return the ``n`` units that help most, in order, with their gains when they were taken.

    There are fewer if the units do not suffice, without near-duplicates for strategies that remove them. Units of equal
    gain are in random order.
    """
    chosen = STRATEGIES[strategy](units, annotated)
    taken: list[tuple[Unit, float]] = []
    index = NearDuplicates(annotated) if chosen.removes_near_duplicates else None
    queue = [(-chosen.gain(unit), unit.place, number) for number, unit in enumerate(units)]
    heapq.heapify(queue)
    while queue and len(taken) < n:
        _, place, number = heapq.heappop(queue)
        unit = units[number]
        now = (-chosen.gain(unit), place, number)
        if queue and now > queue[0]:
            heapq.heappush(queue, now)
        elif index is None or index.add(unit.words):
            taken.append((unit, -now[0]))
            chosen.take(unit)
    return taken


class NearDuplicates:
    """Finds word sequences that share many shingles with earlier ones. Exact, by an index of all shingles."""

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._index: dict[tuple[str, ...], list[int]] = {}
        self._sizes: list[int] = []
        for document in documents:
            for sentence in document.sentences:
                self.add(plain_words([sentence]))
            self.add(plain_words(document.sentences))

    def add(self, words: Sequence[str]) -> bool:
        """Add words, and return True, unless they nearly repeat earlier ones."""
        own = shingles(words)
        shared = Counter(number for shingle in own for number in self._index.get(shingle, ()))
        for number, count in shared.items():
            if count >= NEAR_DUPLICATE * (len(own) + self._sizes[number] - count):
                return False
        for shingle in own:
            self._index.setdefault(shingle, []).append(len(self._sizes))
        self._sizes.append(len(own))
        return True
