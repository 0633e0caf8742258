"""Extract from many texts: count documents, report bad texts and show progress."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn.apps.extract.targets import Writer
from cascade_srn.errors import CascadeError, DataError, describe_error
from cascade_srn.extractor import Extractor
from cascade_srn.inference.options import ThresholdsLike
from cascade_srn.inference.streaming import BadText, StreamOptions
from cascade_srn.inputs.sources import Text, Unreadable
from cascade_srn.runs.display import ProgressRow, duration, show_progress
from cascade_srn.text.language import LanguageCheck
from cascade_srn.types import Document

_REFRESH_SECONDS = 0.2


@dataclass
class ExtractionTotals:
    """Totals so far. ``bad`` counts the texts that could not be used, ``position`` the bytes of input."""

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
                _with_number(self.documents, "document", "documents"),
                _with_number(self.entities, "entity", "entities"),
                _with_number(self.relations, "relation", "relations"),
            )
        )


def extract_all(
    extractor: Extractor,
    sources: Iterable[Text | Unreadable],
    writer: Writer,
    *,
    batch_words: int | None = None,
    thresholds: ThresholdsLike | None = None,
    labels: Sequence[str] | None = None,
    strict: bool = False,
    read_languages: Callable[[], Sequence[str]] = tuple,
    split_workers: int = 0,
    tell: Callable[[str], None] = lambda sentence: None,
    progress: Callable[[ExtractionTotals], None] = lambda totals: None,
) -> ExtractionTotals:
    """Extract from all texts, and write the documents in order.

    Texts that cannot be read, split, extracted from or written are reported and counted. If the work ends early for any
    reason, the writer keeps the documents so far, and their place is reported. With ``strict``, the first bad text
    raises an error, after the documents before it are written. ``read_languages`` returns those of the model: a text in
    another one is noted. ``split_workers`` processes split and tokenize texts ahead.
    """
    totals = ExtractionTotals()
    run = _ExtractionRun(totals, tell, strict, LanguageCheck(read_languages))
    try:
        options: StreamOptions = {
            "batch_words": batch_words,
            "thresholds": thresholds,
            "labels": labels,
            "workers": split_workers,
            "on_error": run.skip,
        }
        for document in run.extract(extractor, sources, options):
            run.write(writer, document)
            progress(totals)
        if not totals.documents:
            if totals.bad:
                raise DataError(f"none of the {totals.bad} texts could be used")
            raise DataError("there is no text", "Give files or folders with text, - for standard input, or a text")
        writer.finish()
    except BaseException:
        _keep_finished(writer, totals, tell)
        raise
    return totals


def _keep_finished(writer: Writer, totals: ExtractionTotals, tell: Callable[[str], None]) -> None:
    # An error here is reported and not raised, because it would hide the reason for stopping.
    try:
        kept = writer.abandon()
    except (CascadeError, OSError) as error:
        tell(f"stopped early, and the documents so far could not be kept: {error}")
    else:
        if kept is not None:
            tell(f"stopped early; the documents so far are in {kept}: {totals}")


class _ExtractionRun:
    """Matches each result with its source by a queue of the sources in progress."""

    def __init__(
        self, totals: ExtractionTotals, tell: Callable[[str], None], strict: bool, language: LanguageCheck
    ) -> None:
        self.totals = totals
        self.tell = tell
        self.strict = strict
        self.language = language
        self._in_progress: deque[Text | Unreadable] = deque()
        self._place = ""
        self._fields: Mapping[str, Any] = {}

    def extract(
        self, extractor: Extractor, sources: Iterable[Text | Unreadable], options: StreamOptions
    ) -> Iterator[Document]:
        # Unreadable sources pass through the stream as bad texts, so that they are reported in order.
        items: Iterator[Any] = self._begin(sources)
        for document in extractor.stream(items, **options):
            source = self._in_progress.popleft()
            assert isinstance(source, Text)
            if not isinstance(source.text, Document):
                document = Document.unchecked(document.text, document.sentences, source.id, document.schema)
            self.totals.position, self._place, self._fields = source.position, source.place, source.fields
            words = (word for sentence in document.sentences for word in sentence.words)
            if note := self.language.note(source.place, words):
                self.tell(note)
            yield document

    def _begin(self, sources: Iterable[Text | Unreadable]) -> Iterator[str | Document | Unreadable]:
        for source in sources:
            self._in_progress.append(source)
            yield source if isinstance(source, Unreadable) else source.text

    def skip(self, bad: BadText) -> None:
        """Report a bad text."""
        source = self._in_progress.popleft()
        self.totals.position = source.position
        self._report(source.error if isinstance(source, Unreadable) else _at(source.place, bad.error), bad.error)

    def write(self, writer: Writer, document: Document) -> None:
        """Write a document, or report it if the format cannot represent it."""
        try:
            writer.write(document, self._fields)
        except CascadeError as error:
            self._report(_at(self._place, error), error)
        else:
            self.totals.add(document)

    def _report(self, error: CascadeError, cause: Exception) -> None:
        self.totals.bad += 1
        if self.strict:
            raise error from cause
        self.tell(error.message(error.option and f"--{error.option.replace('_', '-')}"))


def _at(place: str, error: Exception) -> DataError:
    """Return the error with the place of its text."""
    if isinstance(error, CascadeError):
        return DataError(f"{place}: {error.problem}", error.hint, option=error.option)
    return DataError(f"{place}: {describe_error(error)}")


def format_totals(totals: ExtractionTotals, output: Path | None) -> str:
    """Format the totals of a finished run in one line."""
    where = "" if output is None else f" in {output}"
    bad = f"; skipped {_with_number(totals.bad, 'text', 'texts')}" if totals.bad else ""
    return f"{totals}{where}{bad}"


def _with_number(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


@contextmanager
def show_extraction_progress(n_bytes: int | None, *, shown: bool) -> Iterator[Callable[[ExtractionTotals], None]]:
    """Show a progress bar on standard error if ``shown``. Yield the function that updates it."""
    if not shown:
        yield lambda totals: None
        return
    from rich.console import Console

    start = last = time.monotonic()

    def row(totals: ExtractionTotals) -> ProgressRow:
        text = format_progress(totals, time.monotonic() - start, n_bytes)
        return ProgressRow("extracting", totals.position, n_bytes or None, text, line=f"extracting  {text}")

    with show_progress(Console(stderr=True), row, counts=False) as shown_progress:

        def update(totals: ExtractionTotals) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _REFRESH_SECONDS:
                last = now
                shown_progress.progress(totals)

        yield update


def format_progress(totals: ExtractionTotals, seconds: float, n_bytes: int | None) -> str:
    """Format number of documents, rates and remaining time in one line."""
    parts = [f"{totals.documents:,} documents"]
    if seconds:
        parts += [f"{totals.documents / seconds:,.1f}/s", f"{totals.words / seconds:,.0f} words/s"]
    if n_bytes and totals.position:
        left = seconds * max(0, n_bytes - totals.position) / totals.position
        parts.append(f"{duration(left)} left")
    return "  ".join(parts)
