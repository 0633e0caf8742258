"""Run the service in this process, or in several worker processes behind one port.

The parent opens the listening socket and shares it with its workers, each of which has its own model and queue. A
worker accepts connections when its model is loaded. uvicorn's supervisor replaces workers that die.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import uvicorn
from filelock import FileLock, Timeout
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from cascade_srn.apps.service.app import create_app
from cascade_srn.apps.web.app import WebPart
from cascade_srn.apps.web.metrics import WorkerMetrics
from cascade_srn.apps.web.run import caught_signals, listening_socket, server_config, service_url
from cascade_srn.apps.web.settings import LOG_FORMAT, ServeSettings
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.inference.batching import map_large_blocks
from cascade_srn.inference.options import PrecisionLike
from cascade_srn.runs.resources import count_cores
from cascade_srn.runtime.device import Slot, find_devices, set_threads
from cascade_srn.runtime.model import count_threads

logger = logging.getLogger("cascade_srn.apps.service")

# Seconds that a Python thread may hold the interpreter lock. The model releases the lock at every operation: with the
# default of 5 ms, a thread that splits a large text would delay each of hundreds of operations.
SWITCH_SECONDS = 0.00005
# Seconds after which a worker that does not respond is replaced. Imports of large libraries take long on busy machines.
RESPONSE_SECONDS = 30
_POLL_SECONDS = 0.1
# Exit code after Ctrl-C.
INTERRUPTED = 130

Loader = Callable[[], Extractor]
Parts = Mapping[str, Callable[[], WebPart]]


@dataclass(frozen=True)
class ModelSource:
    """Loads a model in the process of a worker. It can be pickled, unlike an extractor.

    ``device`` may be "auto" or "cuda": workers are then spread over all GPUs.
    """

    folder: Path
    device: str = "auto"
    precision: PrecisionLike = "auto"
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
    extractor: Extractor | Loader,
    settings: ServeSettings | None = None,
    *,
    parts: Parts | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Run the service until SIGINT or SIGTERM, then finish accepted requests.

    Work that is still in progress after ``shutdown_seconds`` cannot be interrupted, nor can a model that is being
    loaded. In these cases the process exits, and this function does not return.

    Args:
        extractor: The extractor to serve, or a function that loads one in the background. With several workers it has
            to be a function that can be pickled, such as :class:`ModelSource` or a function of a module.
        settings: Settings of the service; the defaults if left out.
        parts: Functions that make other applications, by their path, such as the explorer of a graph at ``/graph``.
            With several workers they have to be picklable.
        on_ready: Called with the URL when the model is loaded, in all workers if there are several.

    Raises:
        Exception: The error of a model that could not be loaded.
        ConfigError: The service cannot listen on the address.
    """
    settings = ServeSettings() if settings is None else settings
    run = _serve_alone if settings.workers == 1 else _serve_by_workers
    with listening_socket(settings) as listening:
        url = service_url(settings.host, listening)
        run(extractor, settings, parts or {}, listening, lambda: on_ready and on_ready(url))


def _serve_alone(
    extractor: Extractor | Loader,
    settings: ServeSettings,
    parts: Parts,
    listening: socket.socket,
    on_ready: Callable[[], object],
) -> None:
    app = create_app(extractor, settings, parts={path: make() for path, make in parts.items()})
    server = uvicorn.Server(server_config(app, settings))
    engine, handler = app.state.engine, app.state.handler

    def handle_loaded() -> None:
        if engine.failure is not None:
            server.should_exit = True
        elif not server.should_exit:
            on_ready()

    engine.on_loaded = handle_loaded
    _prepare_process()
    with caught_signals() as caught:
        server.run(sockets=[listening])
    if engine.failure is not None:
        raise engine.failure
    if engine.is_ready and (engine.is_running or handler.is_busy):
        logger.warning("shutdown time is over; work in progress is abandoned")
        _end_process(0)
    if not engine.is_ready:
        logger.warning("stopped before the model was loaded")
        _end_process(INTERRUPTED if signal.SIGINT in caught else 0)


def _prepare_process() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    map_large_blocks()


