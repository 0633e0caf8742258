"""Thresholds as callers give them: one number, some by turn, some by label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.schema import Schema

# Those that are not of a label.
NAMED = ("entity", "subject", "object", "related", "relation")
# The turn that the thresholds of labels belong to.
_TURNS = {"entity_types": "entity", "relation_types": "object"}
# What else belongs to the threshold of a turn, as it is without it.
_BELONGING: Mapping[str, Mapping[str, Any]] = {
    "entity": {"entity_types": {}, "related": None},
    "object": {"relation_types": {}},
}

ThresholdsLike = Thresholds | float | Mapping[str, Any]
"""Thresholds in full, one number for all three turns, or a mapping of those that differ from the model's own."""


def chosen_thresholds(given: ThresholdsLike | None, own: Thresholds) -> Thresholds:
    """What a caller means, given the model's ``own`` thresholds.

    One number holds in all three turns, for every label. A mapping has the names of :class:`Thresholds`; what it
    leaves out stays as it is, other labels included, but that a turn's new threshold also takes the place of those of
    its labels, and that of entities the place of ``related``.
    """
    if given is None:
        return own
    if isinstance(given, Thresholds):
        return given
    if isinstance(given, Mapping):
        changes = Thresholds.from_dict(given, "thresholds")
        values = {name: getattr(changes, name) for name in given}
        for turn, belonging in _BELONGING.items():
            if turn in values:
                values = {**belonging, **values}
        for kind, turn in _TURNS.items():
            if kind in values and turn not in values:
                values[kind] = {**getattr(own, kind), **values[kind]}
        return replace(own, **values)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigError(
            f"thresholds is {given!r} ({type(given).__name__}); give a number from 0 to 1, a mapping such as "
            '{"entity": 0.4}, or Thresholds'
        )
    return Thresholds(entity=float(given), subject=float(given), object=float(given))


def parse_thresholds(given: Sequence[str], schema: Schema, own: Thresholds) -> Thresholds:
    """Thresholds from a command line: ``0.6`` for all turns, ``entity=0.4`` for one, ``Task=0.3`` for a label.

    ``related=0.2`` is for entities with a relation, ``relation=0.5`` for relations as a whole. They are taken one after
    the other: a turn's threshold also takes the place of what was said before of its labels. Where a label has one of
    those names, or two labels the same, what is meant cannot be told here, and is refused.
    """
    thresholds = own
    for text in given:
        name, parted, number = text.rpartition("=")
        value = _number(number, text)
        if not parted:
            thresholds = chosen_thresholds(value, thresholds)
        elif name in NAMED:
            _refuse_label_called(name, value, schema)
            thresholds = chosen_thresholds({name: value}, thresholds)
        else:
            thresholds = chosen_thresholds({_kind_of(name, schema): {name: value}}, thresholds)
    return thresholds


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"the threshold {whole!r} is no number; give one from 0 to 1, alone or as in entity=0.4 or a label=0.4"
        ) from None


def _refuse_label_called(name: str, value: float, schema: Schema) -> None:
    kinds = _kinds_of(name, schema)
    if kinds:
        meanings = ({name: value}, *({kind: {name: value}} for kind in kinds))
        labels = " or ".join("an entity type" if kind == "entity_types" else "a relation type" for kind in kinds)
        raise ConfigError(
            f"the threshold '{name}={value}' could be the one that is called {name} or that of {labels} of the same "
            f"name; say which in Python, by {' or '.join(f'thresholds={meaning}' for meaning in meanings)}"
        )


def _kind_of(label: str, schema: Schema) -> str:
    kinds = _kinds_of(label, schema)
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise ConfigError(
            f"the threshold of {label!r} could be that of an entity type or of a relation type; set that of the turn, "
            "entity or object"
        )
    known = (*NAMED, *schema.entity_types, *schema.relation_types)
    raise ConfigError(
        f"there is a threshold for {label!r}, which is neither a turn nor a label. {did_you_mean(label, known)}"
    )


def _kinds_of(label: str, schema: Schema) -> list[str]:
    return [kind for kind in ("entity_types", "relation_types") if label in getattr(schema, kind)]
