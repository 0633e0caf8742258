"""What a job and its engines agree on, and the pool of workers that engines share."""

import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.errors import CascadeError, describe_error
from cascade_srn.runs.children import DONE, ENDED, FAILED, READY, WARNED, ChildEvent

GRACE_SECONDS = 10.0
"""Time that running shards have to finish after the first SIGTERM or Ctrl-C."""
COUNT_SECONDS = 1.0
"""Seconds between two counts of the rows of a running shard."""
# Seconds between two looks at the clock and at the signals.
_INTERVAL = 0.2
_MAX_WARNINGS = 20


class JobError(CascadeError):
    """A reason to stop the job, such as a full disk, a changed input or a model that cannot be loaded.

    Attributes:
        is_temporary: Whether the shard may succeed if it is tried again, as after an error of the network.
    """

    def __init__(self, problem: str, hint: str = "", *, option: str = "", is_temporary: bool = False) -> None:
        super().__init__(problem, hint, option=option)
        self.is_temporary = is_temporary


@dataclass(frozen=True, slots=True)
class ShardFailure:
    """A shard that failed as often as the settings allow. The job writes its rows to ``errors``."""

    shard: str  # Id of the shard
    reason: str  # Why the last attempt failed, such as the message of the error, or the signal that ended the worker
    attempts: int  # Number of attempts


class Control:
    """Connection between the job and its engine.

    Attributes:
        n_workers: Number of workers that have loaded the model. The engine sets it.
        signal: Number of the signal that asked the job to stop; 0 if there was none.
    """

    def __init__(self) -> None:
        self.n_workers = 0
        self.signal = 0
        self._stopped_at: float | None = None

    def stop(self, signal: int = 0, grace: float = GRACE_SECONDS) -> None:
        """Ask the engine to hand out no more shards, and to abandon running ones after some seconds."""
        self.signal = signal
        self._stopped_at = time.monotonic() + grace

    @property
    def stopping(self) -> bool:
        """Whether no more shards shall be handed out."""
        return self._stopped_at is not None

    @property
    def abandoning(self) -> bool:
        """Whether the time of running shards is over."""
        return self._stopped_at is not None and time.monotonic() >= self._stopped_at


class CorpusEngine(Protocol):
    """Executes shards. What is done is decided by the records that workers write, and not by the engine."""

    def run(
        self, job: JobSpec, shards: Sequence[Shard], control: Control
    ) -> Iterator[ShardResult | ShardFailure | None]:
        """Have workers process shards, and yield a result or a failure for each, in any order.

        None, now and then, lets the job show how far the running shards are.

        The engine retries shards up to ``job.settings.max_attempts`` times and replaces workers that die. It ends
        early, without an error, if ``control.stopping`` is set, at the latest when ``control.abandoning`` is. When it
        ends for any reason, or its iterator is closed, no worker is left.

        Raises:
            CascadeError: If workers cannot be started, or a worker raised a :class:`JobError` that is not temporary,
                or one that is and remained after the last attempt.
        """
        ...


