"""Find relations of a sentence that violate the constraints of a schema."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cascade_srn.schema import Schema, group_by_entities
from cascade_srn.types import Span, Triple

# Kinds of violations, with a description for reports.
KINDS = {
    "types": "the types of head and tail are not allowed",
    "directions": "a symmetric relation is given in both directions",
    "contradictions": "another relation between the same entities excludes it",
    "cycles": "a relation closes a cycle of an acyclic type",
    "inverses": "the inverse relation is missing",
}


@dataclass(frozen=True)
class Violations:
    """Kinds of violation of the relations to drop from a sentence, and the inverse relations to add to it.

    Inverse relations have the scores of their counterparts.
    """

    dropped: dict[Triple, str]
    missing: tuple[Triple, ...]

    def count(self) -> dict[str, int]:
        """Return the number of violations of each kind, in the order of ``KINDS``."""
        kinds = [*self.dropped.values(), *("inverses" for _ in self.missing)]
        return {kind: kinds.count(kind) for kind in KINDS}


def find_violations(triples: Iterable[Triple], schema: Schema) -> Violations:
    """Find the relations to drop and to add so that a sentence satisfies the constraints of a schema.

    Relations with types that are not allowed are dropped first. Of the two directions of a symmetric relation, the one
    with the better score is kept, and so is the better of two relations that exclude each other. Of a cycle, the
    relation with the lowest score is dropped, with its inverse if it has one. Inverses are then added, if their types
    are allowed. Relations without a score are annotations and count as 1. Equal scores are ordered by position.
    """
    triples = list(triples)
    if _are_simple(triples, schema):
        return Violations({}, ())
    ranked = list(dict.fromkeys(sorted(triples, key=lambda triple: (-_score(triple), triple))))
    dropped = {t: "types" for t in ranked if not schema.allows(t.head.label, t.label, t.tail.label)}
    kept = dict.fromkeys(triple for triple in ranked if triple not in dropped)
    for triple in [triple for triple in kept if triple.label in schema.symmetric]:
        opposite = replace(triple, head=triple.tail, tail=triple.head)
        if triple in kept and opposite in kept and opposite != triple:
            del kept[opposite]
            dropped[opposite] = "directions"
    for group in group_by_entities(kept).values():
        consistent: list[Triple] = []
        for triple in group:
            if any(schema.excludes(triple, better) for better in consistent):
                del kept[triple]
                dropped[triple] = "contradictions"
            else:
                consistent.append(triple)
    for triple in _find_cycles(kept, schema):
        del kept[triple]
        dropped[triple] = "cycles"
    inverses = [inverse for triple in kept if (inverse := find_inverse(triple, schema)) is not None]
    missing = [t for t in inverses if t not in kept and schema.allows(t.head.label, t.label, t.tail.label)]
    return Violations(dropped, tuple(missing))


def _are_simple(triples: Sequence[Triple], schema: Schema) -> bool:
    """Return whether a short look shows that there are no violations, as in most sentences."""
    pairs = set()
    for triple in triples:
        head, label, tail = triple.head, triple.label, triple.tail
        if label in schema.acyclic or label in schema.inverses or not schema.allows(head.label, label, tail.label):
            return False
        # First words tell most entities apart, and are cheaper to compare.
        pair = (head.start, tail.start) if head.start <= tail.start else (tail.start, head.start)
        if pair in pairs:
            return False
        pairs.add(pair)
    return True


def find_inverse(triple: Triple, schema: Schema) -> Triple | None:
    """Return the relation of the opposite direction with the same score, or None if its type has no inverse."""
    label = schema.inverses.get(triple.label)
    return None if label is None else replace(triple, head=triple.tail, label=label, tail=triple.head)


def _score(triple: Triple) -> float:
    return 1.0 if triple.score is None else triple.score


def _find_cycles(ranked: Iterable[Triple], schema: Schema) -> list[Triple]:
    """Return the relations of acyclic types that close a cycle with relations before them, with their inverses."""
    graphs: dict[str, _AcyclicGraph] = {}
    closing = []
    for triple in ranked:
        if triple.label not in schema.acyclic:
            continue
        # A relation and its inverse are one edge of one graph.
        inverse = find_inverse(triple, schema)
        edge = triple if inverse is None or triple.label < inverse.label else inverse
        if not graphs.setdefault(edge.label, _AcyclicGraph()).add(edge.head, edge.tail):
            closing.append(triple)
    return closing


class _AcyclicGraph:
    """A directed graph that refuses edges that close a cycle.

    The nodes that a node reaches, itself included, are the bits of an integer, so that many edges stay cheap.
    """

    def __init__(self) -> None:
        self._numbers: dict[Span, int] = {}
        self._reached: list[int] = []

    def add(self, head: Span, tail: Span) -> bool:
        """Add an edge and return True, or return False if it closes a cycle."""
        start, end = self._number(head), self._number(tail)
        if self._reached[end] >> start & 1:
            return False
        for number, reached in enumerate(self._reached):
            if reached >> start & 1:
                self._reached[number] = reached | self._reached[end]
        return True

    def _number(self, node: Span) -> int:
        number = self._numbers.setdefault(node, len(self._numbers))
        if number == len(self._reached):
            self._reached.append(1 << number)
        return number
