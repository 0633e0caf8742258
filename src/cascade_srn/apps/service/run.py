"""Run the service: sockets, signals and shutdown."""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI

from cascade_srn.apps.graph.explore import Explorer
from cascade_srn.apps.service.app import create_app
from cascade_srn.apps.service.engine import Engine
from cascade_srn.apps.service.handler import RequestHandler
from cascade_srn.apps.web.connections import ConnectionLimiter, protocol_class
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.inference.batching import map_large_blocks

logger = logging.getLogger("cascade_srn.apps.service")

# Limit of open files that is requested, and assumed if the system has none.
OPEN_FILES = 65_536
# Connections that may wait to be accepted. The system may allow fewer.
BACKLOG = 4096
# Seconds that a Python thread may hold the interpreter lock. The model releases the lock at every operation: with the
# default of 5 ms, a thread that splits a large text would delay each of hundreds of operations.
SWITCH_SECONDS = 0.00005
# Most connections accepted per iteration of the event loop: they hold descriptors before they are counted.
ACCEPTED_AT_ONCE = 16
# Descriptors reserved for the model, temporary files, logs and the event loop.
OTHER_FILES = 48
# Seconds between two log messages about connections that cannot be accepted.
ACCEPT_REPORT_SECONDS = 60


def serve_alone(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings,
    *,
    graph: str | Path | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Run the service in this process. See :func:`cascade_srn.apps.service.workers.serve`."""
    with listening_socket(settings.host, settings.port) as listening:
        server = make_server(extractor, settings, graph=None if graph is None else Explorer(graph))
        engine = server.engine
        engine.on_loaded = lambda: server.handle_loaded(on_ready, service_url(settings.host, listening))
        run_server(server, listening)
    if engine.failure is not None:
        raise engine.failure


def run_server(server: "Server", listening: socket.socket) -> None:
    """Run a server until SIGINT or SIGTERM. The process exits if work is left after the shutdown time."""
    sys.setswitchinterval(SWITCH_SECONDS)
    map_large_blocks()
    with listening:
        server.run(sockets=[listening])
    if server.engine.failure is None and (server.engine.is_running or server.handler.is_busy):
        end_process()


def end_process() -> NoReturn:
    """Exit with code 0 without waiting for threads.

    A normal exit would wait for some threads without limit, and destroy objects that the others still use.
    """
    logger.warning("shutdown time is over; work in progress is abandoned")
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed or missing
            stream.flush()
    os._exit(0)


def serve_app(
    app: FastAPI, settings: ServeSettings, metrics: Metrics, *, on_ready: Callable[[str], None] | None = None
) -> None:
    """Run an application without a model until SIGINT or SIGTERM. ``on_ready`` is called with the URL."""
    with listening_socket(settings.host, settings.port) as listening:
        allow_many_connections()
        server = HttpServer(server_config(app, settings, metrics), metrics)
        if on_ready is not None:
            on_ready(service_url(settings.host, listening))
        server.run(sockets=[listening])


class HttpServer(uvicorn.Server):
    """A server that ends on the first signal, and survives a lack of file descriptors."""

    def __init__(self, config: uvicorn.Config, metrics: Metrics) -> None:
        super().__init__(config)
        self.metrics = metrics
        self._next_accept_report = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with a long backlog, but accept few connections at a time."""
        asyncio.get_running_loop().set_exception_handler(self._handle_loop_error)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

    def _handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log once a minute that connections cannot be accepted; asyncio would log every attempt."""
        if not str(context.get("message", "")).startswith("socket.accept()"):
            loop.default_exception_handler(context)
            return
        self.metrics.dropped.labels("no_files").inc()
        if loop.time() >= self._next_accept_report:
            self._next_accept_report = loop.time() + ACCEPT_REPORT_SECONDS
            logger.error(
                "connections cannot be accepted (%s); raise the limit of open files (ulimit -n) or lower "
                "max_connections",
                context.get("exception"),
            )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start to shut down, or exit at once on a second Ctrl-C."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


class Server(HttpServer):
    """A server that refuses new requests as soon as it starts to shut down, and closes its socket."""

    def __init__(self, config: uvicorn.Config, engine: Engine, handler: RequestHandler) -> None:
        super().__init__(config, engine.metrics)
        self.engine = engine
        self.handler = handler

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start to shut down, or exit at once on a second Ctrl-C."""
        self.engine.refuse_new()
        super().handle_exit(sig, frame)
        if self.force_exit:
            self.engine.queue.close()  # a forced exit skips the lifespan, which would close it

    def handle_loaded(self, on_ready: Callable[[str], None] | None, url: str) -> None:
        """Report that the model is loaded, or stop if loading failed."""
        if self.engine.failure is not None:
            self.should_exit = True
        elif on_ready is not None:
            on_ready(url)


def make_server(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings,
    metrics: Metrics | None = None,
    *,
    graph: Explorer | None = None,
) -> Server:
    """Make a server; run it with ``server.run(sockets=[…])``."""
    allow_many_connections()
    app = create_app(extractor, settings, metrics, graph=graph)
    config = server_config(app, settings, app.state.engine.metrics)
    return Server(config, app.state.engine, app.state.handler)


def server_config(app: FastAPI, settings: ServeSettings, metrics: Metrics) -> uvicorn.Config:
    """Return the configuration of a server, with limits for its connections."""
    max_connections, accepted_at_once = connection_limits(open_file_limit())
    if settings.max_connections is not None and settings.max_connections > max_connections:
        raise ConfigError(
            f"max_connections is {settings.max_connections}, but the limit of open files allows {max_connections}",
            "Use a smaller number, or raise the limit (ulimit -n)",
            option="max_connections",
        )
    limiter = ConnectionLimiter(
        settings.max_connections or max_connections,
        metrics,
        head_seconds=settings.head_seconds,
        write_seconds=settings.request_seconds,
    )
    metrics.add_gauge("cascade_srn_connections", "Open connections.", lambda: len(limiter.open))
    return uvicorn.Config(
        app,
        access_log=False,  # AccessLogMiddleware logs neither addresses nor texts
        log_config=None,
        log_level=logging.WARNING,
        # asyncio accepts this number at a time; see Server.startup. Workers accept one each, so that they get as many.
        backlog=accepted_at_once if settings.workers == 1 else 1,
        http=protocol_class(limiter),
        loop="asyncio",
        timeout_keep_alive=settings.keep_alive_seconds,  # type: ignore[arg-type]  # only used as a delay
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        server_header=False,
        ws="none",
    )


def listening_socket(host: str, port: int) -> socket.socket:
    """Open a socket that listens on an address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise ConfigError(
            f"there is no host {host!r} ({error.strerror})", "Use an address of this machine", option="host"
        ) from error
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # Allows an immediate restart on the same port.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _bind_error(host, port, error) from error
    return listening


def _bind_error(host: str, port: int, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} of {host} is in use",
            "Stop the process that uses it, or use another port; 0 is any free one",
            option="port",
        )
    if error.errno == errno.EACCES:
        return ConfigError(
            f"this process is not permitted to use port {port} of {host}", "Use a port above 1023", option="port"
        )
    return ConfigError(
        f"cannot listen on port {port} of {host} ({error.strerror})", "Use an address of this machine", option="host"
    )


def service_url(host: str, listening: socket.socket) -> str:
    """Return the URL of the service for a browser on this machine."""
    port = listening.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def connection_limits(n_files: int) -> tuple[int, int]:
    """Return the largest number of connections for a limit of open files, and the number to accept at a time.

    A refused connection holds a descriptor for about five iterations of the event loop.
    """
    at_once = max(1, min(ACCEPTED_AT_ONCE, n_files // 32))
    return max(n_files // 4, n_files - OTHER_FILES - 6 * at_once), at_once


def open_file_limit() -> int:
    """Return the number of files that this process may have open."""
    if sys.platform == "win32":
        return OPEN_FILES
    import resource

    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if now == resource.RLIM_INFINITY else now


def allow_many_connections() -> None:
    """Raise the limit of open files of this process as far as the system allows; a connection is an open file."""
    if sys.platform == "win32":
        return
    import resource

    now, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if now == resource.RLIM_INFINITY or now >= target:
        return
    # Some systems refuse values within their own limit. The limit then stays, and fewer connections are accepted.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
