"""Run a corpus job: plan it, have an engine process the shards, and check that nothing is lost."""

import copy
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from cascade_srn.apps.corpus.engine import Control, CorpusEngine, JobError, ShardFailure, stop_signals
from cascade_srn.apps.corpus.inputs import find_input_files, kept_types
from cascade_srn.apps.corpus.local import LocalEngine
from cascade_srn.apps.corpus.manifest import JobFolder, Manifest, model_checksum
from cascade_srn.apps.corpus.progress import JobProgress, count_running
from cascade_srn.apps.corpus.ray import RayEngine
from cascade_srn.apps.corpus.sample import find_shard_size
from cascade_srn.apps.corpus.settings import CorpusSettings, JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult, Totals, plan_shards
from cascade_srn.apps.corpus.worker import write_failed_shard, write_unreadable_shard
from cascade_srn.config import require_choice
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.runs.children import call_once
from cascade_srn.storage.atomic import try_writing
from cascade_srn.storage.bundled import find_model

ENGINES = ("local", "ray")
# Errors are counted as a share from this number of documents on.
_MIN_DOCUMENTS = 100
# Seconds in which the rows of a failed shard must be read for their ids.
_READ_SECONDS = 600.0
# Seconds that a task of an array waits for others to write or compare the manifest, and between two attempts.
_ARRAY_SECONDS, _ARRAY_INTERVAL = 600.0, 0.5
# Number of documents in a shard of an array, if none is given.
_ARRAY_DOCUMENTS = 250

Addresses = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class JobReport:
    """What a job has done.

    Attributes:
        output: The output folder.
        n_shards: Number of shards of the job, or of the task of an array.
        n_shards_done: Number of them that are finished.
        n_shards_failed: Number of shards that failed in this run and are in ``errors`` as a whole.
        n_input_rows: Number of rows of these shards.
        rows: Number of rows by table.
        n_words: Number of words of the documents.
        n_sentences: Number of sentences of the documents.
        seconds: Time of this run, without planning.
        is_finished: Whether the whole job is finished, with all tasks of an array.
        was_finished: Whether it was finished before, so that there was nothing to do.
    """

    output: str
    n_shards: int
    n_shards_done: int
    n_shards_failed: int
    n_input_rows: int
    rows: Mapping[str, int]
    n_words: int
    n_sentences: int
    seconds: float
    is_finished: bool
    was_finished: bool = False


class JobInterrupted(KeyboardInterrupt):
    """A job was stopped by Ctrl-C or SIGTERM. It can be resumed.

    Attributes:
        report: What was done.
        signal: Number of the signal.
    """

    def __init__(self, report: JobReport, signal: int) -> None:
        super().__init__()
        self.report = report
        self.signal = signal


def run(
    inputs: Addresses,
    output: str | os.PathLike[str],
    *,
    model: str | Path | None = None,
    engine: str | CorpusEngine = "local",
    workers: int | str = "auto",
    resume: bool = False,
    settings: CorpusSettings | None = None,
    progress: Callable[[JobProgress], None] | None = None,
    array: tuple[int, int] | None = None,
    root: str | None = None,
) -> JobReport:
    """Extract entities and relations from a corpus to tables.

    The input is cut into shards. A shard is written at once, so that a job that is killed at any moment can be resumed,
    and each document is in the tables exactly once. Documents that cannot be processed are in the table ``errors``.

    SIGTERM and Ctrl-C stop the job after the running shards, or after ten seconds. A second one stops it at once.

    Args:
        inputs: Files, folders, patterns or fsspec addresses: JSON lines, Parquet, CSV, TSV or text, compressed or not.
        output: Output folder. It must be new or empty, unless the job in it is resumed.
        model: A model folder, the name of a bundled model, or a hub id. None: the default bundled model.
        engine: "local", "ray", or an engine.
        workers: Number of workers, or "auto". See :class:`.LocalEngine`.
        resume: Continue the job in the output folder, if there is one. Inputs, model, settings and versions must be
            the same.
        settings: Settings of the job.
        progress: Called after each shard, and about once a second.
        array: Zero-based number of a task and number of tasks, to share a job among the tasks of a job array. The tasks
            may run at the same time. Each continues what it has done before.
        root: Folder below which files are named, so that names and ids of documents do not depend on the other files of
            the job. None: the folder that all files share.

    Raises:
        CascadeError: If something is wrong with the input, the model or the output folder, the disk is full, or there
            are too many errors. Finished shards are kept, and the job can be resumed.
        JobInterrupted: If the job was stopped by Ctrl-C or SIGTERM.
    """
    settings = settings or CorpusSettings()
    engine = _make_engine(engine, workers)
    task, resume = _array_name(array), resume or array is not None
    folder = JobFolder(Path(output).absolute())
    _check_output(folder, str(output), resume=resume)
    with ExitStack() as stack:
        if array is None:
            stack.enter_context(folder.lock())
            folder.refuse_array()
        settings = _with_known_size(folder, settings, is_array=array is not None)
        manifest, job = _plan(inputs, folder, find_model(model), settings, root, getattr(engine, "workers", workers))
        # Tasks of an array plan at the same time, and lock the folder only to write or compare the manifest.
        with nullcontext() if array is None else _waiting_for_lock(folder):
            is_new = _write_or_compare(folder, manifest, job.settings, resume=resume)
            if array is not None:
                stack.enter_context(folder.lock_array(task))
        shards = manifest.shards if array is None else manifest.shards[array[0] :: array[1]]
        return _Run(folder, manifest, job, shards, progress, task).run(engine, is_new=is_new)


