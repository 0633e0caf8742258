"""Process shards on this machine, in worker processes with one model each."""

import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from cascade_srn.apps.corpus.engine import Control, JobError, ShardFailure
from cascade_srn.apps.corpus.process import DONE, ENDED, FAILED, READY, WARNED, Child, Event
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.apps.corpus.worker import ENVIRONMENT, ShardWorker
from cascade_srn.errors import CascadeError
from cascade_srn.inference.streaming import describe_error
from cascade_srn.runtime.device import Slot, choose_slots

# Seconds between two looks at the clock and at the signals.
_INTERVAL = 0.2
_MAX_WARNINGS = 20


@dataclass(frozen=True)
class _Task:
    shard: Shard
    attempt: int = 1


@dataclass(eq=False)
class _Worker:
    """A worker process. It is ready once it has loaded the model."""

    child: Child
    slot: Slot
    is_ready: bool = False
    task: _Task | None = None
    started: float = 0.0
    problem: str = ""


class LocalEngine:
    """Runs worker processes on this machine.

    A worker that dies, for example because memory runs out, is replaced, and its shard is tried again. The driver never
    runs a model itself, so that an error in native code cannot end it. Workers end when their driver does, even if it
    is killed.

    Args:
        workers: Number of workers, or "auto": the number of cores, or with GPUs half of it and at most eight for each
            GPU, or fewer if memory is small.
        shard_timeout: Seconds after which a worker that processes one shard is replaced. None: no limit.
    """

    def __init__(self, workers: int | str = "auto", *, shard_timeout: float | None = None) -> None:
        self.workers = workers
        self.shard_timeout = shard_timeout

    def run(self, job: JobSpec, shards: Sequence[Shard], control: Control) -> Iterator[ShardResult | ShardFailure]:
        """Process shards. See :meth:`.Engine.run`."""
        settings = job.settings
        slots = choose_slots(
            self.workers, settings.device, settings.threads, model=Path(job.model), n_shards=len(shards)
        )
        pool = _Pool(job, slots, deque(map(_Task, shards)), control, self.shard_timeout)
        try:
            yield from pool.run()
        finally:
            pool.close()


