"""Process one shard after another: read, split into words, predict, write."""

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from queue import Full, Queue
from typing import TYPE_CHECKING

from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.apps.corpus.inputs import RowReader
from cascade_srn.apps.corpus.manifest import model_checksum
from cascade_srn.apps.corpus.progress import ShardProgress
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import InputRow, Shard, ShardResult, unit_sizes
from cascade_srn.apps.corpus.writing import ShardTables
from cascade_srn.errors import CascadeError, describe_error
from cascade_srn.inference.streaming import MOST_BATCHES, BadText, Outcome, split_into_parts
from cascade_srn.inference.streaming import attempt as isolate_failures
from cascade_srn.model.info import read_languages
from cascade_srn.runtime.device import set_threads
from cascade_srn.text.language import LanguageCheck

if TYPE_CHECKING:
    from cascade_srn.inference.predictor import Predictor
    from cascade_srn.types import Document

# Parts that wait for the model. More would only take memory.
_MAX_WAITING = 2
_POLL_SECONDS = 0.1
# Without this, matrix products depend on the number of threads in their last bits. It costs nothing measurable.
ENVIRONMENT = {"MKL_CBWR": "AUTO,STRICT", "TOKENIZERS_PARALLELISM": "false"}
"""Environment variables of a worker. They must be set before torch is imported."""

_Part = list[tuple[InputRow, Outcome]]


class ShardWorker:
    """Processes shards with one model, which is loaded once.

    Raises:
        CascadeError: If the model cannot be loaded or is not the model of the job, or a setting does not fit it.
    """

    def __init__(self, job: JobSpec, *, device: str = "cpu", n_threads: int = 1) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        set_threads(n_threads, Path(job.model), device, job.settings.precision)
        from cascade_srn.extractor import Extractor

        settings = job.settings
        self.job = job
        self.extractor: Extractor = Extractor.from_pretrained(
            Path(job.model),
            device=device,
            precision=settings.precision,
            overlaps=settings.overlaps,
            constraints=settings.constraints,
            skip=settings.skip,
        )
        if model_checksum(Path(job.model)) != job.model_checksum:
            raise JobError(
                f"the model in {job.model!r} is not the model of the job",
                "Restore the model, or start a new job",
                option="model",
            )
        self._has_gpu = getattr(self.extractor.model.device, "type", "cpu") != "cpu"
        self._pieces = self._predictor(lambda: None).collator.pieces  # a predictor refuses wrong thresholds
        self._reader = RowReader(job.files, settings.inputs)
        languages = read_languages(Path(job.model))
        self._language = LanguageCheck(lambda: languages)

    def process(self, shard: Shard, attempt: int = 1) -> ShardResult:
        """Process a shard, and write its tables and its record.

        Raises:
            JobError: If the input cannot be read or the output cannot be written. The job should stop.
            Exception: If the model fails on all documents. The worker should not be used any more.
        """
        from cascade_srn.inference.batching import release_freed_memory

        started = time.perf_counter()
        tables = ShardTables(self.job, shard.id)
        progress = ShardProgress(self.job.scratch_path, shard.id)
        predictor = self._predictor(lambda: progress.update(predictor.n_sentences))
        with closing(self._prepare(shard, predictor.batch_words)) as parts:
            for part in parts:
                sentences = [len(s) for _, found in part if not isinstance(found, BadText) for s in found.sentences]
                progress.begin(len(part), sum(sentences), len(sentences))
                for row, outcome in self._predict(part, predictor):
                    if isinstance(outcome, BadText):
                        tables.add_error(row, describe_error(outcome.error))
                    else:
                        tables.add_document(row, outcome.sentences)
                        words = (word for sentence in outcome.sentences for word in sentence.words)
                        if note := self._language.note(row.input, words):
                            warnings.warn(note, stacklevel=2)
        # Not after each part: the next one would ask for the same memory again, which takes a fifth of the time.
        release_freed_memory()
        return tables.write(time.perf_counter() - started, attempt)

    def _predictor(self, check: Callable[[], None]) -> "Predictor":
        settings = self.job.settings
        return self.extractor.predictor(settings.thresholds, settings.batch_words, check=check)

    def _predict(self, part: _Part, predictor: "Predictor") -> _Part:
        good = [(at, outcome) for at, (_, outcome) in enumerate(part) if not isinstance(outcome, BadText)]
        predicted = isolate_failures(good, lambda numbered: self._annotate([d for _, d in numbered], predictor))
        failed = [outcome for outcome in predicted.values() if isinstance(outcome, BadText)]
        if len(failed) > 1 and len(failed) == len(predicted) and not isinstance(failed[0].error, CascadeError):
            # All texts cannot be bad: the device or the process is in a state that only a new process ends.
            raise failed[0].error
        return [(row, predicted.get(at, outcome)) for at, (row, outcome) in enumerate(part)]

    def _annotate(self, documents: "Sequence[Document]", predictor: "Predictor") -> "list[Document]":
        from cascade_srn.types import Document

        sentences = iter(predictor.predict(self.extractor.examples(documents)))
        return [Document.unchecked(d.text, tuple(islice(sentences, len(d.sentences)))) for d in documents]

    def _prepare(self, shard: Shard, batch_words: int) -> Generator[_Part, None, None]:
        """Yield the rows of a shard, split into words. A thread splits and tokenizes while the model runs."""
        prepared: Queue[_Part | Exception | None] = Queue(_MAX_WAITING)
        is_closed = threading.Event()

        def put(item: _Part | Exception | None) -> None:
            while not is_closed.is_set():
                try:
                    return prepared.put(item, timeout=_POLL_SECONDS)
                except Full:
                    continue

        def fill() -> None:
            try:
                for part in self._read(shard, batch_words):
                    put(part)
                    if is_closed.is_set():
                        return
                put(None)
            except Exception as error:
                put(error)

        thread = threading.Thread(target=fill, name="prepare", daemon=True)
        thread.start()
        try:
            while (item := prepared.get()) is not None:
                if isinstance(item, Exception):
                    self._reader.close()
                    raise _input_failure(item) from item
                yield item
        finally:
            is_closed.set()
            thread.join()

    def _read(self, shard: Shard, batch_words: int) -> Iterator[_Part]:
        """Read and split the rows of a shard in parts, of one unit after the other.

        For a GPU, the first parts are small, so that it starts soon. On a CPU this saves little, and the padding of
        small parts costs more.
        """
        rows: deque[InputRow] = deque()

        def outcomes() -> Iterator[Outcome]:
            for position, row in enumerate(self._reader.read(shard)):
                rows.append(row)
                yield self._split(position, row)

        n_batches, found = 1 if self._has_gpu else MOST_BATCHES, outcomes()
        for size in unit_sizes(shard, self.job.files, self.job.settings.inputs):
            for part in split_into_parts(islice(found, size), batch_words, n_batches):
                yield [(rows.popleft(), outcome) for outcome in part]

    def _split(self, position: int, row: InputRow) -> Outcome:
        if row.text is None:
            return BadText(position, None, CascadeError(row.problem))
        try:
            document = self.extractor.prepare(row.text)
            for sentence in document.sentences:
                self._pieces.tokenize_ahead(sentence.words)
            return document
        except Exception as error:  # of this text only
            return BadText(position, row.text, error)