def _make_engine(engine: str | CorpusEngine, workers: int | str) -> CorpusEngine:
    if not isinstance(engine, str):
        return engine
    require_choice("engine", engine, ENGINES, option="engine")
    if engine == "local":
        return LocalEngine(workers)
    return RayEngine(workers)


def _array_name(array: tuple[int, int] | None) -> str:
    if array is None:
        return ""
    number, count = array
    if not 0 <= number < count:
        raise ConfigError(
            f"the array is {number}/{count}",
            "Give the number of the task, from 0, and the number of tasks",
            option="array",
        )
    return f"{number}-of-{count}-"


def _check_output(folder: JobFolder, output: str, *, resume: bool) -> None:
    """Refuse an output folder that cannot be used, before the input is read."""
    if _ADDRESS.match(output):
        raise ConfigError(
            f"the output folder {output!r} is not on a file system",
            "Write to a folder, and copy it when the job is finished",
            option="output",
        )
    folder.refuse_foreign()
    if folder.is_begun and not resume:
        raise _exists(folder)
    with folder.writing():
        try_writing(folder.path)


def _exists(folder: JobFolder) -> ConfigError:
    return ConfigError(
        f"there is a corpus job in {str(folder.path)!r} already",
        "Resume it, or choose another output folder",
        option="resume",
    )


def _with_known_size(folder: JobFolder, settings: CorpusSettings, *, is_array: bool) -> CorpusSettings:
    """Take the size of shards from the job that is resumed. It is fixed for an array, whose tasks plan separately."""
    if settings.inputs.shard_documents is not None:
        return settings
    if folder.is_begun:
        known = folder.read_manifest().settings["inputs"]
        size = {name: known[name] for name in ("shard_documents", "shard_bytes")}
    elif is_array:
        size = {"shard_documents": _ARRAY_DOCUMENTS}
    else:
        return settings
    return replace(settings, inputs=replace(settings.inputs, **size))


def _plan(
    inputs: Addresses,
    folder: JobFolder,
    model: Path,
    settings: CorpusSettings,
    root: str | None,
    workers: int | str,
) -> tuple[Manifest, JobSpec]:
    files = find_input_files(inputs, settings.inputs, skip=str(folder.path), root=root)
    if not folder.is_begun:
        settings = replace(settings, inputs=find_shard_size(files, model, settings, workers))
    shards = plan_shards(files, settings.inputs, mixed=root is None)
    manifest = Manifest.describe(files, model, model_checksum(model), settings, shards)
    job = JobSpec(
        output=str(folder.path),
        scratch="",
        model=str(model.resolve()),
        model_checksum=manifest.model_checksum,
        files=files,
        settings=settings,
        kept=kept_types(files, settings.inputs),
    )
    return manifest, job


@contextmanager
def _waiting_for_lock(folder: JobFolder) -> Iterator[None]:
    """Lock the folder. Wait while another task of the array has it."""
    deadline = time.monotonic() + _ARRAY_SECONDS
    while True:
        try:
            lock = folder.lock()
            break
        except ConfigError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_ARRAY_INTERVAL)
    with lock:
        yield


def _write_or_compare(folder: JobFolder, manifest: Manifest, settings: CorpusSettings, *, resume: bool) -> bool:
    """Write the manifest and return True, or compare the job with the one in the folder and return False."""
    if not folder.is_begun:
        folder.write_manifest(manifest)
        return True
    if not resume:
        raise _exists(folder)
    if difference := folder.read_manifest().difference(manifest, settings):
        raise ConfigError(
            f"the job in {str(folder.path)!r} cannot be resumed, because {difference}",
            "Undo the change, or choose another output folder",
            option="output",
        )
    return False


