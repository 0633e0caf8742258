"""Settings of a graph, the files in which a person says what is the same, and the report of a build.

Files of aliases, merges and splits are CSV with a header, or YAML with a list of mappings that have the same names.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.errors import ConfigError, DataError, did_you_mean
from cascade_srn.formats.files import BYTE_ORDER_MARK, read_bytes
from cascade_srn.inference.options import parse_precision
from cascade_srn.text.status import HEDGED, NEGATED

# Used where the model does not say: the relation types of SciERC.
SYMMETRIC = ("COMPARE", "CONJUNCTION")
ACYCLIC = ("HYPONYM-OF", "PART-OF")
# Relations that are left out unless they are asked for. See :mod:`cascade_srn.text.status`.
KEPT = (NEGATED, HEDGED)


@dataclass(frozen=True)
class GraphSettings(Settings):
    """How documents become a graph.

    Attributes:
        text: Merge forms that differ in case, hyphens, spaces, plural, determiner or British spelling.
        types: Merge mentions of the same text with different types. The type of a node is decided by a vote.
        heads: Merge "BERT model" with "BERT" and "SQuAD dataset" with "SQuAD".
        acronyms: Merge acronyms with the long forms that documents define for them.
        fuzzy: Merge misspelled and inflected forms.
        fuzzy_threshold: Minimum similarity of a fuzzy match, from 0 to 1.
        generic: Keep pronouns and mentions such as "this method" as nodes.
        generic_labels: Entity types whose mentions are left out, unless ``generic``.
        coreference: Add generic mentions to the nodes that the coreference clusters of JSON lines lead to.
        aliases: File of aliases (docs/graph.md).
        merges: File of forms to merge, whatever the steps say.
        splits: File of forms to keep apart, whatever the steps say.
        vocabulary: File of known things, whose identifiers nodes get (docs/graph.md).
        vocabulary_threshold: Minimum similarity of a link by character n-grams, from 0 to 1.
        vocabulary_language: Language of the names in SKOS and Wikidata; ``*`` for all.
        schema: File with the label set, or folder of the model, which says what is symmetric and acyclic.
        symmetric: Relation types without a direction. None: those of the schema, or COMPARE and CONJUNCTION.
        acyclic: Relation types whose cycles are flagged. None: those of the schema, PART-OF and HYPONYM-OF.
        keep: Relations to keep besides those that their sentences assert: "negated", "hedged" or both.
        min_score: Leave out relations with a lower score.
        precision: Levels of precision to promise for relations, such as "0.6" or "USED-FOR=0.7". The model is that of
            ``schema``, or the bundled one.
        min_count: Leave out edges with fewer relations.
        date_field: Column or field of the documents with their date; ``id`` for the name of the document.
        date_pattern: Regular expression that finds the date in that field. Its first group counts, if it has one.
        title_field: Column or field of the documents with their title.
    """

    text: bool = True
    types: bool = True
    heads: bool = True
    acronyms: bool = True
    fuzzy: bool = True
    fuzzy_threshold: float = 0.9
    generic: bool = False
    generic_labels: tuple[str, ...] = ("Generic",)
    coreference: bool = False
    aliases: str | None = None
    merges: str | None = None
    splits: str | None = None
    vocabulary: str | None = None
    vocabulary_threshold: float = 0.75
    vocabulary_language: str = "en"
    schema: str | None = None
    symmetric: tuple[str, ...] | None = None
    acyclic: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    min_score: float = 0.0
    precision: str | None = None
    min_count: int = 1
    date_field: str | None = None
    date_pattern: str | None = None
    title_field: str | None = None

    def __post_init__(self) -> None:
        require_range("fuzzy_threshold", self.fuzzy_threshold, 0.5, 1, option="fuzzy_threshold")
        require_range("vocabulary_threshold", self.vocabulary_threshold, 0.5, 1, option="vocabulary_threshold")
        for status in self.keep:
            require_choice("keep", status, KEPT, option="keep")
        require_range("min_score", self.min_score, 0, 1, option="min_score")
        require_range("min_count", self.min_count, 1, option="min_count")
        if self.precision is not None:
            parse_precision(self.precision)
        if self.date_pattern is None:
            return
        if self.date_field is None:
            raise ConfigError("a date_pattern needs a date_field", "Name the field", option="date_field")
        try:
            re.compile(self.date_pattern)
        except re.error as error:
            problem = f"date_pattern is {self.date_pattern!r}, which is no regular expression ({error})"
            raise ConfigError(problem, "Correct it", option="date_pattern") from error


@dataclass(frozen=True)
class GraphReport:
    """What a build has found.

    Attributes:
        folder: Folder of the graph.
        counts: Number of rows by table.
        dropped: Number of mentions and relations that are not in the graph, by reason.
        merges: Number of merges by step.
        flags: Number of edges by flag.
        links: Number of nodes by kind of link to the vocabulary; empty without one.
        notes: What the user should know, such as entries of files that match nothing.
        changes: Number of documents that were added, replaced and removed; empty after a build.
        failed: Reason by file, for files that ``sync`` could not process in whole. They are tried again.
    """

    folder: str
    counts: dict[str, int]
    dropped: dict[str, int]
    merges: dict[str, int]
    flags: dict[str, int]
    links: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=())
    changes: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


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
class KeptApart:
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
    for row, place in read_rows(Path(path), ("canonical", "alias"), ("label",), _from_mapping, option):
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
        for row, place in read_rows(Path(path), ("text", "into"), ("label",), None, "merges")
    )


def read_splits(path: str | Path) -> tuple[KeptApart, ...]:
    """Read a file with the columns ``text`` and ``from``. An empty ``from`` keeps the text apart from all others."""
    return tuple(
        KeptApart(_text(row["text"], "text", place, "splits"), str(row.get("from") or "").strip(), place)
        for row, place in read_rows(Path(path), ("text",), ("from",), None, "splits")
    )


def _text(value: Any, name: str, place: str, option: str) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not str(value).strip():
        raise DataError(f"{place}: {name!r} is {value!r}, not a text", "Give a name", option=option)
    return str(value).strip()


def _from_mapping(content: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [{"canonical": name, "alias": others} for name, others in content.items()]


def read_rows(
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
