"""Kinds of errors and how many there are of each: what the errors of entities and of relations have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ErrorKind:
    """A kind of error: its short name, its name, and whether it is one of ``predicted`` or of ``gold`` items."""

    kind: str
    name: str
    side: str
    description: str


@dataclass(frozen=True)
class Errors:
    """The number of errors by kind and label, under the name of the protocol that they are errors of."""

    protocol: str
    kinds: tuple[ErrorKind, ...]
    counts: Counter[tuple[str, str]]
    labels: Sequence[str]

    def n(self, kind: str) -> int:
        """How many errors are of a kind."""
        return sum(self.counts[kind, label] for label in self.labels)

    def side(self, side: str) -> int:
        """How many errors are predictions that are wrong (``predicted``), or gold that was missed (``gold``)."""
        return sum(self.n(kind.kind) for kind in self.kinds if kind.side == side)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; ``share`` is of all errors, 0..1."""
        total = self.side("predicted") + self.side("gold")
        kinds = [
            {
                "kind": kind.kind,
                "name": kind.name,
                "side": kind.side,
                "description": kind.description,
                "n": self.n(kind.kind),
                "share": self.n(kind.kind) / total if total else 0.0,
                "per_label": {label: self.counts[kind.kind, label] for label in self.labels},
            }
            for kind in self.kinds
        ]
        return {
            "protocol": self.protocol,
            "n_errors": total,
            "n_wrong": self.side("predicted"),
            "n_missed": self.side("gold"),
            "kinds": kinds,
        }
