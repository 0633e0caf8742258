"""Execute the shards of a corpus job on Ray: on this machine or on a cluster. Needs the extra ``ray``.

Workers are actors of Ray Core. Ray Data would add an object store and queues of its own, and does not replace an actor
that dies. The driver polls, so that a worker that is dead, stuck or never placed is noticed.
"""

import math
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.engine import Control, JobError, ShardFailure, ShardPool
from cascade_srn.apps.corpus.local import start_worker
from cascade_srn.apps.corpus.manifest import JobFolder, Manifest
from cascade_srn.apps.corpus.progress import with_number
from cascade_srn.apps.corpus.ray_cluster import OBJECT_STORE_BYTES, connection, find_address, import_ray
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError, require
from cascade_srn.runs.children import DONE, ENDED, FAILED, READY, WARNED, ChildEvent, portable_error
from cascade_srn.runs.folder import differences
from cascade_srn.runtime.device import Slot, choose_slots, find_devices

# A busy worker is asked whether it is alive so often, and replaced if it does not answer for so long.
_ASK_SECONDS, _SILENT_SECONDS = 60.0, 300.0
_KILL_SECONDS = 10.0


@dataclass(frozen=True)
class RayEngine:
    """Engine that executes shards on Ray.

    The output folder, the input and the model must be reachable under the same paths on all nodes, and the same
    versions of the software must be installed there. Each worker checks this when it starts.

    Args:
        workers: Number of workers, or "auto" for as many as the CPUs or GPUs allow.
        address: Address of a cluster: ``host:6379``, ``ray://host:10001``, or "auto" on one of its nodes. None: that
            in the environment variable ``RAY_ADDRESS``, or Ray is started on this machine, and ended with the job.
        cpus_per_worker: CPU slots of each worker. None: as many as threads. Without ``settings.threads``, a worker of a
            cluster has one thread, and the workers of a Ray that is started here share the cores.
        gpus_per_worker: GPUs of each worker, such as 0.5 for two workers per GPU. None: 1 if there are GPUs and the
            device of the job is not "cpu".
        shard_timeout: Seconds after which a worker that is still at a shard is replaced; the shard counts as failed.
        start_timeout: Seconds that the first worker may take to be placed and to load the model.
        object_store_memory: Bytes of shared memory of a Ray that is started here.

    Example:
        >>> from cascade_srn.apps import corpus
        >>> engine = corpus.RayEngine(address="head:6379", workers=16, shard_timeout=1800)
        >>> corpus.run("/shared/abstracts.jsonl.gz", "/shared/tables", engine=engine)  # doctest: +SKIP
    """

    workers: int | str = "auto"
    address: str | None = None
    cpus_per_worker: int | None = None
    gpus_per_worker: float | None = None
    shard_timeout: float | None = None
    start_timeout: float = 600.0
    object_store_memory: int = OBJECT_STORE_BYTES

    def __post_init__(self) -> None:
        if isinstance(self.workers, str) and self.workers != "auto":
            raise ConfigError(f"workers is {self.workers!r}", "Give a number or auto", option="workers")
        numbers = {"workers": 1, "cpus_per_worker": 1, "shard_timeout": 0, "start_timeout": 0}
        for name, least in numbers.items():
            if isinstance(value := getattr(self, name), int | float):
                require_range(name, value, least)
        if self.gpus_per_worker is not None:
            require_range("gpus_per_worker", self.gpus_per_worker, 0)
            if self.gpus_per_worker > 1 and self.gpus_per_worker % 1:
                raise ConfigError(
                    f"gpus_per_worker is {self.gpus_per_worker:g}",
                    "Give a whole number, or a share of one GPU",
                    option="gpus_per_worker",
                )

    def run(
        self, job: JobSpec, shards: Sequence[Shard], control: Control
    ) -> Iterator[ShardResult | ShardFailure | None]:
        """Process shards. See :meth:`.CorpusEngine.run`."""
        if not shards:
            return
        ray = import_ray()
        if job.settings.device not in ("auto", "cpu", "cuda"):
            raise ConfigError(
                f"the device is {job.settings.device!r}, but Ray chooses the GPUs of its workers",
                "Give cuda",
                option="device",
            )
        starts_ray = find_address(self.address) is None and not ray.is_initialized()
        local = self._place_here(job, len(shards)) if starts_ray else None
        n_cpus, n_gpus = (local.n_workers * local.cpus, local.n_gpus) if local else (0, 0)
        with connection(ray, self.address, n_cpus, n_gpus, self.object_store_memory):
            placement = local or self._place(ray, job, len(shards))
            if placement.room < placement.n_workers:
                warnings.warn(
                    f"there is room for {placement.room} of {placement.n_workers} workers with {placement.each} each; "
                    "the others wait",
                    stacklevel=2,
                )
            workers = _RayWorkers(ray, self, placement, job)
            yield from ShardPool(job, workers, shards, control, self.shard_timeout).run()

    def _place_here(self, job: JobSpec, n_shards: int) -> "_Placement":
        """Choose the workers of a Ray that is started on this machine."""
        device, threads = job.settings.device, job.settings.threads or self.cpus_per_worker
        devices = [] if self.gpus_per_worker == 0 else find_devices(device, Path(job.model))
        n_gpus = sum(name != "cpu" for name in devices)
        gpus = self._gpus(device, n_gpus)
        if not gpus:
            slots = choose_slots(self.workers, "cpu", threads, model=Path(job.model), n_shards=n_shards)
            n_threads = slots[0].n_threads
            return _Placement(len(slots), len(slots), self.cpus_per_worker or n_threads, n_threads=n_threads)
        room = int(n_gpus / gpus)
        if not room:
            raise ConfigError(
                f"a worker needs {gpus:g} GPUs, but this machine has {n_gpus}",
                "Give each worker less",
                option="gpus_per_worker",
            )
        n_workers = min(room if self.workers == "auto" else int(self.workers), n_shards)
        return _Placement(n_workers, room, self.cpus_per_worker or 1, gpus, n_gpus, n_threads=threads or 1)

    def _place(self, ray: Any, job: JobSpec, n_shards: int) -> "_Placement":
        """Choose the workers of a cluster. There may be more than it has room for, because it may grow."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        n_gpus = int(sum(node.get("GPU", 0) for node in nodes))
        cpus, gpus = self.cpus_per_worker or job.settings.threads or 1, self._gpus(job.settings.device, n_gpus)
        rooms = ((node.get("CPU", 0) / cpus, node.get("GPU", 0) / gpus if gpus else math.inf) for node in nodes)
        room = sum(int(min(one)) for one in rooms)
        n_workers = min(max(1, room) if self.workers == "auto" else int(self.workers), n_shards)
        return _Placement(n_workers, room, cpus, gpus, n_gpus, n_threads=job.settings.threads or cpus)

    def _gpus(self, device: str, n_gpus: int) -> float:
        """Return the number of GPUs of each worker."""
        if device == "cpu":
            return 0.0
        gpus = self.gpus_per_worker if self.gpus_per_worker is not None else float(n_gpus > 0 or device == "cuda")
        if device == "cuda" and not gpus:
            raise ConfigError("the device is 'cuda', but workers get no GPU", "Give cpu", option="device")
        return gpus


@dataclass(frozen=True)
class _Placement:
    """Number of workers, for how many of them there is room now, and the resources of each."""

    n_workers: int
    room: int
    cpus: int
    gpus: float = 0.0
    n_gpus: int = 0
    n_threads: int = 1

    @property
    def each(self) -> str:
        """The resources of a worker."""
        cpus = with_number(self.cpus, "CPU")
        return f"{cpus} and {self.gpus:g} GPUs" if self.gpus else cpus


@dataclass(eq=False)
class _Actor:
    """A worker as the driver sees it. Times are those of the monotonic clock."""

    handle: Any
    reference: Any
    is_ready: bool = False
    since: float = field(default_factory=time.monotonic)
    asked: Any = None
    asked_at: float = field(default_factory=time.monotonic)
    problem: str = ""

    def call(self, shard: Shard, attempt: int) -> None:
        self.reference, self.asked = self.handle.process.remote(shard, attempt), None
        self.asked_at = time.monotonic()

    def kill(self) -> None:
        require("ray", extra="ray").kill(self.handle)

    def cause_of_death(self) -> str:
        return self.problem


class _RayWorkers:
    """Actors of Ray. See :class:`.ShardWorkers`."""

    def __init__(self, ray: Any, engine: RayEngine, placement: _Placement, job: JobSpec) -> None:
        self.ray, self.engine, self.placement = ray, engine, placement
        self.actors: list[_Actor] = []
        self.n_workers = placement.n_workers
        self._shared_job = ray.put(job)
        self._slot = Slot("cuda" if placement.gpus else "cpu", placement.n_threads)
        # A second thread answers whether the worker is alive.
        self._class = ray.remote(RayWorker).options(
            num_cpus=placement.cpus, num_gpus=placement.gpus, max_restarts=0, max_task_retries=0, max_concurrency=2
        )

    def start(self) -> _Actor | None:
        if len(self.actors) >= self.n_workers:
            return None
        handle = self._class.remote(start_on_node, self._shared_job, self._slot)
        self.actors.append(_Actor(handle, handle.ready.remote()))
        return self.actors[-1]

    def wait(self, seconds: float) -> Sequence[ChildEvent]:
        busy = {actor.reference: actor for actor in self.actors if actor.reference is not None}
        done, running = self.ray.wait(list(busy), timeout=seconds, fetch_local=False)
        answers = [event for reference in done for event in self._answers(busy[reference])]
        return answers + [ChildEvent(ENDED, busy[reference]) for reference in running if self._is_lost(busy[reference])]

    def _answers(self, actor: _Actor) -> Iterator[ChildEvent]:
        reference, actor.reference = actor.reference, None
        try:
            for kind, value in self.ray.get(reference):
                actor.is_ready = True
                yield ChildEvent(kind, actor, value)
        except self.ray.exceptions.RayError as error:
            actor.problem = _reason(error)
            yield ChildEvent(ENDED, actor)

    def _is_lost(self, actor: _Actor) -> bool:
        """Return whether a busy worker does not answer. Raise an error if no worker starts."""
        now = time.monotonic()
        if not actor.is_ready:
            if now - actor.since > self.engine.start_timeout and not any(one.is_ready for one in self.actors):
                raise self._not_started()
        elif actor.asked is None:
            if now - actor.asked_at > _ASK_SECONDS:
                actor.asked, actor.asked_at = actor.handle.alive.remote(), now
        elif self.ray.wait([actor.asked], timeout=0, fetch_local=False)[0]:
            actor.asked, actor.asked_at = None, now
        elif now - actor.asked_at > _SILENT_SECONDS:
            actor.problem = "the worker does not answer"
            return True
        return False

    def remove(self, worker: _Actor, *, is_room: bool = True) -> None:
        worker.kill()
        self.actors.remove(worker)
        if not is_room:
            self.n_workers -= 1

    def hint(self, reason: str) -> str:
        is_missing = "No module named" in reason
        return "Install cascade-srn with the extra 'ray' on all nodes" if is_missing else "See the logs of Ray"

    def close(self) -> None:
        for actor in self.actors:
            actor.kill()
        if self.actors:
            calls = [actor.handle.alive.remote() for actor in self.actors]
            self.ray.wait(calls, num_returns=len(calls), timeout=_KILL_SECONDS, fetch_local=False)

    def _not_started(self) -> JobError:
        seconds = self.engine.start_timeout
        if not self.placement.room:
            return JobError(
                f"no node of the Ray cluster has {self.placement.each} for a worker, "
                f"and none was added within {seconds:g} seconds",
                "Add a node, or give each worker less",
                option="gpus_per_worker" if self.placement.gpus else "",
            )
        return JobError(
            f"no worker was ready after {seconds:g} seconds",
            "Check that the Ray cluster has free CPUs and GPUs",
        )


class RayWorker:
    """Actor that processes shards. Its answers are the kinds and values of events, errors included."""

    def __init__(self, start: Callable[[JobSpec, Slot], Callable[..., ShardResult]], job: JobSpec, slot: Slot) -> None:
        self._start: tuple[str, Any] = READY, None
        try:
            self._function = start(job, slot)
        except Exception as error:
            self._start = FAILED, portable_error(error)

    def ready(self) -> list[tuple[str, Any]]:
        """Answer once the model is loaded."""
        return [self._start]

    def process(self, shard: Shard, attempt: int) -> list[tuple[str, Any]]:
        """Process a shard."""
        with warnings.catch_warnings(record=True) as caught:
            try:
                outcome: tuple[str, Any] = DONE, self._function(shard, attempt)
            except Exception as error:
                outcome = FAILED, portable_error(error)
        return [*((WARNED, str(warning.message)) for warning in caught), outcome]

    def alive(self) -> None:
        """Answer while the other thread is at a shard."""


def start_on_node(job: JobSpec, slot: Slot) -> Callable[..., ShardResult]:
    """Load the model in a worker process, after a look at its node."""
    check_node(job)
    return start_worker(job, slot)


def check_node(job: JobSpec) -> None:
    """Refuse a node that does not see the output, the model or the input of a job, or has other software.

    Raises:
        JobError: With the name of the node.
    """
    node = socket.gethostname()
    local = [file.address for file in job.files if "://" not in file.address]
    needed = (("output folder", job.scratch_path), ("model", Path(job.model)), *(("input", Path(p)) for p in local[:1]))
    for name, path in needed:
        if not path.exists():
            shown = job.output_path if name == "output folder" else path
            raise JobError(
                f"the {name} {str(shown)!r} does not exist on the node {node!r}",
                "Put output, input and model on storage that all nodes see under the same path",
            )
    software = JobFolder(job.output_path).read_manifest().software
    for name, wanted, found in differences(
        software, Manifest.describe((), Path(job.model), "", job.settings, ()).software
    ):
        raise JobError(
            f"the node {node!r} has {name} {found or 'not installed'}, but the job started with {wanted}",
            "Install the same versions on all nodes",
        )


def _reason(error: Exception) -> str:
    """Return the part of a message of Ray that says why a worker is dead."""
    text = str(error)
    if missing := re.search(r"No module named '[^']*'", text):
        return missing[0]
    if "memory" in text and ("OOM" in text or "out of memory" in text.lower()) and "memory monitor" in text.lower():
        return "the worker was killed because its node is out of memory"
    if cause := re.search(r"The actor is dead because (.+?)\.(?:\s|$)", text, re.DOTALL):
        return f"the worker died: {cause[1]}"
    return f"the worker died: {text.strip().partition(chr(10))[0]}"
