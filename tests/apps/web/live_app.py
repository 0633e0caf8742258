"""A web application on its own port, in a thread of the tests."""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import httpx
import uvicorn

from cascade_srn.apps.web.run import listening_socket, server_config, service_url
from cascade_srn.apps.web.settings import ServeSettings

PATIENCE = 300
"""Seconds after which a test fails that waits for something."""


def until(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.005)


@contextmanager
def run_app(app, settings=None):
    """Serve an application for the duration of the block, and yield the server and a client."""
    settings = replace(settings or ServeSettings(), host="127.0.0.1", port=0)
    with listening_socket(settings) as listening:
        server = uvicorn.Server(server_config(app, settings))
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
        thread.start()
        try:
            with httpx.Client(base_url=service_url("127.0.0.1", listening), timeout=PATIENCE) as client:
                until(lambda: server.started)
                yield server, client
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
