"""Execute the shards of a corpus job on Ray: on this machine or on a cluster. Needs the extra ``ray``.

Workers are actors of Ray Core. Ray Data would add an object store and queues of its own, and does not replace an actor
that dies. The driver polls, so that a worker that is dead, stuck or never placed is noticed.
"""

import math
import re
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.engine import Control, JobError, ShardFailure
from cascade_srn.apps.corpus.progress import with_number
from cascade_srn.apps.corpus.ray_cluster import OBJECT_STORE_BYTES, connection, find_address, import_ray
from cascade_srn.apps.corpus.ray_worker import RayWorker, start_on_node
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.config import require_range
from cascade_srn.errors import ConfigError
from cascade_srn.runtime.device import Slot, choose_slots, find_devices

_POLL_SECONDS = 0.5
# A busy worker is asked whether it is alive so often, and replaced if it does not answer for so long.
_ASK_SECONDS, _SILENT_SECONDS = 60.0, 300.0
_KILL_SECONDS = 10.0
_MAX_WARNINGS = 20


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

    def run(self, job: JobSpec, shards: Sequence[Shard], control: Control) -> Iterator[ShardResult | ShardFailure]:
        """Process shards. See :meth:`.Engine.run`."""
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
            pool = _Pool(ray, self, placement, job, control, shards)
            try:
                yield from pool.results()
            finally:
                pool.close()

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


@dataclass
class _Member:
    """A worker as the driver sees it. Times are those of the monotonic clock."""

    handle: Any
    reference: Any
    since: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    shard: Shard | None = None
    asked: Any = None
    asked_at: float = 0.0

    def begin(self, reference: Any, shard: Shard | None) -> None:
        """Remember what the worker is doing now."""
        self.reference, self.shard, self.asked = reference, shard, None
        self.since = self.asked_at = time.monotonic()


