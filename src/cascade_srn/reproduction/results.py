"""A table filled: the figures of each row beside the paper's, the claims, and what all of it was measured with."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.summary import Spread
from cascade_srn.reproduction.judging import Verdict
from cascade_srn.reproduction.tables import COLUMNS, COUNT, SCORE, Row, Table

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Measured:
    """A figure of ours: its value for each seed, scores as fractions."""

    values: tuple[float, ...]
    kind: str = SCORE

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """The sample standard deviation; None for one seed, which says nothing of how much seeds differ."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"mean": self.mean, "sd": self.sd, "n": len(self.values), "values": list(self.values)}

    def __str__(self) -> str:
        if self.kind == SCORE:
            return str(Spread.of(self.values))
        if self.kind == COUNT:
            return f"{self.mean:.0f}" if self.sd is None else f"{self.mean:.0f} ± {self.sd:.0f}"
        return f"{self.mean:,.0f}"


@dataclass(frozen=True)
class TableResult:
    """A table with its figures by variant and column, and the verdicts on its claims.

    ``about`` says with what encoder, data, seeds and settings; ``speed`` on what hardware, where speed was measured.
    """

    table: Table
    figures: Mapping[str, Mapping[str, Measured]]
    verdicts: tuple[Verdict, ...]
    about: Mapping[str, Any]
    speed: Mapping[str, Any] | None = None

    def measured(self, row: Row, column: str) -> Measured | None:
        """Our figure in a cell, where there is one."""
        if row.variant is None or column in row.without:
            return None
        return self.figures[row.variant].get(column)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        table = self.table
        return {
            "format_version": FORMAT_VERSION,
            "table": table.name,
            "label": table.label,
            "title": table.title,
            "columns": {column: COLUMNS[column].heading for column in table.columns},
            "rows": [
                {
                    "name": row.name,
                    "variant": row.variant,
                    "paper": dict(row.paper),
                    "ours": {
                        column: found.to_dict()
                        for column in table.our_columns
                        if (found := self.measured(row, column)) is not None
                    },
                }
                for row in table.rows
            ],
            "claims": [verdict.to_dict() for verdict in self.verdicts],
            "notes": list(table.notes),
            "about": dict(self.about),
            "speed": None if self.speed is None else dict(self.speed),
        }
