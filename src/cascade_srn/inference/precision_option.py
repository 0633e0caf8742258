"""Parse the option ``precision``. The command line imports this module, so it needs no library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from cascade_srn.config import PRECISIONS, require_range
from cascade_srn.errors import ConfigError

KINDS = ("entities", "relations")
NOTIONS = ("boundaries", "strict")
"""What counts as correct: boundaries alone, or the entity types too."""
PrecisionLike = str | float | Mapping[str, float]
"""Levels of precision, the number format of the encoder, or both: 0.6, {"relations": 0.6}, "bf16", "0.6,bf16"."""


class PrecisionChoice(NamedTuple):
    """What a user asks for: the number format of the encoder, the level of each kind or label, and what is correct."""

    number_format: str = "auto"
    levels: Mapping[str, float] = {}
    notion: str = "strict"


def parse_precision(given: PrecisionLike) -> PrecisionChoice:
    """Parse the option ``precision``.

    Example:
        >>> parse_precision("relations=0.6,USED-FOR=0.7,bf16")
        PrecisionChoice(number_format='bf16', levels={'relations': 0.6, 'USED-FOR': 0.7}, notion='strict')
        >>> parse_precision(0.6).levels
        {'entities': 0.6, 'relations': 0.6}
    """
    if isinstance(given, str):
        parts: Iterable[tuple[str, Any]] = [_parse_part(part.strip()) for part in given.split(",")]
    elif isinstance(given, Mapping):
        parts = given.items()
    else:
        parts = [("", given)]
    choice = PrecisionChoice()
    levels: dict[str, float] = {}
    for name, value in parts:
        if value in PRECISIONS:
            choice = choice._replace(number_format=value)
        elif value in NOTIONS:
            choice = choice._replace(notion=value)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(
                f"precision is {value!r}",
                f"Give a level such as 0.6, or one of {', '.join(PRECISIONS)}",
                option="precision",
            )
        else:
            require_range("the precision", value, 0, 1, option="precision")
            levels |= {key: float(value) for key in ((name,) if name else KINDS)}
    return choice._replace(levels=levels)


def _parse_part(part: str) -> tuple[str, Any]:
    name, _, number = part.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        return "", part


def number_format(precision: PrecisionLike) -> str:
    """Return the number format of the encoder that the option ``precision`` asks for."""
    return parse_precision(precision).number_format
