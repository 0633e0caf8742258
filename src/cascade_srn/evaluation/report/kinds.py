"""How the kinds of errors look: a colour for each, a short tag, dashed where gold was missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.drawing import Mark

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
