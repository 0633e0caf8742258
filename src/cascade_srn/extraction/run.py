"""Texts through an extractor into a writer, with everything that can go wrong on the way counted and told."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cascade_srn.errors import CascadeError, DataError
from cascade_srn.extraction.sources import Text, Unreadable
from cascade_srn.extraction.writers import Writer
from cascade_srn.extractor import Extractor
from cascade_srn.inference.streaming import BadText, reason
from cascade_srn.inference.thresholds import ThresholdsLike
from cascade_srn.runs.display import ProgressRow, duration, show_progress
from cascade_srn.types import Document


@dataclass
class Counts:
    """What has been done so far; ``position`` is how many bytes of the input that was."""

    documents: int = 0
    words: int = 0
    entities: int = 0
    relations: int = 0
    bad: int = 0
    position: int = 0

    def add(self, document: Document) -> None:
        """Count a document that was written."""
        self.documents += 1
        self.words += sum(map(len, document.sentences))
        self.entities += len(document.entities)
        self.relations += len(document.relations)

    def __str__(self) -> str:
        return ", ".join(
            (
                _counted(self.documents, "document", "documents"),
                _counted(self.entities, "entity", "entities"),
                _counted(self.relations, "relation", "relations"),
            )
        )


def extract_all(
    extractor: Extractor,
    sources: Iterable[Text | Unreadable],
    writer: Writer,
    *,
    batch_words: int = 4096,
    thresholds: ThresholdsLike | None = None,
    strict: bool = False,
    tell: Callable[[str], None] = lambda sentence: None,
    progress: Callable[[Counts], None] = lambda counts: None,
) -> Counts:
    """Extract from all texts and write the documents in their order.

    What cannot be read, split, extracted from or written is told by ``tell`` and counted, and the rest goes on;
    with ``strict`` it is an error that ends the work, once all that came before it is written. So is
    no text at all. Where the work ends early, for this or any other reason, the writer keeps what it has, and ``tell``
    says where.
    """
    counts = Counts()
    run = _Run(counts, tell, strict)
    try:
        for document in run.documents(extractor, sources, batch_words, thresholds):
            run.write(writer, document)
            progress(counts)
        if not counts.documents:
            raise DataError(
                "there was nothing to extract from; give files or folders with text, - for standard input, or --text"
                if not counts.bad
                else "none of the texts could be used; nothing was written"
            )
        writer.finish()
    except BaseException:
        _keep(writer, counts, tell)
        raise
    return counts


def _keep(writer: Writer, counts: Counts, tell: Callable[[str], None]) -> None:
    """Keep what was written, and tell what keeps from it rather than hide the reason for stopping."""
    try:
        kept = writer.abandon()
    except (CascadeError, OSError) as error:
        tell(f"stopped early, and what was extracted until then could not be kept: {error}")
    else:
        if kept is not None:
            tell(f"stopped early; what was extracted until then is in {kept}: {counts}")


class _Run:
    """The texts that are under way, so that each result is known by the place its text came from."""

    def __init__(self, counts: Counts, tell: Callable[[str], None], strict: bool) -> None:
        self.counts = counts
        self.tell = tell
        self.strict = strict
        self._under_way: deque[Text | Unreadable] = deque()
        self._place = ""

    def documents(
        self,
        extractor: Extractor,
        sources: Iterable[Text | Unreadable],
        batch_words: int,
        thresholds: ThresholdsLike | None,
    ) -> Iterator[Document]:
        # What is unreadable goes through the stream as well, and comes out in its turn as a bad text.
        taken: Iterator[Any] = self._taken(extractor, sources)
        for document in extractor.stream(taken, batch_words=batch_words, thresholds=thresholds, on_error=self._bad):
            done = self._under_way.popleft()
            assert isinstance(done, Text)
            self.counts.position, self._place = done.position, done.place
            yield document

    def _taken(self, extractor: Extractor, sources: Iterable[Text | Unreadable]) -> Iterator[Document | Unreadable]:
        for source in sources:
            self._under_way.append(source)
            if isinstance(source, Unreadable):
                yield source
            elif isinstance(source.text, Document):
                yield source.text
            else:
                yield from self._split(extractor, source, source.text)

    def _split(self, extractor: Extractor, source: Text, text: str) -> Iterator[Document | Unreadable]:
        try:
            document = Document.from_text(text, id=source.id, segmenter=extractor.segmenter)
        except Exception as error:  # a segmenter can be anyone's
            self._under_way[-1] = unreadable = Unreadable(f"{source.place}: {reason(error)}", source.position)
            yield unreadable
        else:
            yield document

    def _bad(self, bad: BadText) -> None:
        done = self._under_way.popleft()
        self.counts.position = done.position
        if isinstance(done, Unreadable):
            self._count(done.reason, bad.error)
        else:
            self._count(f"{done.place}: {reason(bad.error)}", bad.error)

    def write(self, writer: Writer, document: Document) -> None:
        """Write a document, or count it as bad where the format cannot hold it."""
        try:
            writer.write(document)
        except CascadeError as error:
            self._count(f"{self._place}: {error}", error)
        else:
            self.counts.add(document)

    def _count(self, sentence: str, cause: Exception) -> None:
        self.counts.bad += 1
        if self.strict:
            raise DataError(sentence) from cause
        self.tell(sentence)


def told(counts: Counts, output: Path | None) -> str:
    """What was done, in a line."""
    where = "" if output is None else f" in {output}"
    bad = f"; {_counted(counts.bad, 'text', 'texts')} could not be used" if counts.bad else ""
    return f"{counts}{where}{bad}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


_REFRESH = 0.2


@contextmanager
def display(n_bytes: int | None, *, shown: bool) -> Iterator[Callable[[Counts], None]]:
    """A function to be told of progress, which draws a bar on standard error where it is to be ``shown``."""
    if not shown:
        yield lambda counts: None
        return
    start = last = time.monotonic()

    def row(counts: Counts) -> ProgressRow:
        text = figures(counts, time.monotonic() - start, n_bytes)
        return ProgressRow("extracting", counts.position, n_bytes or None, text, line=f"extracting  {text}")

    with show_progress(Console(stderr=True), row, counts=False) as shown_progress:

        def update(counts: Counts) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _REFRESH:
                last = now
                shown_progress.progress(counts)

        yield update


def figures(counts: Counts, seconds: float, n_bytes: int | None) -> str:
    """Rate and time left on one line."""
    parts = [
        f"{counts.documents:,} documents",
        f"{counts.documents / seconds:,.1f}/s" if seconds else "",
        f"{counts.words / seconds:,.0f} words/s" if seconds else "",
    ]
    if n_bytes and counts.position:
        left = seconds * max(0, n_bytes - counts.position) / counts.position
        parts.append(f"{duration(left)} left")
    return "  ".join(part for part in parts if part)
