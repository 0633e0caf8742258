"""Interface of a format, and the context of its reader."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from cascade_srn.errors import CascadeError, DataError
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.reports import KNOWN_FIELDS, Occurrence, Place, ReadReport
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document


def _is_offsets(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 3 and all(isinstance(bound, int) for bound in item[:2])


def _is_span(item: Any) -> bool:
    return isinstance(item, dict) and {"start", "end", "label"} <= item.keys()


def _is_triple(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 3 and all(isinstance(part, str) for part in item)


# Programs and corpora by the first item of a field. The most certain ones come first.
_ORIGINS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("label", "labels"), _is_offsets, "doccano"),
    (("annotations",), lambda item: isinstance(item, dict) and "start_offset" in item, "doccano"),
    (("spans",), _is_span, "prodigy"),
    (("annotations", "predictions", "completions"), lambda i: isinstance(i, dict) and "result" in i, "label-studio"),
    (("triple_list", "triples", "relations", "spo_list"), _is_triple, "triples"),
    (("predicted_ner", "predicted_relations"), lambda item: isinstance(item, list), "predictions of DyGIE++"),
    (("entityMentions", "relationMentions"), lambda item: isinstance(item, dict), "triples"),
)


def _are_tags(items: list[Any]) -> bool:
    """Return whether all items are tags of words, such as ``O`` and ``B-Method``."""
    return all(isinstance(item, str) and (item == "O" or item[1:2] == "-") for item in items)


@dataclass
class UnreadLists:
    """Lists of objects, lists or tags in fields that are not read: number of records, and the first item, by field."""

    counts: dict[str, int] = field(default_factory=dict)
    items: dict[str, Any] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any], name: str) -> None:
        """Count a field of a record. Lists of strings or numbers that are no tags, such as keywords, do not count."""
        value = record[name]
        if name in KNOWN_FIELDS or not isinstance(value, list):
            return
        if not all(isinstance(v, list | dict) for v in value) and not _are_tags(value):
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        if value:
            self.items.setdefault(name, value[0])

    def check(self, path: object, n_records: int, formats: Sequence[str]) -> None:
        """Raise an error if all records have such a field. The caller has found no annotation in other fields."""
        names = [name for name in self.items if self.counts[name] == n_records]
        if not names:
            return
        for fields, fits, origin in _ORIGINS:
            for name in names:
                if name in fields and fits(self.items[name]):
                    raise _refuse(path, name, origin, formats)
        raise _refuse(path, names[0], "", formats)


def _refuse(path: object, name: str, origin: str, formats: Sequence[str]) -> DataError:
    looks = f"; this looks like {origin}" if origin else ""
    named = f"Name the format {origin!r}" if origin in formats else "Name the format (see Formats in the documentation)"
    return DataError(
        f"{path}: no entity was found, but every record has the field {name!r}, which is not read{looks}",
        f"{named}, or remove the field if it has no annotations",
        option="format",
    )


Segmenter = Callable[[str], Sequence[Sequence[tuple[int, int]]]]
"""Function from a text to its sentences, each the half-open character offsets of its words."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class MalformedInput(Exception):
    """A part of the input is malformed. :meth:`ReadContext.attempt` raises ``error``, or counts ``example``."""

    def __init__(self, kind: str, error: CascadeError, example: Occurrence) -> None:
        super().__init__(str(error))
        self.kind = kind
        self.error = error
        self.example = example


def read_strictly(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a reader, and raise the error of malformed input."""
    try:
        return read(*args, **kwargs)
    except MalformedInput as refused:
        raise refused.error from None


@dataclass(frozen=True)
class ReadContext:
    """Options of :func:`cascade_srn.formats.registry.read_documents`, and the report of this pass."""

    strict: bool = True
    align: Align = "exact"
    segmenter: Segmenter | None = None
    report: ReadReport = field(default_factory=ReadReport)
    keep_escapes: bool = False
    encoding: str | None = None  # Encoding of text files; None for UTF-8
    unread: UnreadLists = field(default_factory=UnreadLists)

    def attempt(self, what: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a reader of one ``what`` ("entity", "sentence", ...); return None if malformed input is skipped."""
        try:
            return read(*args, **kwargs)
        except MalformedInput as refused:
            if self.strict:
                refused.error.can_skip = True
                raise refused.error from None
            self.report.skip(f"{what}: {refused.kind}", refused.example)
            return None

    def read_each(
        self, records: Iterable[R], read: "Callable[[R, ReadContext], Document | None]"
    ) -> Iterator[Document]:
        """Yield the document of each record, except those that are malformed and skipped, or left out by ``read``."""
        for record in records:
            document = self.attempt("document", read, record, self)
            if document is not None:
                yield document

    def segment(self, text: str, place: Place) -> Sequence[Sequence[tuple[int, int]]]:
        """Split a text into sentences of word offsets with the caller's segmenter or the default one.

        Raises:
            DataError: The text is too long for a document.
        """
        limits = read_limits()
        limits.check_text(text, place)
        from cascade_srn.text.segment import segment

        found = segment(text) if self.segmenter is None else self.segmenter(text)
        limits.check_words(sum(map(len, found)), place)
        return found


SCORES = ("scores of entities", "scores of relations")
CLUSTERS = "coreference clusters"
LOSSES: dict[str, Callable[[Document], int]] = {
    "text and offsets": lambda document: int(document.text != _joined(document)),
    "places of entities": lambda document: len(document.entities),
    "words and sentences": lambda document: int(bool(document.sentences)),
    "boundaries of sentences": lambda document: max(0, len(document.sentences) - 1),
    "ids of documents": lambda document: int(bool(document.id)),
    "relations": lambda document: len(document.relations),
    "scores of entities": lambda document: sum(entity.score is not None for entity in document.entities),
    "scores of relations": lambda document: sum(relation.score is not None for relation in document.relations),
    CLUSTERS: lambda document: len(document.clusters),
}
"""What formats may lose, and how much of it a document has."""


def _joined(document: Document) -> str:
    return "\n".join(" ".join(sentence.words) for sentence in document.sentences)


@dataclass(frozen=True)
class Format:
    """Format of annotated documents: how to recognise, read and write it."""

    name: str  # Name of the format in options
    suffixes: tuple[str, ...]  # File name suffixes that are specific to this format
    # Returns whether the beginning of a file's text (empty for a folder) and its path look like this format
    sniff: Callable[[str, Path], bool]
    read: Callable[[Path, ReadContext], Iterator[Document]]  # Yields the documents of a path
    write: Callable[[Iterable[Document], Path], None]  # Writes documents to a path
    folder: bool = False  # Whether a folder can be read and written
    loses: tuple[str, ...] = ()  # What the format cannot represent, by the names of :data:`LOSSES`
    needs_ids: bool = False  # Whether documents without an id are written with their number
    keeps_clusters: bool = False  # Whether it has a place for coreference clusters. Otherwise they count as lost.
