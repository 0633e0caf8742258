"""Interface of a format, and the context of its reader."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from cascade_srn.errors import CascadeError
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.reports import Occurrence, Place, ReadReport
from cascade_srn.formats.unread import UnreadLists
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document

Segmenter = Callable[[str], Sequence[Sequence[tuple[int, int]]]]
"""Function from a text to its sentences, each the half-open character offsets of its words."""

P = ParamSpec("P")
T = TypeVar("T")


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
    unread: UnreadLists = field(default_factory=UnreadLists)

    def attempt(self, what: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a reader of one ``what`` ("entity", "sentence", ...); return None if malformed input is skipped."""
        if self.strict:
            return read_strictly(read, *args, **kwargs)
        try:
            return read(*args, **kwargs)
        except MalformedInput as refused:
            self.report.skip(f"{what}: {refused.kind}", refused.example)
            return None

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
    """Format of annotated documents: how to recognise, read and write it.

    Attributes:
        name: Name of the format in options.
        suffixes: File name suffixes that are specific to this format.
        sniff: Returns whether the beginning of a file's text (empty for a folder) and its path look like this format.
        read: Yields the documents of a path.
        write: Writes documents to a path.
        folder: Whether a folder can be read and written.
        loses: What the format cannot represent, by the names of :data:`LOSSES`.
        keeps_clusters: Whether it has a place for coreference clusters. Otherwise they count as lost.
    """

    name: str
    suffixes: tuple[str, ...]
    sniff: Callable[[str, Path], bool]
    read: Callable[[Path, ReadContext], Iterator[Document]]
    write: Callable[[Iterable[Document], Path], None]
    folder: bool = False
    loses: tuple[str, ...] = ()
    keeps_clusters: bool = False
