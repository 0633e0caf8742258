"""Looks of the error kinds, and the filter keys of sentences.

A filter key is a token such as ``kr4.r0`` that links a number of the report to its sentences. The number links to
``#show=KEY``, and each sentence lists its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cascade_srn.drawing import Mark
from cascade_srn.evaluation.breakdown import break_down, group_in_triples
from cascade_srn.evaluation.errors import (
    ENTITY_KINDS,
    FALSE_POSITIVES,
    RELATION_KINDS,
    Confusion,
    ErrorKind,
    count_entity_confusions,
    count_relation_confusions,
    has_false_positive,
)
from cascade_srn.evaluation.items import SentencePair
from cascade_srn.evaluation.reliability import (
    ReliabilityCurve,
    measure_entity_reliability,
    measure_relation_reliability,
)
from cascade_srn.evaluation.scores import Counts
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# Short forms for the labels of entities, which have less space than arcs. Other kinds are used unchanged.
TAGS = {
    "wrong-type": "type",
    "wrong-boundaries": "words",
    "spurious": "extra",
    "type-missed": "type",
    "boundaries-missed": "words",
}
# CSS classes by position of the kind: vermilion, orange, purple, blue, green and sky blue. Correct items are grey.
COLOURS = ("c5", "c1", "c3", "c4", "c2", "c0")
CORRECT = Mark("correct")


@dataclass(frozen=True)
class KindLook(ErrorKind):
    """A kind of error with its look. Sentences with such an error have the filter key ``key``."""

    key: str
    css: str

    @property
    def missed(self) -> bool:
        """Whether gold items are missed. Otherwise, predictions are wrong."""
        return self.side == "gold"

    @property
    def tag(self) -> str:
        """Short form on a drawing."""
        return TAGS.get(self.kind, self.kind)

    @property
    def title(self) -> str:
        """Short name and name, or the name alone if they are equal."""
        return self.name if self.kind.replace("-", " ") == self.name else f"{self.kind} {self.name}"

    @property
    def mark(self) -> Mark:
        """Look on a drawing."""
        return Mark(self.css, self.tag, f"{self.name}: {self.description}")


def _add_looks(kinds: Sequence[ErrorKind], prefix: str) -> tuple[KindLook, ...]:
    return tuple(
        KindLook(**asdict(kind), key=f"{prefix}{position}", css=colour + " dashed" * (kind.side == "gold"))
        for position, (kind, colour) in enumerate(zip(kinds, COLOURS, strict=True))
    )


ENTITY_LOOKS, RELATION_LOOKS = _add_looks(ENTITY_KINDS, "ke"), _add_looks(RELATION_KINDS, "kr")
LOOKS = {look.kind: look for look in (*ENTITY_LOOKS, *RELATION_LOOKS)}


Record = Mapping[str, Any]


def read_pair(record: Record) -> SentencePair:
    """Read the gold and the predicted sentence from the record of a sentence."""
    where = f"sentence {record['sentence']} of document {record['document']}"
    return SentencePair(where, _read_sentence(record, "gold"), _read_sentence(record, "predicted"))


def _read_sentence(record: Record, side: str) -> Sentence:
    entities = [Span(e["start"], e["end"], e["label"], e["score"]) for e in record[side]["entities"]]
    triples = [
        Triple(entities[r["head"]], r["label"], entities[r["tail"]], r["score"]) for r in record[side]["relations"]
    ]
    return Sentence.from_words(record["words"], entities, triples)


@dataclass(frozen=True)
class FilterKeys:
    """Finds the filter keys of the sentences of one analysis."""

    schema: Schema
    symmetric: str
    given_entities: bool

    @classmethod
    def from_analysis(cls, analysis: Record) -> FilterKeys:
        """Read labels and protocol from an analysis."""
        protocol = analysis["protocol"]
        return cls(Schema.from_dict(analysis["schema"]), protocol["symmetric"], protocol["entities"] == "gold")

    def find(self, record: Record) -> list[str]:
        """Return the keys of a sentence, sorted and unique."""
        found = ["error" if record["n_errors"] else "clean"]
        found += _item_keys(record, "entities", "e", self.schema.entity_types)
        found += _item_keys(record, "relations", "r", self.schema.relation_types)
        pair = read_pair(record)
        found += self._relation_keys(pair)
        found += [f"fp.{name}" for name in FALSE_POSITIVES if has_false_positive(name, pair)]
        if not self.given_entities:
            found += self._entity_keys(pair)
        for breakdown in break_down([pair], schema=self.schema, symmetric=self.symmetric):
            for task, groups in breakdown.tasks.items():
                if task == "ner" and self.given_entities:
                    continue
                for position, counts in enumerate(groups.values()):
                    found += _count_keys(f"g.{breakdown.name}.{task}.{position}", counts)
        return sorted(set(found))

    def _relation_keys(self, pair: SentencePair) -> Iterator[str]:
        schema, symmetric = self.schema, self.symmetric
        yield from _cell_keys(
            "cr", count_relation_confusions([pair], schema=schema, symmetric=symmetric), schema.relation_types
        )
        yield from _bin_keys("br", measure_relation_reliability([pair], schema=schema, symmetric=symmetric))

    def _entity_keys(self, pair: SentencePair) -> Iterator[str]:
        yield from _cell_keys("ce", count_entity_confusions([pair], schema=self.schema), self.schema.entity_types)
        yield from _bin_keys("be", measure_entity_reliability([pair]))
        groups = group_in_triples([pair])
        for name in ("in_triple", "out_of_triple"):
            yield from _count_keys(f"t.{name}", getattr(groups, name))


def _item_keys(record: Record, what: str, prefix: str, labels: tuple[str, ...]) -> Iterator[str]:
    for side in ("gold", "predicted"):
        for item in record[side][what]:
            label = f"{prefix}{labels.index(item['label'])}"
            yield from (label, f"{label}.{side}")
            if item["correct"]:
                yield f"{label}.correct"
                continue
            yield f"{label}.{'missed' if side == 'gold' else 'wrong'}"
            kind = LOOKS[item["kind"]].key
            yield from (kind, f"{kind}.{label}")


def _cell_keys(prefix: str, confusion: Confusion, labels: tuple[str, ...]) -> Iterator[str]:
    axis = [*labels, None]
    for (gold, predicted), n in confusion.cells.items():
        if n:
            yield f"{prefix}.{axis.index(gold)}.{axis.index(predicted)}"


def _bin_keys(prefix: str, curve: ReliabilityCurve) -> Iterator[str]:
    return (f"{prefix}.{position}" for position, one in enumerate(curve.bins) if one.n)


def _count_keys(key: str, counts: Counts) -> Iterator[str]:
    for name in ("gold", "predicted", "correct"):
        if getattr(counts, f"n_{name}"):
            yield f"{key}.{name}"
