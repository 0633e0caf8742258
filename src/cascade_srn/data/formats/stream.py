"""Documents of a file as something to iterate over, any number of times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cascade_srn.data.alignment import Align
from cascade_srn.data.formats.base import Format, ReadContext, Segmenter
from cascade_srn.data.formats.files import is_stream, read_once
from cascade_srn.data.reports import ReadReport
from cascade_srn.types import Document


class DocumentStream:
    """The documents of a path, read while they are iterated over.

    Each iteration opens the path anew and starts a fresh :attr:`report`,
    which is complete when the iteration is.
    """

    def __init__(self, path: Path, format: Format, *, strict: bool, align: Align, segmenter: Segmenter | None) -> None:
        self.path = path
        self.format = format.name
        self.report = ReadReport()
        self._format = format
        self._strict = strict
        self._align: Align = align
        self._segmenter = segmenter
        self._started = False

    def __iter__(self) -> Iterator[Document]:
        if self._started and is_stream(self.path):
            # A second pass over a pipe would wait forever, or find nothing.
            raise read_once(self.path)
        self._started = True
        self.report = ReadReport()
        return self._documents(ReadContext(self._strict, self._align, self._segmenter, self.report))

    def _documents(self, context: ReadContext) -> Iterator[Document]:
        for document in self._format.read(self.path, context):
            context.report.count(document)
            yield document

    def __repr__(self) -> str:
        return (
            f"DocumentStream({str(self.path)!r}, format={self.format!r}, strict={self._strict}, "
            f"align={self._align!r}): iterate to read, then see .report"
        )
