"""How the kinds of errors look: a colour for each, a short tag, dashed where gold was missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.drawing import Mark
from cascade_srn.evaluation.breakdown import break_down, group_in_triples
from cascade_srn.evaluation.errors import Confusion, confuse_entities, confuse_relations
from cascade_srn.evaluation.items import Pair
from cascade_srn.evaluation.reliability import Calibration, calibrate_entities, calibrate_relations
from cascade_srn.evaluation.scores import Counts
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# What stands after an entity's label, which has less room than an arc's; a kind without a tag is its own.
TAGS = {
    "wrong-type": "type",
    "wrong-boundaries": "words",
    "spurious": "extra",
    "type-missed": "type",
    "boundaries-missed": "words",
}
# Colours of the drawings, by the place of a kind among the six of entities or of relations: vermilion, orange, purple
# and blue for what is wrong, green and sky blue for what is missed; grey is for what is right.
COLOURS = ("c5", "c1", "c3", "c4", "c2", "c0")
CORRECT = Mark("correct")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of error; ``token`` is what sentences with such errors are found by."""

    kind: str
    name: str
    description: str
    missed: bool
    token: str
    css: str

    @property
    def tag(self) -> str:
        """Its short form on a drawing."""
        return TAGS.get(self.kind, self.kind)

    @property
    def title(self) -> str:
        """Its short name and its name, once where they say the same."""
        return self.name if self.kind.replace("-", " ") == self.name else f"{self.kind} {self.name}"

    @property
    def mark(self) -> Mark:
        """Its look on a drawing."""
        return Mark(self.css, self.tag, f"{self.name}: {self.description}")


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of entity errors and of relation errors, in the order of the analysis."""

    entities: tuple[Kind, ...]
    relations: tuple[Kind, ...]

    @classmethod
    def of(cls, analysis: Mapping[str, Any]) -> Kinds:
        """The kinds that an analysis counts; none of entities where the entities were given."""
        return cls(_kinds(analysis["entity_errors"], "ke"), _kinds(analysis["relation_errors"], "kr"))

    def find(self, kind: str) -> Kind:
        """A kind by its short name."""
        return next(one for one in (*self.entities, *self.relations) if one.kind == kind)


def _kinds(errors: Mapping[str, Any] | None, prefix: str) -> tuple[Kind, ...]:
    records: Sequence[Mapping[str, Any]] = errors["kinds"] if errors else ()
    return tuple(
        Kind(
            kind=record["kind"],
            name=record["name"],
            description=record["description"],
            missed=record["side"] == "gold",
            token=f"{prefix}{place}",
            css=COLOURS[place % len(COLOURS)] + (" dashed" if record["side"] == "gold" else ""),
        )
        for place, record in enumerate(records)
    )


Record = Mapping[str, Any]


def pair_of(record: Record) -> Pair:
    """The gold and the predicted sentence of a sentence's record."""
    where = f"sentence {record['sentence']} of document {record['document']}"
    return Pair(where, _sentence(record, "gold"), _sentence(record, "predicted"))


def _sentence(record: Record, side: str) -> Sentence:
    entities = [Span(e["start"], e["end"], e["label"], e["score"]) for e in record[side]["entities"]]
    triples = [
        Triple(entities[r["head"]], r["label"], entities[r["tail"]], r["score"]) for r in record[side]["relations"]
    ]
    return Sentence.from_words(record["words"], entities, triples)


@dataclass(frozen=True)
class FactFinder:
    """Finds the tokens of sentences of one analysis."""

    schema: Schema
    symmetric: str
    given_entities: bool
    kinds: Kinds

    @classmethod
    def of(cls, analysis: Record) -> FactFinder:
        """For the sentences of this analysis."""
        protocol = analysis["protocol"]
        schema = Schema.from_dict(analysis["schema"])
        return cls(schema, protocol["symmetric"], protocol["entities"] == "gold", Kinds.of(analysis))

    def facts(self, record: Record) -> list[str]:
        """The tokens of a sentence's record, each once, in an order that is the same every time."""
        found = ["error" if record["n_errors"] else "clean"]
        found += _judged(record, "entities", "e", self.schema.entity_types, self.kinds)
        found += _judged(record, "relations", "r", self.schema.relation_types, self.kinds)
        pair = pair_of(record)
        found += self._of_relations(pair)
        if not self.given_entities:
            found += self._of_entities(pair)
        for breakdown in break_down([pair], schema=self.schema, symmetric=self.symmetric):
            for task, groups in breakdown.tasks.items():
                if task == "ner" and self.given_entities:
                    continue
                for place, counts in enumerate(groups.values()):
                    found += _counted(f"g.{breakdown.name}.{task}.{place}", counts)
        return sorted(set(found))

    def _of_relations(self, pair: Pair) -> Iterator[str]:
        schema, symmetric = self.schema, self.symmetric
        yield from _cells("cr", confuse_relations([pair], schema=schema, symmetric=symmetric), schema.relation_types)
        yield from _bins("br", calibrate_relations([pair], schema=schema, symmetric=symmetric))

    def _of_entities(self, pair: Pair) -> Iterator[str]:
        yield from _cells("ce", confuse_entities([pair], schema=self.schema), self.schema.entity_types)
        yield from _bins("be", calibrate_entities([pair]))
        groups = group_in_triples([pair])
        for name in ("in_triple", "out_of_triple"):
            yield from _counted(f"t.{name}", getattr(groups, name))


def _judged(record: Record, what: str, prefix: str, labels: tuple[str, ...], kinds: Kinds) -> Iterator[str]:
    """Labels and kinds of errors: what the record itself says of each entity or relation."""
    for side in ("gold", "predicted"):
        for item in record[side][what]:
            label = f"{prefix}{labels.index(item['label'])}"
            yield from (label, f"{label}.{side}")
            if item["correct"]:
                yield f"{label}.correct"
                continue
            yield f"{label}.{'missed' if side == 'gold' else 'wrong'}"
            kind = kinds.find(item["kind"]).token
            yield from (kind, f"{kind}.{label}")


def _cells(prefix: str, confusion: Confusion, labels: tuple[str, ...]) -> Iterator[str]:
    axis = [*labels, None]
    for (gold, predicted), n in confusion.cells.items():
        if n:
            yield f"{prefix}.{axis.index(gold)}.{axis.index(predicted)}"


def _bins(prefix: str, calibration: Calibration) -> Iterator[str]:
    return (f"{prefix}.{place}" for place, one in enumerate(calibration.bins) if one.n)


def _counted(token: str, counts: Counts) -> Iterator[str]:
    for name in ("gold", "predicted", "correct"):
        if getattr(counts, f"n_{name}"):
            yield f"{token}.{name}"
