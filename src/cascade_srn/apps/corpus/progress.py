"""Progress reports of a corpus job."""

from collections import deque
from dataclasses import dataclass

from cascade_srn.runs.display import ProgressRow, duration

# Number of latest reports that rates are computed from.
_N_REPORTS = 200


@dataclass(frozen=True)
class Progress:
    """Progress report of a corpus job.

    A resumed job starts with finished documents.

    Attributes:
        n_shards: Number of shards of the job.
        n_shards_done: Number of shards that are finished, those of earlier processes included.
        n_documents: Number of rows of the input.
        n_documents_done: Number of rows that are in ``documents`` or ``errors``, those of earlier processes included.
        n_words: Number of words processed since this process started.
        n_sentences: Number of sentences processed since this process started.
        n_errors: Number of rows in ``errors``, those of earlier processes included.
        n_workers: Number of workers that are alive.
        seconds: Time since the first worker started.
        n_documents_before: Number of rows that were done when this process started.
    """

    n_shards: int
    n_shards_done: int
    n_documents: int
    n_documents_done: int
    n_words: int
    n_sentences: int
    n_errors: int
    n_workers: int
    seconds: float
    n_documents_before: int = 0


@dataclass(frozen=True)
class Rates:
    """Speed of a job, and the time that it still needs.

    Attributes:
        documents_per_second: Documents per second.
        words_per_second: Words per second.
        seconds_left: Estimated time of the remaining documents; None while it is not known.
    """

    documents_per_second: float
    words_per_second: float
    seconds_left: float | None


class ProgressView:
    """Makes the lines of a display from the reports of a job.

    Rates are those of the latest reports. Until each worker has finished two shards, they include the start of the
    workers, and no time is estimated.
    """

    def __init__(self) -> None:
        self._reports: deque[Progress] = deque(maxlen=_N_REPORTS)

    def add(self, progress: Progress) -> ProgressRow:
        """Add a report, and return the row that a display shows: a bar on a terminal, or a line in a log."""
        is_first = not self._reports
        if is_first or progress.n_shards_done > self._reports[-1].n_shards_done:
            self._reports.append(progress)
        figures = self._format(progress)
        line = (
            f"{progress.n_documents_done:,} of {progress.n_documents:,} documents  "
            f"{progress.n_shards_done:,} of {progress.n_shards:,} shards  {figures}"
        )
        # A log says at once what is to be done, and that it is finished.
        to_file = is_first or progress.n_shards_done == progress.n_shards
        title, done, total = "documents", progress.n_documents_done, progress.n_documents
        return ProgressRow(title, done, total, figures, line=line, to_file=to_file)

    def rates(self, progress: Progress) -> Rates:
        """Return the speed up to a report."""
        # The first report comes before the workers start, and the second after the first shard.
        first = self._reports[min(1, len(self._reports) - 1)] if len(self._reports) < _N_REPORTS else self._reports[0]
        is_steady = progress.n_shards_done - first.n_shards_done >= 2 * max(1, progress.n_workers)
        if not is_steady:
            first = self._reports[0]
        seconds = progress.seconds - first.seconds
        if seconds <= 0:
            return Rates(0.0, 0.0, None)
        documents = (progress.n_documents_done - first.n_documents_done) / seconds
        left = progress.n_documents - progress.n_documents_done
        known = is_steady and documents > 0
        words = (progress.n_words - first.n_words) / seconds
        return Rates(documents, words, left / documents if known else None)

    def _format(self, progress: Progress) -> str:
        rates = self.rates(progress)
        if not rates.documents_per_second:
            return "starting"
        parts = [f"{rates.documents_per_second:,.1f} documents/s", f"{rates.words_per_second:,.0f} words/s"]
        if rates.seconds_left is not None:
            parts.append(f"{duration(rates.seconds_left)} left")
        parts.append(with_number(progress.n_errors, "error"))
        parts.append(with_number(progress.n_workers, "worker"))
        return "  ".join(parts)


def with_number(number: int, noun: str) -> str:
    """Return a number with a noun, such as ``1 error`` or ``1,200 errors``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
