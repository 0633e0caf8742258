"""Sentences with made-up probabilities, as tables and as plain dictionaries."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from cascade_srn.network.examples import Example
from cascade_srn.network.targets import KINDS, TURNS, SoftLabels, SoftTable
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence


@dataclass
class Dense:
    """Of one sentence: (turn, kind, query, word or pair of words, label) to a probability."""

    values: dict[tuple, float]

    def get(self, *key) -> float:
        return self.values.get(key, 0.0)


def soft_examples(
    sentences: list[Sentence], schema: Schema, *, seed: int = 0, weight: float = 1.0
) -> tuple[list[Example], list[Dense]]:
    """Each sentence with random probabilities, given its own entities."""
    rng = random.Random(seed)
    n_labels = {"entity": len(schema.entity_types), "subject": 1, "object": len(schema.relation_types)}
    rows: dict[str, list[dict[int, float]]] = {f"{turn}.{kind}": [] for turn in TURNS for kind in KINDS}
    dense, first_query, labels = [], 0, []
    for number, sentence in enumerate(sentences):
        n_words = len(sentence)
        pairs = [(i, j) for i in range(n_words) for j in range(i, n_words)]
        n_queries = len({(e.start, e.end) for e in sentence.entities})
        values: dict[tuple, float] = {}
        for turn in TURNS:
            for query in range(n_queries if turn == "object" else 1):
                for kind in KINDS:
                    places = pairs if kind == "match" else list(range(n_words))
                    row = {}
                    for at, place in enumerate(places):
                        for label in range(n_labels[turn]):
                            if rng.random() < 0.3:
                                row[at * n_labels[turn] + label] = float(np.float16(rng.uniform(0.01, 1)))
                                values[turn, kind, query, place, label] = row[at * n_labels[turn] + label]
                    rows[f"{turn}.{kind}"].append(row)
        dense.append(Dense(values))
        labels.append((number, first_query, n_queries))
        first_query += n_queries
    tables = {name: _table(found) for name, found in rows.items()}
    examples = [
        Example(sentence, weight=weight, soft=SoftLabels(tables, *place))
        for sentence, place in zip(sentences, labels, strict=True)
    ]
    return examples, dense


def gold(sentence: Sentence, **settings: float) -> Example:
    """A gold sentence."""
    return replace(Example(sentence), **settings)


def _table(rows: list[dict[int, float]]) -> SoftTable:
    return SoftTable(
        np.array([position for row in rows for position in row], dtype=np.int32),
        np.array([probability for row in rows for probability in row.values()], dtype=np.float16),
        np.cumsum([0, *(len(row) for row in rows)]),
    )
