"""What several runs of one thing gave: their mean, their standard deviation, and how many they were."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cascade_srn.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation of ``n`` values that are given as fractions, 0..1.

    ``sd`` is None for one value: one run says nothing about how much runs differ, and a 0 would read as "they do
    not". Everything in here is a fraction, as it is everywhere in the library; ``str()`` alone is in percent, with
    one decimal: "68.5 ± 0.4", or "68.5" for one value.
    """

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of fractions, 0..1 (a difference of two: -1..1); a percentage is refused."""
        given = [float(value) for value in values]
        if not given:
            raise ConfigError("a mean of no values was asked for; give at least one")
        for value in given:
            if not (math.isfinite(value) and -1 <= value <= 1):
                raise ConfigError(f"{value:g} is no fraction; give values within 0..1, not percentages")
        return cls(statistics.fmean(given), statistics.stdev(given) if len(given) > 1 else None, len(given))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: ``mean`` and ``sd`` as fractions, ``sd`` null for one value, and ``n``."""
        return {"mean": self.mean, "sd": self.sd, "n": self.n}

    def __str__(self) -> str:
        mean = f"{100 * self.mean:.1f}"
        return mean if self.sd is None else f"{mean} ± {100 * self.sd:.1f}"
