"""Interface of a format, and the context of its reader."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from cascade_srn.data.alignment import Align
from cascade_srn.data.reports import Occurrence, ReadReport
from cascade_srn.errors import CascadeError
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
    """Options of :func:`cascade_srn.data.read_documents`, and the report of this pass."""

    strict: bool = True
    align: Align = "exact"
    segmenter: Segmenter | None = None
    report: ReadReport = field(default_factory=ReadReport)
    keep_escapes: bool = False

    def attempt(self, what: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a reader of one ``what`` ("entity", "sentence", ...); return None if malformed input is skipped."""
        if self.strict:
            return read_strictly(read, *args, **kwargs)
        try:
            return read(*args, **kwargs)
        except MalformedInput as refused:
            self.report.skip(f"{what}: {refused.kind}", refused.example)
            return None

    def segment(self, text: str) -> Sequence[Sequence[tuple[int, int]]]:
        """Split a text into sentences of word offsets with the caller's segmenter or the default one."""
        if self.segmenter is not None:
            return self.segmenter(text)
        from cascade_srn.text.segment import segment

        return segment(text)


@dataclass(frozen=True)
class Format:
    """Format of annotated documents: how to recognise, read and write it.

    Attributes:
        name: Name of the format in options.
        suffixes: File name suffixes that are specific to this format.
        sniff: Returns whether the beginning of a file's text (empty for a folder) and its path look like this format.
        read: Yields the documents of a path.
        write: Writes documents to a path.
        keeps_clusters: Whether it has a place for coreference clusters.
    """

    name: str
    suffixes: tuple[str, ...]
    sniff: Callable[[str, Path], bool]
    read: Callable[[Path, ReadContext], Iterator[Document]]
    write: Callable[[Iterable[Document], Path], None]
    keeps_clusters: bool = False