def _end_process(code: int) -> NoReturn:
    """Exit without waiting for threads.

    A normal exit would wait for some threads without limit, and destroy objects that the others still use.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed or missing
            stream.flush()
    os._exit(code)


def _serve_by_workers(
    extractor: Extractor | Loader,
    settings: ServeSettings,
    parts: Parts,
    listening: socket.socket,
    on_ready: Callable[[], object],
) -> None:
    for make in parts.values():
        make().close()  # refuses an invalid part before the workers start
    with tempfile.TemporaryDirectory() as folder:
        level = logging.getLogger("cascade_srn.apps.web").getEffectiveLevel()
        worker = WorkerApp(_require_loader(extractor), settings, Path(folder), parts, level)
        config = server_config(
            worker, settings, factory=True, workers=settings.workers, timeout_worker_healthcheck=RESPONSE_SECONDS
        )
        supervisor = Multiprocess(config, [listening])
        is_ready = threading.Event()

        def wait_for_workers() -> None:
            while not supervisor.should_exit.wait(_POLL_SECONDS):
                # A worker writes its metrics when its model is loaded.
                if len(list(Path(folder).glob("*.prom"))) == settings.workers:
                    is_ready.set()
                    on_ready()
                    return

        threading.Thread(target=wait_for_workers, name="cascade-srn-ready", daemon=True).start()
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise CascadeError("a worker could not load the model", "See the message above")
    if not is_ready.is_set():
        raise KeyboardInterrupt


def _require_loader(extractor: Extractor | Loader) -> Loader:
    hint = "Give a function of a module that loads the model, or a ModelSource"
    if isinstance(extractor, Extractor):
        raise ConfigError("several workers cannot share a loaded model", hint, option="workers")
    try:
        pickle.dumps(extractor)
    except Exception as error:
        raise ConfigError(f"the function that loads the model cannot be pickled ({error})", hint) from error
    return extractor


def worker_slots(source: Loader, n_workers: int) -> list[Slot]:
    """Return the device and the threads of each worker: GPUs in turn, and an equal share of the cores."""
    devices = find_devices(source.device, source.folder) if isinstance(source, ModelSource) else [""]
    n_threads = max(1, count_cores() // n_workers)
    return [Slot(devices[number % len(devices)], n_threads) for number in range(n_workers)]


@dataclass(frozen=True)
class WorkerApp:
    """Makes the application of a worker in its process, and loads its model before it accepts connections.

    Attributes:
        source: Loads the model of a worker.
        settings: Settings of the service. Limits hold for each worker.
        folder: Folder for the locks and metrics of the workers.
        parts: Functions that make other applications, by their path.
        log_level: Level of the access log.
    """

    source: Loader
    settings: ServeSettings
    folder: Path
    parts: Parts
    log_level: int

    def __call__(self) -> Any:
        """Make the application. The process ends if the model cannot be loaded."""
        threading.Thread(target=_end_with_parent, name="cascade-srn-parent", daemon=True).start()
        logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
        logging.getLogger("cascade_srn.apps.web").setLevel(self.log_level)
        _prepare_process()
        number, lock = self._claim_number()
        slot = worker_slots(self.source, self.settings.workers)[number]
        n_threads = min(slot.n_threads, count_threads())  # fewer if OMP_NUM_THREADS says so
        source = self.source
        if isinstance(source, ModelSource):
            source = replace(source, device=slot.device)
            set_threads(n_threads, source.folder, source.device, source.precision)
        else:
            set_threads(n_threads)
        metrics = WorkerMetrics(number, self.folder)
        app = create_app(source, self.settings, metrics, parts={path: make() for path, make in self.parts.items()})
        app.state.lock = lock  # held until the process ends
        app.state.engine.start()
        app.state.engine.loaded.wait()
        if app.state.engine.failure is not None:
            sys.exit(STARTUP_FAILURE)
        metrics.start()
        return app

    def _claim_number(self) -> tuple[int, FileLock]:
        """Return the first number that no living worker has, and the lock that holds it."""
        while True:
            for number in range(self.settings.workers):
                lock = FileLock(self.folder / f"{number}.lock")
                with suppress(Timeout):
                    lock.acquire(timeout=0)
                    (self.folder / f"{number}.prom").unlink(missing_ok=True)
                    return number, lock


def _end_with_parent() -> None:
    """End this process when its parent has ended, so that no worker keeps the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
