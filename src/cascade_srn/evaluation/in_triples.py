"""Entities in and out of triples: the two groups of the paper's analysis of entity prediction.

A gold entity is **in a triple** when it is the subject or the object of at least one gold relation of its sentence,
and out of triples otherwise: a gold entity has its group whatever was predicted. The paper says no more than that, and
leaves open which group a prediction is in, on which precision depends. Ours: a prediction that is correct is in the
group of the gold entity it is; one that is wrong is no gold entity, and is in a triple when it is the subject or object
of a *predicted* relation. Each prediction is then in one group, and the two groups add up to ``ner``.

The other reading, all predictions by the predicted relations, is kept beside it as ``by_predicted_relations``:
of the entities that the model itself relates to others (or to none), which share is right.

The policy for symmetric relations changes nothing here: which entities are in triples does not depend on direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.alignment import Pair
from cascade_srn.evaluation.groups import count_groups
from cascade_srn.evaluation.scores import Counts
from cascade_srn.types import Sentence, Span

IN_TRIPLE, OUT_OF_TRIPLE = "in_triple", "out_of_triple"


@dataclass(frozen=True)
class InTriples:
    """The counts of both groups; ``by_predicted_relations`` has predicted and correct ones, and no gold."""

    in_triple: Counts
    out_of_triple: Counts
    by_predicted_relations: dict[str, Counts]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            IN_TRIPLE: self.in_triple.to_dict(),
            OUT_OF_TRIPLE: self.out_of_triple.to_dict(),
            "by_predicted_relations": {
                group: {"precision": counts.precision, "n_predicted": counts.n_predicted, "n_correct": counts.n_correct}
                for group, counts in self.by_predicted_relations.items()
            },
        }


def group_in_triples(pairs: Sequence[Pair]) -> InTriples:
    """The scores of entities in and out of triples."""
    groups = (IN_TRIPLE, OUT_OF_TRIPLE)
    counts = count_groups(pairs, groups=groups, items=lambda s: set(s.entities), group_of=triple_group)
    own = {group: Counts() for group in groups}
    for pair in pairs:
        gold = set(pair.gold.entities)
        for entity in pair.predicted.entities:
            own[triple_group(entity, pair.predicted)] += Counts(0, 1, int(entity in gold))
    return InTriples(counts[IN_TRIPLE], counts[OUT_OF_TRIPLE], own)


def triple_group(entity: Span, sentence: Sentence) -> str:
    """Whether an entity of a sentence is the subject or object of one of the sentence's relations."""
    related = any(entity in (triple.head, triple.tail) for triple in sentence.triples)
    return IN_TRIPLE if related else OUT_OF_TRIPLE
