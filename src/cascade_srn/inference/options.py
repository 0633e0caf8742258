"""Thresholds and precision as callers give them. The command line imports this module, so it needs no library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cascade_srn.config import PRECISIONS, Thresholds, require_range
from cascade_srn.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from cascade_srn.schema import Schema

# Thresholds that are not those of a label.
NAMED = ("entity", "subject", "object", "related", "relation")
# The thresholds that refine the threshold of a turn, and their defaults. Setting the turn's threshold resets them.
_REFINEMENTS: Mapping[str, Mapping[str, Any]] = {
    "entity": {"entity_types": {}, "related": None},
    "object": {"relation_types": {}},
}

ThresholdsLike = Thresholds | float | Mapping[str, Any]
"""All thresholds, one number for all three turns, or a mapping with the thresholds that differ from the model's."""


def resolve_thresholds(given: ThresholdsLike | None, own: Thresholds, schema: Schema | None = None) -> Thresholds:
    """Combine the thresholds of a caller with those of a model.

    Args:
        given: None for those of the model, one number for all turns and labels, or a mapping with the fields of
            :class:`Thresholds`. A field that is not in the mapping keeps its value, with one exception: ``entity``
            resets ``entity_types`` and ``related``, and ``object`` resets ``relation_types``.
        own: The thresholds of the model.
        schema: The labels of the model. With it, the mapping may have labels as keys.

    Raises:
        ConfigError: If a threshold is not from 0 to 1, or a key is unknown, or a label of both kinds.

    Example:
        >>> own = Thresholds(entity_types={"Task": 0.3}, relation_types={"PART-OF": 0.4})
        >>> chosen = resolve_thresholds({"entity": 0.6, "relation_types": {"USED-FOR": 0.2}}, own)
        >>> chosen.entity, chosen.entity_types, chosen.relation_types
        (0.6, {}, {'PART-OF': 0.4, 'USED-FOR': 0.2})
    """
    if given is None:
        return own
    if isinstance(given, Thresholds):
        return given
    if isinstance(given, Mapping):
        if schema is not None:
            given = _sort_labels(given, schema)
        changes = Thresholds.from_dict(given, "thresholds")
        values = {name: getattr(changes, name) for name in given}
        for turn, refinements in _REFINEMENTS.items():
            if turn in values:
                values = {**refinements, **values}
            else:
                # New thresholds of labels are added to those of other labels.
                labels = next(iter(refinements))
                if labels in values:
                    values[labels] = {**getattr(own, labels), **values[labels]}
        return replace(own, **values)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigError(
            f"thresholds is {given!r} ({type(given).__name__})",
            'Give a number from 0 to 1, a mapping such as {"entity": 0.4}, or Thresholds',
        )
    return Thresholds(entity=float(given), subject=float(given), object=float(given))


def _sort_labels(given: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Move the labels among the keys of a mapping to ``entity_types`` and ``relation_types``."""
    names = [field.name for field in fields(Thresholds)]
    sorted_: dict[str, Any] = {key: value for key, value in given.items() if key in names}
    for label in (key for key in given if key not in names):
        kinds = [kind for kind in ("entity_types", "relation_types") if label in getattr(schema, kind)]
        if not kinds:
            known = (*names, *schema.entity_types, *schema.relation_types)
            raise ConfigError(
                f"the threshold {label!r} is neither for a turn nor for a label", did_you_mean(str(label), known)
            )
        if len(kinds) > 1:
            python = " or ".join(str({kind: {label: given[label]}}) for kind in kinds)
            raise ConfigError(f"the threshold {label!r} is ambiguous", f"Give {python}")
        sorted_[kinds[0]] = {**sorted_.get(kinds[0], {}), label: given[label]}
    for kind in ("entity_types", "relation_types"):
        labels = sorted_.get(kind, {})
        for label in labels if isinstance(labels, Mapping) else ():
            if label not in getattr(schema, kind):
                hint = did_you_mean(str(label), getattr(schema, kind))
                raise ConfigError(f"the threshold {label!r} of {kind} is for an unknown label", hint)
    return sorted_


def parse_thresholds(given: Sequence[str], schema: Schema, own: Thresholds) -> Thresholds:
    """Parse thresholds of a command line.

    Args:
        given: ``0.6`` for all turns, ``entity=0.4`` for one of :data:`NAMED`, or ``Task=0.3`` for a label. They are
            applied in order, each by the rules of :func:`resolve_thresholds`.
        schema: The labels of the model.
        own: The thresholds of the model.
    """
    thresholds = own
    for text in given:
        name, separator, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise ConfigError(
                f"the threshold {text!r} is not a number",
                "Give a number from 0 to 1, alone or with a name, as in entity=0.4",
            ) from None
        meanings: list[ThresholdsLike] = _meanings(name, value, schema) if separator else [value]
        if not meanings:
            raise ConfigError(
                f"the threshold {text!r} is neither for a turn nor for a label",
                did_you_mean(name, (*NAMED, *schema.entity_types, *schema.relation_types)),
            )
        if len(meanings) > 1:
            python = " or ".join(f"thresholds={meaning}" for meaning in meanings)
            raise ConfigError(f"the threshold {text!r} is ambiguous", f"Set it in Python: {python}")
        thresholds = resolve_thresholds(meanings[0], thresholds)
    return thresholds


def _meanings(name: str, value: float, schema: Schema) -> list[ThresholdsLike]:
    """Return what a named threshold can mean, each as a mapping for :func:`resolve_thresholds`."""
    meanings: list[ThresholdsLike] = [{name: value}] if name in NAMED else []
    for kind in ("entity_types", "relation_types"):
        if name in getattr(schema, kind):
            meanings.append({kind: {name: value}})
    return meanings


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
