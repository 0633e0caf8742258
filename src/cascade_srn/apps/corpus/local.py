"""Process shards on this machine, in worker processes with one model each."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from cascade_srn.apps.corpus.engine import Control, ShardFailure, ShardPool
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.apps.corpus.worker import ENVIRONMENT, ShardWorker
from cascade_srn.runs.children import ChildEvent, FunctionChild
from cascade_srn.runtime.device import Slot, choose_slots


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

    def run(
        self, job: JobSpec, shards: Sequence[Shard], control: Control
    ) -> Iterator[ShardResult | ShardFailure | None]:
        """Process shards. See :meth:`.CorpusEngine.run`."""
        settings = job.settings
        slots = choose_slots(
            self.workers, settings.device, settings.threads, model=Path(job.model), n_shards=len(shards)
        )
        return ShardPool(job, _LocalWorkers(job, slots), shards, control, self.shard_timeout).run()


class _LocalWorkers:
    """Worker processes, one for each slot at most. See :class:`.ShardWorkers`."""

    def __init__(self, job: JobSpec, slots: list[Slot]) -> None:
        self.job = job
        self.free_slots = slots
        self.slots: dict[FunctionChild, Slot] = {}
        self.events: SimpleQueue[ChildEvent] = SimpleQueue()
        self.n_started = 0

    def start(self) -> FunctionChild | None:
        if not self.free_slots:
            return None
        slot = self.free_slots.pop(0)
        threads = {"OMP_NUM_THREADS": str(slot.n_threads), "MKL_NUM_THREADS": str(slot.n_threads)}
        self.n_started += 1
        child = FunctionChild(
            start_worker,
            (self.job, slot),
            events=self.events,
            log=self.job.scratch_path / f"worker-{self.n_started}.log",
            environment={**ENVIRONMENT, **threads},
        )
        self.slots[child] = slot
        return child

    def wait(self, seconds: float) -> Sequence[ChildEvent]:
        try:
            return [self.events.get(timeout=seconds)]
        except Empty:
            return []

    def remove(self, worker: FunctionChild, *, is_room: bool = True) -> None:
        worker.close()
        slot = self.slots.pop(worker)
        if is_room:
            self.free_slots.append(slot)

    def hint(self, reason: str) -> str:
        return "Free some memory, or use a smaller model"

    def close(self) -> None:
        for child in self.slots:
            child.kill()
        for child in self.slots:
            child.close()


def start_worker(job: JobSpec, slot: Slot) -> Callable[..., ShardResult]:
    """Load the model in a worker process."""
    return ShardWorker(job, device=slot.device, n_threads=slot.n_threads).process