class _Pool:
    """Worker processes and the shards that wait for them."""

    def __init__(
        self, job: JobSpec, slots: list[Slot], waiting: deque[_Task], control: Control, timeout: float | None
    ) -> None:
        self.job = job
        self.waiting = waiting
        self.control = control
        self.timeout = timeout
        self.free_slots = slots
        self.workers: dict[Child, _Worker] = {}
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.n_started = 0
        # Deaths of workers before they were ready, since the last one that was.
        self.n_failed_starts = 0
        self._warned: set[str] = set()

    @property
    def n_running(self) -> int:
        """Number of shards that workers process."""
        return sum(worker.task is not None for worker in self.workers.values())

    def run(self) -> Iterator[ShardResult | ShardFailure]:
        """Yield results until all shards are processed or the job shall stop."""
        handle: dict[str, Callable[[_Worker, Event], ShardResult | ShardFailure | None]]
        handle = {READY: self._ready, DONE: self._done, FAILED: self._failed, ENDED: self._ended, WARNED: self._warn}
        while self.waiting or self.n_running:
            if self.control.abandoning or (self.control.stopping and not self.n_running):
                return
            if not self.control.stopping:
                self._start_workers()
                self._hand_out()
            self.control.n_workers = len(self.workers)
            self._check_time()
            try:
                event = self.events.get(timeout=_INTERVAL)
            except Empty:
                continue
            worker = self.workers.get(event.child)
            result = None if worker is None else handle[event.kind](worker, event)
            if result is not None:
                yield result

    def _start_workers(self) -> None:
        """Start workers while there are more shards than workers."""
        while self.free_slots and len(self.workers) < len(self.waiting) + self.n_running:
            slot = self.free_slots.pop(0)
            threads = {"OMP_NUM_THREADS": str(slot.n_threads), "MKL_NUM_THREADS": str(slot.n_threads)}
            self.n_started += 1
            child = Child(
                start_worker,
                (self.job, slot),
                events=self.events,
                log=self.job.scratch_path / f"worker-{self.n_started}.log",
                environment={**ENVIRONMENT, **threads},
            )
            self.workers[child] = _Worker(child, slot)

    def _hand_out(self) -> None:
        for worker in self.workers.values():
            if self.waiting and worker.is_ready and worker.task is None:
                worker.task, worker.started = self.waiting.popleft(), time.monotonic()
                worker.child.call(worker.task.shard, worker.task.attempt)

    def _check_time(self) -> None:
        """Kill workers that take too long. Their end is an event."""
        for worker in self.workers.values():
            seconds = time.monotonic() - worker.started
            if self.timeout is not None and worker.task is not None and seconds > self.timeout and not worker.problem:
                worker.problem = f"the shard took longer than {self.timeout:g} seconds"
                worker.child.kill()

    def _ready(self, worker: _Worker, event: Event) -> None:
        worker.is_ready = True
        self.n_failed_starts = 0

    def _done(self, worker: _Worker, event: Event) -> ShardResult:
        worker.task = None
        result: ShardResult = event.value
        return result

    def _failed(self, worker: _Worker, event: Event) -> ShardFailure | None:
        """Handle an error. The process is not used again, because the error may have left it in a bad state."""
        error: CascadeError = event.value
        self._remove(worker)
        if worker.task is None or (isinstance(error, JobError) and not error.is_temporary):
            raise error
        return self._retry(worker.task, describe_error(error), error)

    def _ended(self, worker: _Worker, event: Event) -> ShardFailure | None:
        self._remove(worker)
        if self.control.stopping:
            return None
        reason = worker.problem or worker.child.cause_of_death()
        if worker.task is not None:
            return self._retry(worker.task, reason)
        self.n_failed_starts += 1
        if self.workers:
            # The others have the memory that one more worker would need.
            self.free_slots.remove(worker.slot)
        elif self.n_failed_starts >= self.job.settings.max_attempts:
            raise JobError(f"no worker could load the model: {reason}", "Free some memory, or use a smaller model")
        return None

    def _warn(self, worker: _Worker, event: Event) -> None:
        """Repeat the warning of a worker, once for all workers."""
        if event.value not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add(event.value)
            warnings.warn(event.value, stacklevel=2)

    def _retry(self, task: _Task, reason: str, error: CascadeError | None = None) -> ShardFailure | None:
        """Try a shard again, after all others, or give up."""
        if task.attempt < self.job.settings.max_attempts:
            self.waiting.append(_Task(task.shard, task.attempt + 1))
            return None
        if isinstance(error, JobError):
            raise error
        return ShardFailure(task.shard.id, reason, task.attempt)

    def _remove(self, worker: _Worker) -> None:
        del self.workers[worker.child]
        worker.child.close()
        self.free_slots.append(worker.slot)

    def close(self) -> None:
        """End all workers."""
        for worker in list(self.workers.values()):
            worker.child.kill()
        for worker in list(self.workers.values()):
            self._remove(worker)
        self.control.n_workers = 0


def start_worker(job: JobSpec, slot: Slot) -> Callable[..., ShardResult]:
    """Load the model in a worker process."""
    if all(file.format != "parquet" for file in job.files):
        _keep_pandas_out()
    return ShardWorker(job, device=slot.device, n_threads=slot.n_threads).process


def _keep_pandas_out() -> None:
    """Have pyarrow work without pandas, which it imports with its first array, for seconds and a hundred megabytes.

    Only reading Parquet can need it: for times in nanoseconds.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        import pyarrow

        pyarrow.array([0])  # looks for pandas, and never again
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """Finder of modules that says that pandas is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise for pandas, and leave other modules to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name)
