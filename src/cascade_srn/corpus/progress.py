"""Progress reports of a corpus job."""

from dataclasses import dataclass

from cascade_srn.runs.display import ProgressRow, duration


@dataclass(frozen=True)
class Progress:
    """Progress report of a corpus job.

    Rates and the time left concern the documents of this process. A resumed job starts with finished ones.

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

    @property
    def documents_per_second(self) -> float:
        """Documents per second of this process."""
        return (self.n_documents_done - self.n_documents_before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def words_per_second(self) -> float:
        """Words per second of this process."""
        return self.n_words / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated time of the remaining documents, or None before the first shard of this process is done."""
        rate, left = self.documents_per_second, self.n_documents - self.n_documents_done
        return left / rate if rate > 0 else None if left else 0.0


def format_progress(progress: Progress) -> str:
    """Format rates, remaining time, errors and workers in one line."""
    if not progress.n_workers and not progress.documents_per_second:
        return "starting"
    parts = []
    if progress.documents_per_second:
        parts += [f"{progress.documents_per_second:,.1f} documents/s", f"{progress.words_per_second:,.0f} words/s"]
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    parts.append(with_number(progress.n_errors, "error"))
    parts.append(with_number(progress.n_workers, "worker"))
    return "  ".join(parts)


def progress_row(progress: Progress) -> ProgressRow:
    """Return the row that a display shows: a bar on a terminal, or a line a minute in a log."""
    figures = format_progress(progress)
    line = (
        f"{progress.n_documents_done:,} of {progress.n_documents:,} documents  "
        f"{progress.n_shards_done:,} of {with_number(progress.n_shards, 'shard')}  {figures}"
    )
    return ProgressRow("documents", progress.n_documents_done, progress.n_documents, figures, line=line)


def with_number(number: int, noun: str) -> str:
    """Return a number with a noun, such as ``1 error`` or ``1,200 errors``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