def _input_failure(error: Exception) -> JobError:
    """Return the error that stops the job. Errors of a network may pass, those of a missing or changed file do not."""
    causes = (error, error.__cause__, error.__context__)
    is_temporary = any(
        isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError | PermissionError) for cause in causes
    )
    if isinstance(error, CascadeError):
        return JobError(error.problem, error.hint, option=error.option, is_temporary=is_temporary)
    problem = f"the input cannot be read ({describe_error(error)})"
    return JobError(problem, "Fix that, and resume the job", option="resume", is_temporary=is_temporary)


def write_failed_shard(job: JobSpec, shard: Shard, reason: str, attempts: int) -> ShardResult:
    """Write all rows of a shard to ``errors``, and its record. The rows are read for their ids only."""
    started = time.perf_counter()
    tables = ShardTables(job, shard.id)
    with RowReader(job.files, job.settings.inputs) as reader:
        for row in reader.read(shard):
            tables.add_error(row, row.problem or reason, attempts)
    return tables.write(time.perf_counter() - started, attempts)


def write_unreadable_shard(job: JobSpec, shard: Shard, reason: str, attempts: int) -> ShardResult:
    """Write all rows of a shard to ``errors`` without reading them. Their ids are their positions."""
    tables = ShardTables(job, shard.id)
    for at, first, stop in shard.parts:
        name = job.files[at].name
        for number in range(first, stop):
            tables.add_error(InputRow(f"{name}:{number}", name, number, None), reason, attempts)
    return tables.write(0.0, attempts)
