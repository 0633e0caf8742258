"""What a job and its engines agree on: shards go in, results and failures come out."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import Shard, ShardResult
from cascade_srn.errors import CascadeError

GRACE_SECONDS = 10.0
"""Time that running shards have to finish after the first SIGTERM or Ctrl-C."""


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
    """A shard that failed as often as the settings allow. The job writes its rows to ``errors``.

    Attributes:
        shard: Id of the shard.
        reason: Why the last attempt failed, such as the message of the error, or the signal that ended the worker.
        attempts: Number of attempts.
    """

    shard: str
    reason: str
    attempts: int


class Control:
    """Connection between the job and its engine.

    Attributes:
        n_workers: Number of workers that are alive. The engine sets it.
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


class Engine(Protocol):
    """Executes shards. What is done is decided by the records that workers write, and not by the engine."""

    def run(self, job: JobSpec, shards: Sequence[Shard], control: Control) -> Iterator[ShardResult | ShardFailure]:
        """Have workers process shards, and yield a result or a failure for each, in any order.

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
