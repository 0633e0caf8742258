"""Lists of known things with identifiers: tables, SKOS vocabularies in RDF, and extracts of Wikidata."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cascade_srn.apps.graph.settings import GraphSettings, read_rows
from cascade_srn.errors import DataError, require
from cascade_srn.formats.files import read_bytes, read_lines
from cascade_srn.storage.files import checksum, plain_name

WIKIDATA = "wikidata"
_FORMATS = (
    dict.fromkeys((".csv", ".tsv", ".yaml", ".yml"), "table")
    | dict.fromkeys((".ttl", ".nt", ".n3", ".rdf", ".xml", ".owl", ".trig", ".nq"), "skos")
    | dict.fromkeys((".json", ".jsonl", ".ndjson"), WIKIDATA)
)
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_LABELS = tuple(f"{_SKOS}{name}" for name in ("prefLabel", "altLabel", "hiddenLabel"))
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
# These have names as well, but are no things.
_GROUPS = {f"{_SKOS}{name}" for name in ("ConceptScheme", "Collection", "OrderedCollection")}
# Names in all languages.
_MULTILINGUAL = "mul"


@dataclass(slots=True)
class Entry:
    """A known thing.

    Attributes:
        id: Identifier of the user.
        names: The name, and then the aliases.
        types: Entity types, if the vocabulary has any.
    """

    id: str
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Vocabulary:
    """The entries of a file, in the order of their identifiers.

    Attributes:
        entries: The entries, each with at least one name.
        format: "table", "skos" or "wikidata".
        sha256: Checksum of the file.
        notes: What was left out.
    """

    entries: tuple[Entry, ...]
    format: str
    sha256: str
    notes: tuple[str, ...] = ()


def read_vocabulary(settings: GraphSettings) -> Vocabulary | None:
    """Read the vocabulary of the settings; None if there is none.

    The suffix of the file says what it is. Tables have the columns ``id``, ``name``, ``aliases`` and ``type``; several
    aliases or types are separated by ``|``, or are a list in YAML. Rows with the same id are one entry.

    Raises:
        DataError: The file cannot be read, or has no names.
    """
    if settings.vocabulary is None:
        return None
    path, suffix = Path(settings.vocabulary), plain_name(Path(settings.vocabulary)).suffix.lower()
    if suffix not in _FORMATS:
        raise _error(f"the format of {path} is not known from its name", f"Its suffix is one of {', '.join(_FORMATS)}")
    format = _FORMATS[suffix]
    entries: dict[str, Entry] = {}
    for entry in _READERS[format](path, settings.vocabulary_language):
        merged = entries.setdefault(entry.id, Entry(entry.id))
        merged.names += [name for name in entry.names if name not in merged.names]
        merged.types += [name for name in entry.types if name not in merged.types]
    named = tuple(entry for _, entry in sorted(entries.items()) if entry.names)
    if not named:
        if format == "table":
            raise _error(f"{path} has no entries", "Give rows with id and name")
        labels = "labels of SKOS" if format == "skos" else "labels"
        problem = f"{path} has no {labels} in the language {settings.vocabulary_language!r}"
        raise _error(problem, "Choose another language", "vocabulary_language")
    n_unnamed = len(entries) - len(named)
    note = f"{path}: {n_unnamed:,} of {len(entries):,} entries have no name in the language of the vocabulary"
    return Vocabulary(named, format, checksum(path), (note,) if n_unnamed else ())


def _error(problem: str, hint: str, option: str = "vocabulary") -> DataError:
    return DataError(problem, hint, option=option)


def _read_table(path: Path, language: str) -> Iterator[Entry]:
    for row, place in read_rows(path, ("id", "name"), ("aliases", "type"), None, "vocabulary"):
        values = {name: _split(row.get(name)) for name in ("aliases", "type")}
        texts = [" ".join(str(row[name] if row[name] is not None else "").split()) for name in ("id", "name")]
        if not all(texts):
            raise _error(f"{place}: {'name' if texts[0] else 'id'!r} is empty", "Give both id and name")
        yield Entry(texts[0], [texts[1], *values["aliases"]], values["type"])


def _split(value: Any) -> list[str]:
    parts = value if isinstance(value, list) else str(value or "").split("|")
    return [text for part in parts if (text := " ".join(str(part).split()))]


def _read_skos(path: Path, language: str) -> Iterator[Entry]:
    oxigraph = require("pyoxigraph", extra="graph")
    suffix = plain_name(path).suffix.lower()
    format = oxigraph.RdfFormat.from_extension("rdf" if suffix == ".owl" else suffix[1:])
    found: dict[str, dict[str, list[str]]] = {}
    try:
        for quad in oxigraph.parse(read_bytes(path), format):
            predicate = quad.predicate.value
            if predicate not in (_TYPE, *_LABELS) or not isinstance(quad.subject, oxigraph.NamedNode):
                continue
            values = found.setdefault(quad.subject.value, {name: [] for name in (*_LABELS, _TYPE)})
            if predicate == _TYPE or _is_chosen(getattr(quad.object, "language", None), language):
                values[predicate].append(" ".join(quad.object.value.split()))
    except (SyntaxError, ValueError) as error:
        raise _error(f"{path} is not valid RDF ({error})", "Check that its suffix fits its content") from error
    for subject, values in found.items():
        names = [name for label in _LABELS for name in sorted(values[label]) if name]
        if not _GROUPS.intersection(values[_TYPE]) and (names or f"{_SKOS}Concept" in values[_TYPE]):
            types = [kind.replace("#", "/").rpartition("/")[2] for kind in values[_TYPE] if kind != f"{_SKOS}Concept"]
            yield Entry(subject, names, types)


def _read_wikidata(path: Path, language: str) -> Iterator[Entry]:
    hint = "Give one entity of Wikidata per line, with id and labels"
    for line, place in read_lines(path):
        content = line.strip().removesuffix(b",")
        if content in (b"", b"[", b"]"):
            continue
        try:
            entity = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise _error(f"{place}: this is not valid JSON ({error})", hint) from error
        if not isinstance(entity, dict) or not isinstance(entity.get("id"), str) or "labels" not in entity:
            raise _error(f"{place}: this is no entity", hint)
        try:
            names = [name for part in ("labels", "aliases") for name in _values(entity.get(part) or {}, language)]
        except (AttributeError, KeyError, TypeError) as error:
            raise _error(f"{place}: labels or aliases are not those of an entity", hint) from error
        yield Entry(entity["id"], names)


def _values(by_language: Mapping[str, Any] | list[Any], language: str) -> Iterator[str]:
    """Yield the texts of some languages. An empty mapping is written as a list in some dumps."""
    for name, values in sorted(dict(by_language).items()):
        if _is_chosen(name, language):
            for value in values if isinstance(values, list) else [values]:
                text = " ".join((value["value"] if isinstance(value, dict) else value).split())
                if text:
                    yield text


def _is_chosen(language: str | None, wanted: str) -> bool:
    """Return whether a name in a language counts. None stands for a name without a language."""
    if language is None or wanted == "*":
        return True
    return language.lower() in (wanted.lower(), _MULTILINGUAL) or language.lower().startswith(f"{wanted.lower()}-")


_READERS: dict[str, Callable[[Path, str], Iterable[Entry]]] = {
    "table": _read_table,
    "skos": _read_skos,
    WIKIDATA: _read_wikidata,
}
