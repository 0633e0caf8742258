"""Run the service in this process, or in several worker processes behind one port.

The parent opens the listening socket and shares it with its workers, each of which has its own model and queue.
Compared with one socket per worker (SO_REUSEPORT), no waiting connection is lost when a worker dies, a new worker gets
none before its model is loaded, and it works on all systems.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cascade_srn.apps.graph.explore import Explorer
from cascade_srn.apps.service.run import listening_socket, make_server, run_server, serve_alone, service_url
from cascade_srn.apps.web.metrics import WorkerMetrics
from cascade_srn.apps.web.settings import LOG_FORMAT, ServeSettings
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.runs.resources import count_cores
from cascade_srn.runtime.device import Slot, find_devices, set_threads
from cascade_srn.runtime.model import count_threads

logger = logging.getLogger("cascade_srn.apps.service")

# Seconds between two looks at the workers for a signal, and of a restart after a worker that died early.
_POLL_SECONDS, _MAX_DELAY = 0.2, 30.0
# A worker that dies earlier than this many seconds after its start is restarted with a delay.
_EARLY_SECONDS = 10.0
# Seconds that workers have to end after their own time limit.
_END_SECONDS = 5.0
# What a worker sends when its model is loaded, and what it receives when those of all workers are.
_LOADED, _ALL_LOADED = "loaded", "all loaded"


@dataclass(frozen=True)
class ModelSource:
    """Loads a model in the process of a worker. It can be pickled, unlike an extractor.

    ``device`` may be "auto" or "cuda": workers are then spread over all GPUs.
    """

    folder: Path
    device: str = "auto"
    precision: str = "auto"
    overlaps: str | None = None
    constraints: str | None = None

    def __call__(self) -> Extractor:
        """Load the model."""
        return Extractor.from_pretrained(
            self.folder,
            device=self.device,
            precision=self.precision,
            overlaps=self.overlaps,
            constraints=self.constraints,
        )


def serve(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    *,
    graph: str | Path | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Run the service until SIGINT or SIGTERM, then finish complete requests.

    Work that is still in progress after ``shutdown_seconds`` cannot be interrupted. In that case the process exits with
    code 0, and this function does not return.

    Args:
        extractor: The extractor to serve, or a function that loads one in the background. With several workers it has
            to be a function that can be pickled, such as :class:`ModelSource` or a function of a module.
        settings: Settings of the service; the defaults if left out.
        graph: Folder of a graph to explore at ``/graph/``; none if left out.
        on_ready: Called with the URL when the model is loaded, in all workers if there are several.

    Raises:
        Exception: The error of a model that could not be loaded.
        DataError: The folder has no graph, or a damaged one.
        ConfigError: The service cannot listen on the address, or a setting exceeds a limit of the system.
    """
    settings = ServeSettings() if settings is None else settings
    if settings.workers == 1:
        serve_alone(extractor, settings, graph=graph, on_ready=on_ready)
        return
    source = _require_source(extractor)
    if graph is not None:
        Explorer(graph).close()  # refuses a folder without a graph before the workers start
    with listening_socket(settings.host, settings.port) as listening, tempfile.TemporaryDirectory() as folder:
        url = service_url(settings.host, listening)
        WorkerPool(source, settings, listening, Path(folder), graph).run(lambda: on_ready and on_ready(url))


def _require_source(extractor: Extractor | Callable[[], Extractor]) -> Callable[[], Extractor]:
    hint = "Give a function of a module that loads the model, or a ModelSource"
    if isinstance(extractor, Extractor):
        raise ConfigError("several workers cannot share a loaded model", hint, option="workers")
    try:
        pickle.dumps(extractor)
    except Exception as error:
        raise ConfigError(f"the function that loads the model cannot be pickled ({error})", hint) from error
    return extractor


