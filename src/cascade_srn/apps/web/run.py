"""Run a web application: its socket, its server, signals and the limit of open files."""

import errno
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import ConfigError

# Open files of the process, and so its connections. Each connection can hold a head of HEAD_BYTES.
OPEN_FILES = 8192
HEAD_BYTES = 32 << 10
# Connections that may wait to be accepted. The system may allow fewer.
BACKLOG = 2048


def serve_app(app: Any, settings: ServeSettings, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Run an application until SIGINT or SIGTERM. ``on_ready`` is called with the URL."""
    with listening_socket(settings) as listening:
        server = uvicorn.Server(server_config(app, settings))
        if on_ready is not None:
            on_ready(service_url(settings.host, listening))
        with caught_signals():
            server.run(sockets=[listening])


def server_config(app: Any, settings: ServeSettings, **more: Any) -> uvicorn.Config:
    """Return the configuration of a server with the limits of its connections."""
    return uvicorn.Config(
        app,
        access_log=False,  # AccessLogMiddleware logs neither addresses nor texts
        log_config=None,
        log_level=logging.CRITICAL,  # errors of requests are logged by AccessLogMiddleware, without texts
        backlog=BACKLOG,
        http="h11",  # limits the length of a head, which httptools does not
        h11_max_incomplete_event_size=HEAD_BYTES,
        loop="asyncio",
        timeout_keep_alive=settings.keep_alive_seconds,  # type: ignore[arg-type]  # only used as a delay
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        server_header=False,
        ws="none",
        **more,
    )


@contextmanager
def caught_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in this block. A server that ends by a signal raises it again afterwards."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda given, frame: caught.append(given)) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listening_socket(settings: ServeSettings) -> socket.socket:
    """Open a socket that listens on the address of the settings, and limit the open files of the process."""
    host, port = settings.host, settings.port
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
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Closes connections whose client does not read its response. Accepted sockets inherit the option.
            milliseconds = round(1000 * settings.request_seconds)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        if hasattr(socket, "TCP_DEFER_ACCEPT"):
            # A connection takes a descriptor when its first byte arrives, so silent ones take none.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, max(1, round(settings.request_seconds)))
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _bind_error(host, port, error) from error
    limit_open_files()
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


def limit_open_files() -> None:
    """Set the limit of open files of this process to ``OPEN_FILES``, or as high as the system allows."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    # Some systems refuse values within their own limit. The limit then stays.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
