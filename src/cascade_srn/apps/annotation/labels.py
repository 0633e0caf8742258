"""Labels of a project with their definitions, and the file that a user writes them in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cascade_srn.errors import DataError, SchemaError, did_you_mean, short_repr
from cascade_srn.formats.files import read_bytes
from cascade_srn.formats.registry import read_schema
from cascade_srn.schema import Schema

_SECTIONS = ("entities", "relations")
_FIELDS = ("definition", "symmetric")


@dataclass(frozen=True)
class Labels:
    """The label set of a project.

    Attributes:
        schema: Entity types, relation types and symmetric relations.
        definitions: Definition by kind ("entities" or "relations") and label. Labels may have none.
    """

    schema: Schema
    definitions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def define(self, kind: str, label: str) -> str:
        """Return the definition of a label, or an empty string."""
        return self.definitions.get(kind, {}).get(label, "")

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``GET /api/project`` and of ``project.json``."""
        schema = self.schema
        return {
            "entities": [
                {"label": label, "definition": self.define("entities", label)} for label in schema.entity_types
            ],
            "relations": [
                {
                    "label": label,
                    "definition": self.define("relations", label),
                    "symmetric": label in schema.symmetric,
                }
                for label in schema.relation_types
            ],
        }

    @classmethod
    def from_dict(cls, record: Any, where: str = "the labels") -> Labels:
        """Read labels from plain values, in any of the forms of :func:`read_labels`.

        Raises:
            SchemaError: The labels are malformed, repeated or missing.
        """
        if not isinstance(record, Mapping):
            raise SchemaError(f"{where} are {short_repr(record)}", "Give a mapping with 'entities' and 'relations'")
        for key in record:
            if key not in _SECTIONS:
                raise SchemaError(f"{where} have an unknown section {key!r}", did_you_mean(str(key), _SECTIONS))
        found = {kind: _read_section(record.get(kind), f"{kind} of {where}") for kind in _SECTIONS}
        symmetric = frozenset(label for label, values in found["relations"] if values.get("symmetric"))
        names = {kind: tuple(label for label, _ in entries) for kind, entries in found.items()}
        try:
            schema = Schema(names["entities"], names["relations"], symmetric)
        except SchemaError as error:
            raise SchemaError(f"{where}: {error.problem}", error.hint) from None
        definitions = {
            kind: {label: str(values["definition"]).strip() for label, values in entries if values.get("definition")}
            for kind, entries in found.items()
        }
        return cls(schema, definitions)


def read_labels(path: str | Path) -> Labels:
    """Read a file with labels.

    The file is YAML, or a JSON file that :func:`cascade_srn.read_schema` accepts. In YAML, a section is a list of
    names, or a mapping of names to definitions, or to mappings with ``definition`` and ``symmetric``::

        entities:
          Method: A technique, model or algorithm.
          Task: A problem to solve.
        relations:
          USED-FOR: The head is used for the tail.
          COMPARE: {definition: Two things are compared., symmetric: true}

    Raises:
        DataError: The file cannot be read, or is not YAML.
        SchemaError: The labels are malformed.
    """
    path = Path(path)
    try:
        record = yaml.safe_load(read_bytes(path))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is not YAML ({reason})", "Check its indentation and quotes", option="labels") from None
    if isinstance(record, Mapping) and "entity_types" in record:
        return Labels(read_schema(path))
    return Labels.from_dict(record, str(path))


def _read_section(section: Any, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the labels of a section with their fields."""
    if section is None:
        return []
    if isinstance(section, Mapping):
        return [(_name(label, where), _fields(value, f"{label!r} in {where}")) for label, value in section.items()]
    if isinstance(section, Iterable) and not isinstance(section, str):
        return [_read_item(item, where) for item in section]
    raise SchemaError(
        f"{where} are {short_repr(section)}", "Give a list of names, or a mapping of names to definitions"
    )


def _read_item(item: Any, where: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(item, Mapping) and "label" in item:
        rest = {key: value for key, value in item.items() if key != "label"}
        return _name(item["label"], where), _fields(rest, f"{item['label']!r} in {where}")
    if isinstance(item, Mapping) and len(item) == 1:
        ((label, value),) = item.items()
        return _name(label, where), _fields(value, f"{label!r} in {where}")
    return _name(item, where), {}


def _name(value: Any, where: str) -> str:
    # YAML reads No, On and 1 as other types than strings.
    if not isinstance(value, str) or not value.strip():
        raise SchemaError(f"{where} have the label {short_repr(value)}", "Write names in quotes")
    return value.strip()


def _fields(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"definition": value}
    if not isinstance(value, Mapping):
        raise SchemaError(f"the definition of {where} is {short_repr(value)}", "Give a text")
    for key in value:
        if key not in _FIELDS:
            raise SchemaError(f"{where} has an unknown field {key!r}", did_you_mean(str(key), _FIELDS))
    if not isinstance(value.get("symmetric", False), bool):
        raise SchemaError(f"'symmetric' of {where} is {short_repr(value['symmetric'])}", "Give true or false")
    return value
