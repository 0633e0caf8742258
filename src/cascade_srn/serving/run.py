"""Running the service: the socket, the signals, the end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import uvicorn

from cascade_srn.errors import ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.inference.batching import map_large_blocks
from cascade_srn.serving.answering import Answerer
from cascade_srn.serving.app import create_app
from cascade_srn.serving.connections import Gate, protocol_class
from cascade_srn.serving.engine import Engine
from cascade_srn.serving.settings import ServeSettings

logger = logging.getLogger("cascade_srn.serving")

# Files that a process may have open: as many as are asked for, which is plenty, where the system sets no bound itself.
OPEN_FILES = 65_536
# Connections that wait to be accepted; the system may allow fewer.
BACKLOG = 4096
# How long a Python thread may keep the interpreter when another one wants it. The model gives it back at every
# operation: with the usual 5 ms, one thread that splits a large text makes each of hundreds of operations wait.
SWITCH_SECONDS = 0.00005
# Connections accepted in one turn of the event loop, at most: they hold descriptors before they can be counted.
ACCEPTED_AT_ONCE = 16
# Descriptors kept for the model, temporary files, logs and the event loop.
OTHER_FILES = 48
# Seconds between two log records about connections that cannot be accepted.
ACCEPT_REPORT_SECONDS = 60


def serve(
    extractor: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    *,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until the process is told to stop by SIGINT or SIGTERM; then finish what was taken.

    ``on_ready`` is called with the address once texts can be sent. A model that cannot be loaded ends the service,
    and its error is raised. What is still in work after ``shutdown_seconds`` cannot be interrupted: then the process
    is ended with 0, and this function does not return.
    """
    settings = ServeSettings() if settings is None else settings
    sys.setswitchinterval(SWITCH_SECONDS)
    map_large_blocks()
    with listening_socket(settings.host, settings.port) as listening:
        allow_many_connections()
        server = make_server(extractor, settings)
        engine = server.engine
        engine.on_loaded = lambda: server.loaded(on_ready, address(settings.host, listening))
        server.run(sockets=[listening])
    if engine.failure is not None:
        raise engine.failure
    if engine.is_running or server.answerer.is_busy:
        end_process()


def end_process() -> NoReturn:
    """End the process well at once, whatever its threads are at.

    The interpreter would wait for some of them without bound, and tear down what the others use while they use it.
    """
    logger.warning("what is still in work after the time to stop is given up")
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or none at all
            stream.flush()
    os._exit(0)


class Server(uvicorn.Server):
    """A server that refuses new texts from the moment it is told to stop, and whose process then ends well.

    The socket is closed then, so that new connections are refused by the system.
    """

    def __init__(self, config: uvicorn.Config, engine: Engine, answerer: Answerer) -> None:
        super().__init__(config)
        self.engine = engine
        self.answerer = answerer
        self._next_accept_report = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with a long backlog, of which few connections are accepted at a time."""
        asyncio.get_running_loop().set_exception_handler(self._handle_loop_error)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

    def _handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report at most once a minute that connections cannot be accepted: asyncio does so for each attempt."""
        if not str(context.get("message", "")).startswith("socket.accept()"):
            loop.default_exception_handler(context)
            return
        self.engine.metrics.dropped.add(reason="no_files")
        if loop.time() >= self._next_accept_report:
            self._next_accept_report = loop.time() + ACCEPT_REPORT_SECONDS
            logger.error(
                "connections cannot be accepted (%s); raise the limit of open files (ulimit -n) or lower "
                "--max-connections",
                context.get("exception"),
            )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: gently at first, at once when Ctrl-C is pressed again."""
        self.engine.refuse_new()
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
            self.engine.waiting.close()  # nobody else will: the application is not told of such an end
        self.should_exit = True

    def loaded(self, on_ready: Callable[[str], None] | None, address: str) -> None:
        """The model is there, or will never be."""
        if self.engine.failure is not None:
            self.should_exit = True
        elif on_ready is not None:
            on_ready(address)


def make_server(extractor: Extractor | Callable[[], Extractor], settings: ServeSettings) -> Server:
    """A server of the service, to be run on a socket: ``server.run(sockets=[…])``."""
    most_connections, at_once = connections_within(open_files())
    if settings.max_connections is not None and settings.max_connections > most_connections:
        raise ConfigError(
            f"max_connections is {settings.max_connections}, but the limit of open files allows {most_connections}; "
            "give fewer, or raise the limit (ulimit -n)"
        )
    app = create_app(extractor, settings)
    metrics = app.state.engine.metrics
    gate = Gate(
        settings.max_connections or most_connections,
        metrics,
        head_seconds=settings.head_seconds,
        write_seconds=settings.request_seconds,
    )
    metrics.gauge("cascade_srn_connections", "Open connections.", lambda: len(gate.open))
    config = uvicorn.Config(
        app,
        access_log=False,  # ours has no addresses and no texts
        log_config=None,
        log_level=logging.WARNING,
        backlog=at_once,  # asyncio accepts as many at a time; see Server.startup
        http=protocol_class(gate),
        loop="asyncio",
        timeout_keep_alive=settings.keep_alive_seconds,  # type: ignore[arg-type]  # it is only ever a delay
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        server_header=False,
        ws="none",
    )
    return Server(config, app.state.engine, app.state.answerer)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address, or a sentence about why not."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise ConfigError(f"there is no host {host!r} ({error.strerror}); give an address of this machine") from error
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            # So that a service can be started anew at once.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(_refused_bind(host, port, error)) from error
    return listening


def _refused_bind(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; stop what uses it, or give another --port (0 is any free one)"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} needs rights that this process does not have; give a --port above 1023"
    return f"port {port} of {host} cannot be listened at ({error.strerror}); give an address of this machine"


def address(host: str, listening: socket.socket) -> str:
    """What to type into a browser."""
    port = listening.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def connections_within(n_files: int) -> tuple[int, int]:
    """How many connections fit into a number of open files, and how many of them to accept at a time.

    A connection that is refused holds a descriptor for about five turns of the event loop.
    """
    at_once = max(1, min(ACCEPTED_AT_ONCE, n_files // 32))
    return max(n_files // 4, n_files - OTHER_FILES - 6 * at_once), at_once


def open_files() -> int:
    """How many files this process may have open."""
    if sys.platform == "win32":
        return OPEN_FILES
    import resource

    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if now == resource.RLIM_INFINITY else now


def allow_many_connections() -> None:
    """Raise the number of files this process may have open, as far as it is allowed: a connection is one."""
    if sys.platform == "win32":
        return
    import resource

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(most, OPEN_FILES)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return
    # Some systems refuse what they say is allowed; then it stays as it is, and fewer connections are taken.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
