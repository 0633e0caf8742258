"""Read and write label sets: ``schema.json`` of this package and ``types.json`` of SpERT."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cascade_srn.errors import ConfigError, DataError, SchemaError, did_you_mean
from cascade_srn.formats.base import read_strictly
from cascade_srn.formats.files import read_json, replacing
from cascade_srn.formats.json_records import Value
from cascade_srn.schema import Schema


def read_schema(path: str | Path) -> Schema:
    """Read a label set in either form, which is recognised by its fields. Types keep the order of the file.

    Raises:
        DataError: The file cannot be read, or contains no label set.
        SchemaError: The label set is invalid.
    """
    value = read_json(Path(path))
    if type(value.raw) is not dict or not value.raw.keys() & {"entity_types", "entities"}:
        raise DataError(
            f"{path} has neither a field 'entity_types' (schema.json) nor 'entities' (SpERT's types.json)",
            "Pass the file with the types",
        )
    try:
        if "entity_types" in value.raw:
            return Schema.from_dict(value.raw)
        return read_strictly(_from_types, value)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error.problem}", error.hint, option=error.option) from None


def _from_types(value: Value) -> Schema:
    entities, relations = value.field("entities"), value.get("relations")
    for kind in (entities, relations):
        if kind is not None and type(kind.raw) is not dict:
            raise kind.refuse("wrong type", "but an object with one field per type was expected")
    symmetric = set()
    for name in relations.raw if relations else ():
        flag = relations.at(name).get("symmetric") if relations else None
        if flag is not None and type(flag.raw) is not bool:
            raise flag.refuse("wrong type", "but true or false was expected")
        if flag is not None and flag.raw:
            symmetric.add(name)
    return Schema(tuple(entities.raw), tuple(relations.raw if relations else ()), frozenset(symmetric))


def write_schema(schema: Schema, path: str | Path, *, form: str = "schema") -> None:
    """Write a label set as ``schema.json`` or, with ``form="types"``, as SpERT's ``types.json``."""
    if form not in _FORMS:
        raise ConfigError(f"the schema form {form!r} does not exist", did_you_mean(str(form), _FORMS), option="form")
    with replacing(Path(path)) as handle:
        text = json.dumps(_FORMS[form](schema), ensure_ascii=False, indent=2)
        handle.write(f"{text}\n".encode())


def _to_types(schema: Schema) -> dict[str, Any]:
    return {
        "entities": {name: {"short": name, "verbose": name} for name in schema.entity_types},
        "relations": {
            name: {"short": name, "verbose": name, "symmetric": name in schema.symmetric}
            for name in schema.relation_types
        },
    }


_FORMS: dict[str, Callable[[Schema], dict[str, Any]]] = {"schema": Schema.to_dict, "types": _to_types}