class _Run:
    """One run of a job, or of a task of an array."""

    def __init__(
        self,
        folder: JobFolder,
        manifest: Manifest,
        job: JobSpec,
        shards: Sequence[Shard],
        progress: Callable[[JobProgress], None] | None,
        task: str,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.job = job
        self.shards = shards
        self.task = task
        self.progress = progress
        self.control = Control()
        self.totals = Totals()
        self.before = Totals()
        self.n_failed = 0
        self.started = time.monotonic()

    def run(self, engine: CorpusEngine, *, is_new: bool) -> JobReport:
        """Process the shards that are not finished."""
        self.folder.remove_scratch(self.task)
        finished = set() if is_new else self._count_finished()
        pending = [shard for shard in self.shards if shard.id not in finished]
        if not pending:
            return self._finish(was_finished=True)
        self.folder.make_folders()
        self.folder.remove_unfinished(pending)
        self.job = replace(self.job, scratch=self.folder.make_scratch(self.task))
        try:
            self._process(engine, pending)
        except CascadeError:
            if is_new and not self.task and not self.totals.n_shards:
                self.folder.clear(self.job.scratch)  # nothing to resume
            raise
        finally:
            shutil.rmtree(self.job.scratch_path, ignore_errors=True)
        if self.control.stopping and self.totals.n_shards < len(self.shards):
            raise JobInterrupted(self._report(), self.control.signal)
        return self._finish()

    def _count_finished(self) -> set[str]:
        finished = set()
        for shard, record in self.folder.finished(self.shards, check=True):
            finished.add(shard.id)
            self.totals.add(record)
        self.before = copy.deepcopy(self.totals)
        return finished

    def _process(self, engine: CorpusEngine, pending: Sequence[Shard]) -> None:
        by_id = {shard.id: shard for shard in pending}
        self.started = time.monotonic()
        self._show()
        with stop_signals(self.control):
            results = engine.run(self.job, pending, self.control)
            try:
                for result in results:
                    if result is not None:
                        shard = by_id.pop(result.shard)
                        if isinstance(result, ShardFailure):
                            result = self._give_up(shard, result)
                        self.totals.add(result)
                    self._show(by_id)
                    self._check_errors()
            finally:
                # Ends the workers. Only generators have this method.
                getattr(results, "close", lambda: None)()
        if by_id and not self.control.stopping:
            raise JobError(
                f"the engine ended without a result for {len(by_id)} shards", "Resume the job", option="resume"
            )

    def _give_up(self, shard: Shard, failure: ShardFailure) -> ShardResult:
        """Write the rows of a failed shard to ``errors``, in a process of its own, because reading them may crash."""
        self.n_failed += 1
        details = self.job, shard, failure.reason, failure.attempts
        log = self.job.scratch_path / f"failed-{shard.id}.log"
        try:
            result: ShardResult = call_once(write_failed_shard, *details, log=log, timeout=_READ_SECONDS)
        except JobError:
            raise
        except CascadeError:
            result = write_unreadable_shard(*details)
        return result

    def _check_errors(self) -> None:
        share, n_errors = self.job.settings.max_error_share, self.totals.rows["errors"]
        n_documents = self.totals.n_rows
        if share is not None and n_documents >= _MIN_DOCUMENTS and n_errors > share * n_documents:
            raise CascadeError(
                f"{n_errors:,} of {n_documents:,} documents are in errors, more than a share of {share:g}",
                "See their reasons in the table errors, and resume the job with a larger share",
                option="max_error_share",
            )

    def _finish(self, *, was_finished: bool = False) -> JobReport:
        """Write the final counts if all shards of the job are finished, those of other tasks included."""
        manifest = self.folder.read_manifest()
        totals = Totals()
        for _, record in self.folder.finished(manifest.shards):
            totals.add(record)
        if totals.n_shards < len(manifest.shards):
            return self._report(was_finished=was_finished)
        if totals.n_rows != manifest.n_rows:
            raise JobError(
                f"the input has {manifest.n_rows} rows, but the tables have {totals.n_rows}", "Verify the output folder"
            )
        if manifest.counts != totals.counts():
            with nullcontext() if not self.task else _waiting_for_lock(self.folder):
                self.folder.write_manifest(replace(manifest, counts=totals.counts()))
        return self._report(is_finished=True, was_finished=was_finished)

    def _report(self, *, is_finished: bool = False, was_finished: bool = False) -> JobReport:
        return JobReport(
            output=self.job.output,
            n_shards=len(self.shards),
            n_shards_done=self.totals.n_shards,
            n_shards_failed=self.n_failed,
            n_input_rows=sum(shard.n_rows for shard in self.shards),
            rows=dict(self.totals.rows),
            n_words=self.totals.n_words,
            n_sentences=self.totals.n_sentences,
            seconds=time.monotonic() - self.started,
            is_finished=is_finished,
            was_finished=was_finished,
        )

    def _show(self, pending: Collection[str] = ()) -> None:
        """Report the progress. ``pending`` are the ids of the shards without a result."""
        if self.progress is None:
            return
        done, before = self.totals, self.before
        running = count_running(self.folder.path, pending)
        n_done = done.n_rows + running.n_rows
        self.progress(
            JobProgress(
                n_shards=len(self.shards),
                n_shards_done=done.n_shards,
                n_documents=sum(shard.n_rows for shard in self.shards),
                n_documents_done=int(n_done),
                n_part=n_done % 1,
                n_words=done.n_words - before.n_words + running.n_words,
                n_sentences=done.n_sentences - before.n_sentences,
                n_errors=done.rows["errors"],
                n_workers=self.control.n_workers,
                seconds=time.monotonic() - self.started,
                n_documents_before=before.n_rows,
            )
        )
