"""Count relations that violate the constraints of the schema, in gold and in predictions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.inference.constraints import KINDS, find_violations
from cascade_srn.schema import Schema
from cascade_srn.types import Document


@dataclass(frozen=True)
class ViolationCounts:
    """Violations by kind, and the number of relations that were checked. A repeated relation counts once."""

    by_kind: dict[str, int]
    n_relations: int

    @property
    def total(self) -> int:
        """Number of all violations."""
        return sum(self.by_kind.values())

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {"n_relations": self.n_relations, "n_violations": self.total, **self.by_kind}


def count_violations(documents: Iterable[Document], schema: Schema) -> ViolationCounts:
    """Count the violations of a schema in documents."""
    counts: Counter[str] = Counter()
    n_relations = 0
    for sentence in (sentence for document in documents for sentence in document.sentences):
        counts.update(find_violations(sentence.triples, schema).count())
        n_relations += len(set(sentence.triples))
    return ViolationCounts({kind: counts[kind] for kind in KINDS}, n_relations)
