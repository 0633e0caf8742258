"""Read the id, the text and other fields of a record."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from cascade_srn.errors import DataError, did_you_mean, short_repr, suggest
from cascade_srn.formats.json_records import is_encodable
from cascade_srn.storage.files import ENCODING_HINT

KEPT_TYPES = ("string", "int64", "float64", "bool")
"""Types that a field to keep can be declared as."""
DEFAULT_ID = "id"
"""Field that ids are read from if no other is named."""
# Length and number of names in a hint.
_MAX_NAME, _MAX_NAMES = 40, 12
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}(\.0*)?")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class BadValueError(DataError):
    """A record or one of its values cannot be used. The problem does not name the place."""

    def at(self, place: str) -> DataError:
        """Return the error with the place of the record."""
        return DataError(f"{place}: {self.problem}", self.hint, option=self.option)


def suggest_field(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known field, or the first ones. A file without a header has long names."""
    clean = [" ".join(key.encode("utf-8", "replace").decode().split()) for key in known]
    shown = sorted(key if len(key) <= _MAX_NAME else f"{key[:_MAX_NAME]}…" for key in clean if key)
    return suggest(name, shown) or did_you_mean(name, shown[:_MAX_NAMES])


def check_columns(address: str, columns: Collection[str], required: Mapping[str, str], used: Iterable[str]) -> None:
    """Raise a DataError if a table lacks a column, or has one of those that are used more than once.

    Args:
        address: The table.
        columns: Its columns.
        required: The names of columns that must exist, each with the option that names it.
        used: Names of columns that are read if they exist.
    """
    columns = list(columns)
    if repeated := next((name for name in used if columns.count(name) > 1), None):
        raise DataError(f"{address}: the column {repeated!r} occurs more than once", "Rename one of them")
    for name, option in required.items():
        if name not in columns:
            raise DataError(f"{address} has no column {name!r}", suggest_field(name, columns), option=option)


def read_id(value: Any) -> str:
    """Return an id; empty if there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | list | dict):
        raise BadValueError(f"the id is {short_repr(value)}, not a string or a number")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas turns a column of integers with gaps into floats
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return _check_string(str(value), "the id")


def read_text(values: Mapping[str, Any], field: str) -> str:
    """Return the text of a record."""
    if field not in values:
        raise BadValueError(f"the record has no field {field!r}", suggest_field(field, values), option="field")
    value = values[field]
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        kind = "null" if value is None else short_repr(value)
        hint = "Correct the field, or name the field with the text"
        raise BadValueError(f"the field {field!r} is {kind}, not a string", hint, option="field")
    return _check_string(value, f"the field {field!r}")


def _check_string(value: str, what: str) -> str:
    if not is_encodable(value):
        problem = f"{what} is not valid UTF-8"
        if any("\udc80" <= char <= "\udcff" for char in value):  # bytes of a table that were not decoded
            raise BadValueError(problem, ENCODING_HINT, option="encoding")
        raise BadValueError(problem, "Correct it, or remove the record")
    return value


def to_json_value(value: Any, name: str) -> Any:
    """Return a value that JSON can hold. Dates and other values of Parquet become text."""
    if isinstance(value, list | tuple):
        return [to_json_value(item, name) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json_value(item, name) for key, item in value.items()}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _check_string(str(value), f"the field {name!r}")


def convert(value: Any, kind: str | None, name: str) -> Any:
    """Return a value as a declared type, or unchanged if ``kind`` is None."""
    if value is None:
        return None
    if isinstance(value, str):
        _check_string(value, f"the field {name!r}")
    if kind is None:
        return value
    if isinstance(value, float) and math.isnan(value):
        return None  # pandas writes it for a missing value
    if kind == "string":
        return _to_string(value)
    if isinstance(value, str) and not value.strip():
        return None  # an empty cell
    converters: dict[str, Callable[[Any], Any]] = {"int64": _to_integer, "float64": _to_float, "bool": _to_boolean}
    converted = converters[kind](value)
    if converted is None:
        raise BadValueError(f"the field {name!r} is {short_repr(value)}, not of type {kind}")
    return converted


def _to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    is_json = isinstance(value, bool | int | float | list | dict)
    text = json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)
    return text.encode("utf-8", "replace").decode("utf-8")


def _to_integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            return None
        value = int(value.strip().partition(".")[0])
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _to_float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _to_boolean(value: Any) -> bool | None:
    return _BOOLEANS.get(str(value).strip().lower()) if isinstance(value, bool | int | str) else None
