"""What a sentence is found by: for each number of the report, whether the sentence is behind it.

A fact is a short token, and a number of the report links to the sentences that have its token. The tokens:

* ``error``, ``clean``: with or without any error;
* ``e3``, ``r3``: the schema's entity or relation type of this place occurs; ``.gold``, ``.predicted``, ``.correct``,
  ``.wrong`` or ``.missed`` after it: as such;
* ``ke2``, ``kr2``: an error of this kind of entity or relation errors; ``kr2.r3``: on this type;
* ``ce.0.3``, ``cr.0.3``: a cell of the entity or relation confusions, by row and column;
* ``be.9``, ``br.9``: an entity or relation in this bin of the calibration curve;
* ``t.in_triple.gold``: entities in or out of triples;
* ``g.sentence_length.ner.2.gold``: a group of a breakdown.

The last four kinds are found by counting the sentence alone with the functions that counted the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.alignment import Pair
from cascade_srn.evaluation.breakdown import break_down
from cascade_srn.evaluation.calibration import Calibration, calibrate_entities, calibrate_relations
from cascade_srn.evaluation.confusion import Confusion, confuse_entities, confuse_relations
from cascade_srn.evaluation.in_triples import group_in_triples
from cascade_srn.evaluation.report.kinds import Kinds
from cascade_srn.evaluation.scores import Counts
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

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