def worker_slots(source: Callable[[], Extractor], n_workers: int) -> list[Slot]:
    """Return the device and the threads of each worker: GPUs in turn, and an equal share of the cores."""
    devices = find_devices(source.device, source.folder) if isinstance(source, ModelSource) else [""]
    n_threads = max(1, count_cores() // n_workers)
    return [Slot(devices[number % len(devices)], n_threads) for number in range(n_workers)]


@dataclass
class _Worker:
    number: int
    process: Any  # a process of the "spawn" context
    control: Connection
    started: float
    is_loaded: bool = False
    failure: Exception | None = None


class WorkerPool:
    """Starts worker processes, replaces those that die, and ends all of them.

    Args:
        source: Loads the model of a worker.
        settings: Settings of the service. Limits hold for each worker.
        listening: The socket that the workers share.
        folder: Folder for the metrics of the workers.
        graph: Folder of a graph to explore; none if left out.
    """

    def __init__(
        self,
        source: Callable[[], Extractor],
        settings: ServeSettings,
        listening: socket.socket,
        folder: Path,
        graph: str | Path | None = None,
    ) -> None:
        self.settings = settings
        self.workers: dict[int, _Worker] = {}
        self.is_ready = False
        self._slots = worker_slots(source, settings.workers)
        self._source = source
        self._listening = listening
        self._folder = folder
        self._graph = graph
        self._context = multiprocessing.get_context("spawn")
        self._stops = self._is_forced = False
        # Time at which a worker is started again, and how many of its kind died early in a row.
        self._restarts: dict[int, float] = {}
        self._n_early: dict[int, int] = dict.fromkeys(range(settings.workers), 0)

    def run(self, on_ready: Callable[[], object]) -> None:
        """Run the workers until SIGINT or SIGTERM, or :meth:`stop`.

        Raises:
            Exception: The error of a model that could not be loaded.
        """
        with self._handle_signals():
            try:
                for number in range(self.settings.workers):
                    self._start(number)
                while not self._stops:
                    self._look()
                    if not self.is_ready and all(worker.is_loaded for worker in self.workers.values()):
                        self.is_ready = True
                        self._tell_all_loaded()
                        on_ready()
            finally:
                self._listening.close()
                self._end()

    def stop(self) -> None:
        """End the workers. Complete requests are finished."""
        self._stops = True

    def _start(self, number: int) -> None:
        control, other = self._context.Pipe()
        slot = self._slots[number]
        source = replace(self._source, device=slot.device) if isinstance(self._source, ModelSource) else self._source
        level = logging.getLogger("cascade_srn.apps.service").getEffectiveLevel()
        arguments = (self._listening, source, self.settings, number, slot.n_threads, self._folder, other, level)
        # A worker of the beginning accepts connections at once and answers that it is not ready.
        process = self._context.Process(
            target=run_worker,
            args=(*arguments, self.is_ready, self._graph),
            name=f"cascade-srn-worker-{number}",
            daemon=True,
        )
        with _ignore_sigint():
            process.start()
        other.close()
        self.workers[number] = _Worker(number, process, control, time.monotonic())

    def _look(self) -> None:
        """Wait for messages and ends of workers for a moment, and start those that are due."""
        by_handle = {worker.control: worker for worker in self.workers.values()}
        sentinels = {worker.process.sentinel: worker for worker in self.workers.values()}
        for found in connection.wait([*by_handle, *sentinels], timeout=_POLL_SECONDS):
            if isinstance(found, Connection) and found in by_handle:
                self._receive(by_handle[found])
        for worker in sentinels.values():
            if not worker.process.is_alive() and not self._stops:
                self._receive(worker)
                self._replace(worker)
        for number, due in list(self._restarts.items()):
            if due <= time.monotonic() and not self._stops:
                del self._restarts[number]
                self._start(number)

    def _receive(self, worker: _Worker) -> None:
        """Read the message of a worker, if there is one."""
        with suppress(EOFError, OSError):
            while worker.control.poll():
                message = worker.control.recv()
                if message == _LOADED:
                    worker.is_loaded = True
                    if self.is_ready:
                        worker.control.send(_ALL_LOADED)
                else:
                    worker.failure = message

    def _replace(self, worker: _Worker) -> None:
        """Start a worker again that has died, after a delay if it died early."""
        number, code = worker.number, worker.process.exitcode
        worker.control.close()
        del self.workers[number]
        (self._folder / f"{number}.prom").unlink(missing_ok=True)
        if not self.is_ready or (worker.failure is not None and not any(w.is_loaded for w in self.workers.values())):
            raise worker.failure or CascadeError(
                f"worker {number} ended while it loaded the model (exit code {code})",
                "Use fewer workers if memory is short",
                option="workers",
            )
        is_early = not worker.is_loaded or time.monotonic() - worker.started < _EARLY_SECONDS
        self._n_early[number] = self._n_early[number] + 1 if is_early else 0
        delay = min(_MAX_DELAY, 2.0 ** (self._n_early[number] - 1)) if is_early else 0.0
        self._restarts[number] = time.monotonic() + delay
        logger.error("worker %d ended with exit code %s; it is started again in %g s", number, code, delay)

    def _tell_all_loaded(self) -> None:
        for worker in self.workers.values():
            with suppress(OSError):
                worker.control.send(_ALL_LOADED)

    def _end(self) -> None:
        """Terminate all workers, and kill those that do not end in time."""
        for worker in self.workers.values():
            worker.process.terminate()
        end = time.monotonic() + self.settings.shutdown_seconds + _END_SECONDS
        for worker in self.workers.values():
            while worker.process.is_alive() and time.monotonic() < end and not self._is_forced:
                worker.process.join(_POLL_SECONDS)
            worker.process.kill()
            worker.process.join()
            worker.control.close()
        self.workers.clear()

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, and at once on a second SIGINT. Only the main thread can do so."""

        def handle(number: int, frame: object) -> None:
            self._is_forced = self._is_forced or (self._stops and number == signal.SIGINT)
            self.stop()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _ignore_sigint() -> Iterator[None]:
    """Ignore SIGINT in this block, and in processes started by it until they have their own handler.

    Ctrl-C on a terminal reaches all processes. One that is still importing modules would print a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_worker(
    listening: socket.socket,
    source: Callable[[], Extractor],
    settings: ServeSettings,
    number: int,
    n_threads: int,
    folder: Path,
    control: Connection,
    log_level: int,
    is_replacement: bool,
    graph: str | Path | None = None,
) -> None:
    """Serve on a shared socket. The main function of a worker process.

    The worker ends on SIGINT and SIGTERM, and when the parent has died.
    """
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    logging.getLogger("cascade_srn.apps.service").setLevel(log_level)
    # Fewer threads if OMP_NUM_THREADS says so.
    known = (source.folder, source.device, source.precision) if isinstance(source, ModelSource) else ()
    set_threads(min(n_threads, count_threads()), *known)
    metrics = WorkerMetrics(number, folder)
    server = make_server(source, settings, metrics, graph=None if graph is None else Explorer(graph))
    engine = server.engine
    all_loaded, loaded = threading.Event(), threading.Event()
    engine.are_peers_ready = all_loaded.is_set

    def handle_loaded() -> None:
        _send(control, _LOADED if engine.failure is None else engine.failure)
        server.should_exit = engine.failure is not None
        loaded.set()

    def watch_parent() -> None:
        with suppress(EOFError, OSError):
            while control.recv() == _ALL_LOADED:
                all_loaded.set()
        server.handle_exit(signal.SIGTERM, None)

    engine.on_loaded = handle_loaded
    threading.Thread(target=watch_parent, name="cascade-srn-parent", daemon=True).start()
    metrics.start()
    if is_replacement:
        # The other workers answer until the model is loaded.
        engine.start()
        loaded.wait()
    if not server.should_exit:
        run_server(server, listening)
    if engine.failure is not None:
        sys.exit(1)


def _send(control: Connection, message: object) -> None:
    """Send a message to the parent. Errors that cannot be pickled are sent as text."""
    with suppress(OSError):
        try:
            control.send(message)
        except (pickle.PicklingError, TypeError, AttributeError):
            control.send(CascadeError(f"the model could not be loaded ({type(message).__name__}: {message})"))
