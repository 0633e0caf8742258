"""What every format is made of, and the context its reader works in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from cascade_srn.data.alignment import Align
from cascade_srn.data.reports import Occurrence, ReadReport
from cascade_srn.errors import CascadeError, DataError
from cascade_srn.types import Document

Segmenter = Callable[[str], Sequence[Sequence[tuple[int, int]]]]
"""A text to its sentences, each the half-open character offsets of its words."""

P = ParamSpec("P")
T = TypeVar("T")


class Refused(Exception):
    """Something that cannot be read; :meth:`ReadContext.attempt` turns it into an error or a count."""

    def __init__(self, kind: str, message: str, example: Occurrence, error: type[CascadeError] = DataError) -> None:
        super().__init__(message)
        self.kind = kind
        self.example = example
        self.error = error


def strictly(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Read what cannot be skipped: what is bad about it is the caller's error."""
    try:
        return read(*args, **kwargs)
    except Refused as refused:
        raise refused.error(str(refused)) from None


@dataclass(frozen=True)
class ReadContext:
    """How to read (see :func:`cascade_srn.data.read_documents`), and the report of this pass."""

    strict: bool = True
    align: Align = "exact"
    segmenter: Segmenter | None = None
    report: ReadReport = field(default_factory=ReadReport)

    def attempt(self, what: str, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Read one ``what`` ("entity", "sentence", ...): the result, or None where it is skipped."""
        if self.strict:
            return strictly(read, *args, **kwargs)
        try:
            return read(*args, **kwargs)
        except Refused as refused:
            self.report.skip(f"{what}: {refused.kind}", refused.example)
            return None

    def segment(self, text: str) -> Sequence[Sequence[tuple[int, int]]]:
        """Sentences of word offsets, from the caller's segmenter or else the package's own."""
        if self.segmenter is not None:
            return self.segmenter(text)
        from cascade_srn.text.segment import segment

        return segment(text)


@dataclass(frozen=True)
class Format:
    """A format of annotated documents: how to recognise, read and write it."""

    name: str
    description: str
    suffixes: tuple[str, ...]
    """File name endings that mean this format and no other."""
    sniff: Callable[[str, Path], bool]
    """Whether a path, with the beginning of its text (empty for a folder), looks like this format."""
    read: Callable[[Path, ReadContext], Iterator[Document]]
    write: Callable[[Iterable[Document], Path], None]
