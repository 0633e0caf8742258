"""Which labels there are, in which order, and how an entity or a relation of each looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cascade_srn.drawing.colours import colour_class
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple


@dataclass(frozen=True, slots=True)
class Mark:
    """How one entity or relation looks: CSS classes that set its colour, a tag after its label, a note on hover."""

    css: str
    tag: str = ""
    note: str = ""


Marks = Mapping[Span | Triple, Mark]


@dataclass(frozen=True, slots=True)
class Labels:
    """Entity types and relation types in the order that decides their colours, and the symmetric relations."""

    entity_types: tuple[str, ...] = ()
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, schema: Schema | None, sentences: Iterable[Sentence]) -> Labels:
        """Those of the schema, then in alphabetical order those of the sentences that it does not hold."""
        sentences = list(sentences)
        known = cls() if schema is None else cls(schema.entity_types, schema.relation_types, schema.symmetric)
        entities = {entity.label for sentence in sentences for entity in sentence.entities}
        relations = {triple.label for sentence in sentences for triple in sentence.triples}
        return cls(
            known.entity_types + tuple(sorted(entities - set(known.entity_types))),
            known.relation_types + tuple(sorted(relations - set(known.relation_types))),
            known.symmetric,
        )

    def css(self, item: Span | Triple) -> str:
        """The classes that give an entity or a relation the colour of its label."""
        return colour_class(item.label, self.entity_types if isinstance(item, Span) else self.relation_types)

    def marks(self, sentence: Sentence) -> dict[Span | Triple, Mark]:
        """Every entity and relation of a sentence in the colour of its label."""
        items: list[Span | Triple] = [*sentence.entities, *sentence.triples]
        return {item: Mark(self.css(item)) for item in items}