class _Pool:
    """The workers of a job, and the shards that wait for them."""

    def __init__(
        self,
        ray: Any,
        engine: RayEngine,
        placement: _Placement,
        job: JobSpec,
        control: Control,
        shards: Sequence[Shard],
    ) -> None:
        self.ray, self.engine, self.placement, self.job, self.control = ray, engine, placement, job, control
        self.waiting = deque(shards)
        self.attempts: dict[str, int] = {}
        self.members: list[_Member] = []
        self.n_workers = placement.n_workers
        self.n_failed_starts = 0
        self._warned: set[str] = set()
        self._shared_job = ray.put(job)
        self._slot = Slot("cuda" if placement.gpus else "cpu", placement.n_threads)
        # A second thread answers whether the worker is alive.
        self._actor = ray.remote(RayWorker).options(
            num_cpus=placement.cpus, num_gpus=placement.gpus, max_restarts=0, max_task_retries=0, max_concurrency=2
        )

    def results(self) -> Iterator[ShardResult | ShardFailure]:
        """Hand out shards until all are done, and yield what becomes of them."""
        while self._assign():
            busy = {member.reference: member for member in self.members if member.reference is not None}
            done, running = self.ray.wait(list(busy), timeout=_POLL_SECONDS, fetch_local=False)
            outcomes = [self._finish(busy[reference]) for reference in done]
            outcomes += [self._check(busy[reference]) for reference in running]
            self.control.n_workers = sum(member.is_ready for member in self.members)
            yield from (outcome for outcome in outcomes if outcome is not None)

    def close(self) -> None:
        """Kill all workers, and wait until they are dead."""
        for member in self.members:
            self.ray.kill(member.handle)
        if self.members:
            calls = [member.handle.alive.remote() for member in self.members]
            self.ray.wait(calls, num_returns=len(calls), timeout=_KILL_SECONDS, fetch_local=False)
        self.members.clear()
        self.control.n_workers = 0

    def _assign(self) -> bool:
        """Give shards to free workers, start missing workers, and return whether there is something to wait for."""
        n_busy = sum(member.shard is not None for member in self.members)
        if self.control.stopping:
            return n_busy > 0 and not self.control.abandoning
        for member in self.members:
            if self.waiting and member.is_ready and member.shard is None:
                shard = self.waiting.popleft()
                attempt = self.attempts[shard.id] = self.attempts.get(shard.id, 0) + 1
                member.begin(member.handle.process.remote(shard, attempt), shard)
                n_busy += 1
        while len(self.members) < min(self.n_workers, n_busy + len(self.waiting)):
            handle = self._actor.remote(start_on_node, self._shared_job, self._slot)
            self.members.append(_Member(handle, handle.ready.remote()))
        return n_busy + len(self.waiting) > 0

    def _finish(self, member: _Member) -> ShardResult | ShardFailure | None:
        """Take what a worker returned."""
        shard = member.shard
        try:
            answer = self.ray.get(member.reference)
        except self.ray.exceptions.RayError as error:
            return self._replace(member, _reason(error))
        if shard is None:
            if answer is not None:
                raise answer
            member.is_ready, self.n_failed_starts = True, 0
            member.begin(None, None)
            return None
        outcome, messages = answer
        self._warn(messages)
        if isinstance(outcome, str):
            # After an error of any kind, the process or its GPU may be in a state that only a new process ends.
            return self._replace(member, outcome)
        member.begin(None, None)
        return self._retry(shard, str(outcome), outcome) if isinstance(outcome, JobError) else outcome

    def _warn(self, messages: Sequence[str]) -> None:
        """Repeat the warnings of workers, each once."""
        for message in messages:
            if message not in self._warned and len(self._warned) < _MAX_WARNINGS:
                self._warned.add(message)
                warnings.warn(message, stacklevel=2)

    def _check(self, member: _Member) -> ShardFailure | None:
        """Replace a worker that is dead or too slow."""
        now, timeout = time.monotonic(), self.engine.shard_timeout
        if member.shard is None:
            if now - member.since > self.engine.start_timeout and not any(one.is_ready for one in self.members):
                raise self._not_started()
        elif timeout is not None and now - member.since > timeout:
            return self._replace(member, f"the shard took more than {timeout:g} seconds")
        elif member.asked is None:
            if now - member.asked_at > _ASK_SECONDS:
                member.asked, member.asked_at = member.handle.alive.remote(), now
        elif self.ray.wait([member.asked], timeout=0, fetch_local=False)[0]:
            member.asked, member.asked_at = None, now
        elif now - member.asked_at > _SILENT_SECONDS:
            return self._replace(member, "the worker does not answer")
        return None

    def _replace(self, member: _Member, reason: str) -> ShardFailure | None:
        """Kill a worker and try its shard again. Another worker is started by :meth:`_assign`."""
        self.members.remove(member)
        self.ray.kill(member.handle)
        if self.control.stopping:
            return None  # what stops the job may have stopped the worker
        if member.shard is not None:
            return self._retry(member.shard, reason)
        self.n_failed_starts += 1
        if self.n_failed_starts < self.job.settings.max_attempts:
            return None
        if n_ready := sum(one.is_ready for one in self.members):
            self.n_workers = n_ready  # the others have the memory that one more would need
        else:
            is_missing = "No module named" in reason
            hint = "Install cascade-srn with the extra 'ray' on all nodes" if is_missing else "See the logs of Ray"
            raise JobError(f"workers die before they are ready ({reason})", hint)
        return None

    def _retry(self, shard: Shard, reason: str, error: JobError | None = None) -> ShardFailure | None:
        """Try a shard again, after the others, or give up."""
        attempts = self.attempts[shard.id]
        if error is not None and not error.is_temporary:
            raise error
        if attempts < self.job.settings.max_attempts:
            self.waiting.append(shard)
            return None
        if error is not None:
            raise error
        return ShardFailure(shard.id, reason, attempts)

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
