"""Files in which a person says what is the same and what is not: aliases, merges and splits.

Each is CSV with a header, or YAML with a list of mappings that have the same names.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.formats.files import BYTE_ORDER_MARK, read_bytes


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a thing.

    Attributes:
        canonical: The name that the node gets.
        alias: The other name.
        label: Type of the node instead of the vote; empty for the vote.
        place: File and line or position, for messages.
    """

    canonical: str
    alias: str
    label: str
    place: str


@dataclass(frozen=True, slots=True)
class Split:
    """Two forms that are not the same.

    Attributes:
        text: A form.
        other: The form that it is not merged with; empty for all others.
        place: File and line or position, for messages.
    """

    text: str
    other: str
    place: str


def read_aliases(path: str | Path, *, option: str = "aliases") -> tuple[Alias, ...]:
    """Read a file with the columns ``canonical``, ``alias`` and, if wanted, ``label``.

    In YAML, ``alias`` may be a list, and the file may also map each canonical name to a list of aliases.

    Raises:
        DataError: The file cannot be read, lacks a column or value, or gives an alias two canonical names.
    """
    found: list[Alias] = []
    for row, place in _read_rows(Path(path), ("canonical", "alias"), ("label",), _from_mapping, option):
        others = row["alias"] if isinstance(row["alias"], list) else [row["alias"]]
        for other in others:
            texts = [
                _text(value, name, place, option) for name, value in (("canonical", row["canonical"]), ("alias", other))
            ]
            found.append(Alias(texts[0], texts[1], str(row.get("label") or "").strip(), place))
    canonical: dict[str, Alias] = {}
    for alias in found:
        known = canonical.setdefault(alias.alias, alias)
        if known.canonical != alias.canonical:
            raise DataError(
                f"{alias.place}: {alias.alias!r} is an alias of {known.canonical!r} and of {alias.canonical!r}",
                "Keep one of them",
                option=option,
            )
    return tuple(found)


def read_merges(path: str | Path) -> tuple[Alias, ...]:
    """Read a file with the columns ``text``, ``into`` and, if wanted, ``label``."""
    return tuple(
        Alias(
            _text(row["into"], "into", place, "merges"),
            _text(row["text"], "text", place, "merges"),
            str(row.get("label") or "").strip(),
            place,
        )
        for row, place in _read_rows(Path(path), ("text", "into"), ("label",), None, "merges")
    )


def read_splits(path: str | Path) -> tuple[Split, ...]:
    """Read a file with the columns ``text`` and ``from``. An empty ``from`` keeps the text apart from all others."""
    return tuple(
        Split(_text(row["text"], "text", place, "splits"), str(row.get("from") or "").strip(), place)
        for row, place in _read_rows(Path(path), ("text",), ("from",), None, "splits")
    )


def _text(value: Any, name: str, place: str, option: str) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not str(value).strip():
        raise DataError(f"{place}: {name!r} is {value!r}, not a text", "Give a name", option=option)
    return str(value).strip()


def _from_mapping(content: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [{"canonical": name, "alias": others} for name, others in content.items()]


def _read_rows(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str],
    from_mapping: Callable[[Mapping[Any, Any]], list[dict[str, Any]]] | None,
    option: str,
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the rows of a file with their places, and check the names of the columns."""
    try:
        content = read_bytes(path).removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error.reason})", "Save it as UTF-8", option=option) from error
    if path.suffix.lower() in (".yaml", ".yml"):
        rows = _read_yaml(path, content, from_mapping, option)
    else:
        rows = _read_csv(path, content, option)
    known = (*required, *optional)
    for row, place in rows:
        for name in row:
            if name not in known:
                raise DataError(
                    f"{place}: the column {name!r} is unknown", did_you_mean(str(name), known), option=option
                )
        for name in required:
            if name not in row:
                raise DataError(f"{place}: {name!r} is missing", f"Columns are {', '.join(known)}", option=option)
        yield row, place


def _read_yaml(
    path: Path,
    content: str,
    from_mapping: Callable[[Mapping[Any, Any]], list[dict[str, Any]]] | None,
    option: str,
) -> Iterator[tuple[dict[str, Any], str]]:
    try:
        found = yaml.safe_load(content)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not valid YAML ({reason})", "Correct it", option=option) from error
    if isinstance(found, Mapping) and from_mapping is not None:
        found = from_mapping(found)
    if not isinstance(found, list | None):
        raise DataError(f"{path} has no list", "Give a list of entries", option=option)
    for number, row in enumerate(found or (), 1):
        place = f"{path}, entry {number}"
        if not isinstance(row, dict):
            raise DataError(f"{place} is {row!r}", "Give a mapping", option=option)
        yield row, place


def _read_csv(path: Path, content: str, option: str) -> Iterator[tuple[dict[str, Any], str]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            place = f"{path}, line {reader.line_num}"
            if None in row:
                raise DataError(
                    f"{place}: there are more values than columns", "Quote values with commas", option=option
                )
            if any(value and value.strip() for value in row.values()):
                yield {str(name).strip(): value or "" for name, value in row.items()}, place
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}", "Correct the quotes", option=option) from error