@contextmanager
def stop_signals(control: Control) -> Iterator[None]:
    """Stop the job on the first SIGTERM or Ctrl-C, and raise on the second. Only the main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: Any) -> None:
        if control.stopping:
            raise KeyboardInterrupt
        control.stop(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ShardProcess(Protocol):
    """A worker of an engine."""

    def call(self, shard: Shard, attempt: int) -> None:
        """Process a shard. The result is an event."""

    def kill(self) -> None:
        """End the worker at once. Its end is an event."""

    def cause_of_death(self) -> str:
        """Describe how the worker ended."""


class ShardWorkers(Protocol):
    """The workers of an engine."""

    def start(self) -> ShardProcess | None:
        """Start a worker and return it; None if there is no room for one more."""

    def wait(self, seconds: float) -> Sequence[ChildEvent]:
        """Return the next events of workers. Wait for them for some seconds."""

    def remove(self, worker: Any, *, is_room: bool = True) -> None:
        """Forget a worker that is dead, or is killed by this. ``is_room``: Another one may be started instead."""

    def hint(self, reason: str) -> str:
        """Return what to do if no worker starts for a reason."""

    def close(self) -> None:
        """Kill all workers, and wait until they are dead."""


@dataclass(eq=False)
class _Member:
    """What the pool knows of a worker. It is ready once it has loaded the model."""

    worker: ShardProcess
    is_ready: bool = False
    shard: Shard | None = None
    attempt: int = 0
    started: float = 0.0
    problem: str = ""


class ShardPool:
    """Workers, and the shards that wait for them.

    A worker that dies or raises an error is replaced, and its shard is tried again after all others.
    """

    def __init__(
        self, job: JobSpec, workers: ShardWorkers, shards: Sequence[Shard], control: Control, timeout: float | None
    ) -> None:
        self.job, self.workers, self.control, self.timeout = job, workers, control, timeout
        self.waiting = deque((shard, 1) for shard in shards)
        self.members: dict[Any, _Member] = {}
        # Deaths of workers before they were ready, since the last one that was.
        self.n_failed_starts = 0
        self._warned: set[str] = set()

    @property
    def n_running(self) -> int:
        """Number of shards that workers process."""
        return sum(member.shard is not None for member in self.members.values())

    def run(self) -> Iterator[ShardResult | ShardFailure | None]:
        """Yield results until all shards are processed or the job shall stop. No worker is left at the end.

        Each second without a result yields None.
        """
        handle: dict[str, Callable[[_Member, Any], ShardResult | ShardFailure | None]]
        handle = {READY: self._ready, DONE: self._done, FAILED: self._failed, ENDED: self._ended, WARNED: self._warn}
        shown = time.monotonic()
        try:
            while self.waiting or self.n_running:
                if self.control.abandoning or (self.control.stopping and not self.n_running):
                    return
                if not self.control.stopping:
                    self._start_workers()
                    self._hand_out()
                self.control.n_workers = sum(member.is_ready for member in self.members.values())
                self._check_time()
                for event in self.workers.wait(_INTERVAL):
                    member = self.members.get(event.child)
                    result = None if member is None else handle[event.kind](member, event.value)
                    if result is not None:
                        yield result
                if time.monotonic() - shown > COUNT_SECONDS:
                    shown = time.monotonic()
                    yield None
        finally:
            self.workers.close()
            self.control.n_workers = 0

    def _start_workers(self) -> None:
        """Start workers while there are more shards than workers."""
        while len(self.members) < len(self.waiting) + self.n_running:
            if (worker := self.workers.start()) is None:
                return
            self.members[worker] = _Member(worker)

    def _hand_out(self) -> None:
        for member in self.members.values():
            if self.waiting and member.is_ready and member.shard is None:
                member.shard, member.attempt = self.waiting.popleft()
                member.started = time.monotonic()
                member.worker.call(member.shard, member.attempt)

    def _check_time(self) -> None:
        """Kill workers that take too long. Their end is an event."""
        for member in self.members.values():
            seconds = time.monotonic() - member.started
            if self.timeout is not None and member.shard is not None and seconds > self.timeout and not member.problem:
                member.problem = f"the shard took longer than {self.timeout:g} seconds"
                member.worker.kill()

    def _ready(self, member: _Member, value: None) -> None:
        member.is_ready = True
        self.n_failed_starts = 0

    def _done(self, member: _Member, value: ShardResult) -> ShardResult:
        member.shard = None
        return value

    def _failed(self, member: _Member, error: CascadeError) -> ShardFailure | None:
        """Handle an error. The worker is not used again, because the error may have left it in a bad state."""
        self._remove(member)
        if member.shard is None or (isinstance(error, JobError) and not error.is_temporary):
            raise error
        return self._retry(member.shard, member.attempt, describe_error(error), error)

    def _ended(self, member: _Member, value: None) -> ShardFailure | None:
        reason = member.problem or member.worker.cause_of_death()
        # Workers that are left have the memory that one more would need.
        self._remove(member, is_room=member.is_ready or len(self.members) == 1)
        if self.control.stopping:
            return None  # what stops the job may have stopped the worker
        if member.shard is not None:
            return self._retry(member.shard, member.attempt, reason)
        self.n_failed_starts += 1
        if not self.members and self.n_failed_starts >= self.job.settings.max_attempts:
            raise JobError(f"no worker could load the model: {reason}", self.workers.hint(reason))
        return None

    def _warn(self, member: _Member, message: str) -> None:
        """Repeat the warning of a worker, once for all workers."""
        if message not in self._warned and len(self._warned) < _MAX_WARNINGS:
            self._warned.add(message)
            warnings.warn(message, stacklevel=2)

    def _retry(self, shard: Shard, attempt: int, reason: str, error: CascadeError | None = None) -> ShardFailure | None:
        """Try a shard again, after all others, or give up."""
        if attempt < self.job.settings.max_attempts:
            self.waiting.append((shard, attempt + 1))
            return None
        if isinstance(error, JobError):
            raise error
        return ShardFailure(shard.id, reason, attempt)

    def _remove(self, member: _Member, *, is_room: bool = True) -> None:
        del self.members[member.worker]
        self.workers.remove(member.worker, is_room=is_room)
