"""Which fields of the input are read, and how their values become a row."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cascade_srn.apps.corpus.shards import Row
from cascade_srn.apps.corpus.tables import column_names
from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.errors import ConfigError, did_you_mean, short_repr, suggest
from cascade_srn.formats.json_records import is_encodable
from cascade_srn.inputs.records import BadValueError

FORMATS = ("jsonl", "parquet", "csv", "tsv", "text")
KEPT_TYPES = ("string", "int64", "float64", "bool")
"""Types that a column to keep can be declared as."""
DEFAULT_ID = "id"
"""Field that ids are read from if no other is named."""
# Length and number of names in a hint.
_MAX_NAME, _MAX_NAMES = 40, 12
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}(\.0*)?")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class InputSettings(Settings):
    """What to read from the input, and how to cut it into shards.

    Attributes:
        field: Field or column with the text. Text files have none.
        id_field: Field with the id. Without it, ``id`` is used where records have it. A record without an id gets the
            name of its file and its row.
        keep: Fields that are carried along to the table of documents, each a name such as "title", or a name and a
            type such as "year:int64". Types are string, int64, float64 and bool. Without one, columns of Parquet keep
            their type, and others are strings.
        format: Format of all files: "jsonl", "parquet", "csv", "tsv" or "text". Guessed for each file if None.
        shard_documents: Largest number of documents in a shard.
        shard_bytes: Largest size of the records of a shard, in bytes, unless a single record is larger.
        limit: Number of rows to read from the start of the input; None for all.
    """

    field: str = "text"
    id_field: str | None = None
    keep: tuple[str, ...] = ()
    format: str | None = None
    shard_documents: int = 1000
    shard_bytes: int = 4 << 20
    limit: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", tuple(self.keep))
        if self.format is not None:
            require_choice("format", self.format, FORMATS, option="input_format")
        require_range("shard_documents", self.shard_documents, 1, option="shard_documents")
        require_range("shard_bytes", self.shard_bytes, 1, option="shard_bytes")
        if self.limit is not None:
            require_range("limit", self.limit, 1, option="limit")
        taken = {name.casefold() for name in column_names("documents")}
        for name, _ in map(_split_type, self.keep):
            if name.casefold() in taken:
                # Names of columns differ only by case in DuckDB and Spark.
                raise ConfigError(
                    f"keep contains {name!r}, but the table of documents has a column with this name",
                    "Leave it out, or rename it in the input",
                    option="keep",
                )
            taken.add(name.casefold())

    @property
    def kept(self) -> dict[str, str | None]:
        """Names of the fields to keep, each with its declared type or None."""
        return dict(_split_type(name) for name in self.keep)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all fields that are read, without the default of the id."""
        given = (self.field, *(() if self.id_field is None else (self.id_field,)), *self.kept)
        return tuple(dict.fromkeys(given))


def _split_type(name: str) -> tuple[str, str | None]:
    start, colon, kind = name.rpartition(":")
    return (start, kind) if colon and start and kind in KEPT_TYPES else (name, None)


def suggest_field(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known field, or the first ones. A file without a header has long names."""
    clean = [" ".join(key.encode("utf-8", "replace").decode().split()) for key in known]
    shown = sorted(key if len(key) <= _MAX_NAME else f"{key[:_MAX_NAME]}…" for key in clean if key)
    return suggest(name, shown) or did_you_mean(name, shown[:_MAX_NAMES])


def make_row(
    values: Mapping[str, Any], settings: InputSettings, types: Mapping[str, str | None], empty: Row, *, place: str
) -> Row:
    """Return the row of a record; a row with a problem if a value cannot be used.

    Args:
        values: Values of the record by field.
        settings: Fields to read.
        types: Types of the fields to keep; None for a value that keeps its type.
        empty: Row without a text, whose id is used if the record has none.
        place: Start of messages, such as ``"line 3: "``; may be empty.
    """
    id = empty.id
    try:
        id = _read_id(values.get(settings.id_field or DEFAULT_ID)) or id
        text = _read_text(values, settings.field)
        kept = {name: convert(values.get(name), kind, name) for name, kind in types.items()}
    except BadValueError as problem:
        return replace(empty, id=id, problem=f"{place}{problem}")
    return replace(empty, id=id, text=text, kept=kept)


def _read_id(value: Any) -> str:
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


def _read_text(values: Mapping[str, Any], field: str) -> str:
    if field not in values:
        raise BadValueError(f"the record has no field {field!r}")
    value = values[field]
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        kind = "null" if value is None else short_repr(value)
        raise BadValueError(f"the field {field!r} is {kind}, not a string")
    return _check_string(value, f"the field {field!r}")


def _check_string(value: str, what: str) -> str:
    if not is_encodable(value):
        raise BadValueError(f"{what} is not valid UTF-8")
    return value


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
    converted = {"int64": _to_integer, "float64": _to_float, "bool": _to_boolean}[kind](value)
    if converted is None:
        raise BadValueError(f"the field {name!r} is {short_repr(value)}, not of type {kind}")
    return converted


def _to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = json.dumps(value, ensure_ascii=False, default=str) if _is_json(value) else str(value)
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_json(value: Any) -> bool:
    return isinstance(value, bool | int | float | list | dict)


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
