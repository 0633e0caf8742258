"""Results of a table: our figures, the verdicts on the claims, and the settings."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cascade_srn.evaluation.scores import Spread
from cascade_srn.lab.reproduction.judging import Verdict
from cascade_srn.lab.reproduction.tables import COLUMNS, COUNT, SCORE, PaperTable, TableRow

FORMAT_VERSION = 1


@dataclass(frozen=True)
class SeedValues:
    """A measured figure with its value for each seed. Scores are fractions."""

    values: tuple[float, ...]
    kind: str = SCORE

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """Sample standard deviation over the seeds; None for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON values."""
        return {"mean": self.mean, "sd": self.sd, "n": len(self.values), "values": list(self.values)}

    def __str__(self) -> str:
        if self.kind == SCORE:
            return str(Spread.of(self.values))
        if self.kind == COUNT:
            return f"{self.mean:.0f}" if self.sd is None else f"{self.mean:.0f} ± {self.sd:.0f}"
        return f"{self.mean:,.0f}"


@dataclass(frozen=True)
class TableResult:
    """The results of a table: our figures by variant and column, and the verdicts on the claims.

    ``about`` holds the settings, and ``speed`` the contents of ``speed.json`` if the table has speeds.
    """

    table: PaperTable
    figures: Mapping[str, Mapping[str, SeedValues]]
    verdicts: tuple[Verdict, ...]
    about: Mapping[str, Any]
    speed: Mapping[str, Any] | None = None

    def figure(self, row: TableRow, column: str) -> SeedValues | None:
        """Return our figure in a cell of the table."""
        if row.variant is None or column in row.without:
            return None
        return self.figures[row.variant].get(column)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON values."""
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
                        if (found := self.figure(row, column)) is not None
                    },
                }
                for row in table.rows
            ],
            "claims": [verdict.to_dict() for verdict in self.verdicts],
            "notes": list(table.notes),
            "about": dict(self.about),
            "speed": None if self.speed is None else dict(self.speed),
        }
