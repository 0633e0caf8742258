"""A real server on its own port, and a small model whose forward passes can be paused."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from tests.small_models import small_model, spread_probabilities

from cascade_srn import Extractor
from cascade_srn.apps.graph.explore import Explorer
from cascade_srn.apps.service.engine import Engine
from cascade_srn.apps.service.run import Server, listening_socket, make_server
from cascade_srn.apps.web.settings import ServeSettings

TEXT = "A tagger helps parsing and search engines. It needs data, and accuracy measures the parser."
PATIENCE = 60
"""Seconds after which a test fails that waits for something."""


@dataclass(frozen=True)
class Live:
    """A running service: its URL, a client and the server itself."""

    url: str
    client: httpx.Client
    server: Server

    @property
    def engine(self) -> Engine:
        return self.server.engine

    def post(self, path: str, body: object, **more: object) -> httpx.Response:
        return self.client.post(path, json=body, **more)

    def metrics(self) -> dict[str, float]:
        """Return the values of /metrics by name and labels."""
        lines = [line for line in self.client.get("/metrics").text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def connect(self) -> socket.socket:
        """Open a raw connection, to send data that no client library sends."""
        return socket.create_connection((self.client.base_url.host, self.client.base_url.port), timeout=PATIENCE)


@contextmanager
def live(
    source: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    *,
    ready: bool = True,
    graph: Explorer | None = None,
) -> Iterator[Live]:
    """Run a service on the loopback interface for the duration of the block."""
    settings = ServeSettings(port=0) if settings is None else settings
    with listening_socket("127.0.0.1", 0) as listening:
        server = make_server(source, settings, graph=graph)
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE) as client:
                if ready:
                    until(lambda: server.engine.failure is not None or client.get("/ready").status_code == 200)
                    if server.engine.failure is not None:
                        raise server.engine.failure
                yield Live(url, client, server)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def received(connection: socket.socket) -> bytes:
    """Receive a response whose body is a JSON object."""
    answer = b""
    while not answer.endswith(b"}"):
        more = connection.recv(65536)
        assert more, answer
        answer += more
    return answer


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.005)


def random_extractor(**settings: object) -> Extractor:
    """Make a tiny model that finds a moderate number of entities and relations."""
    return Extractor(spread_probabilities(small_model(**settings), seed=6))


class Held:
    """A tiny model whose forward passes wait while it is held. Its results are unchanged."""

    def __init__(self) -> None:
        self.extractor = random_extractor()
        self._open = threading.Event()
        self._open.set()
        self.n_waiting = 0
        self.n_passes = 0
        self._passes = False
        encoder = self.extractor.model.cascade.encoder
        encoder.register_forward_pre_hook(self._wait_for_batch)
        encoder.model.register_forward_pre_hook(self._wait_for_pass)

    def _wait_for_batch(self, *_: object) -> None:
        if not self._passes:
            self._wait()

    def _wait_for_pass(self, *_: object) -> None:
        self.n_passes += 1
        if self._passes:
            self._wait()

    def _wait(self) -> None:
        self.n_waiting += 1
        assert self._open.wait(PATIENCE)
        self.n_waiting -= 1

    def hold(self) -> None:
        self._open.clear()

    def hold_passes(self) -> None:
        """Hold every encoder pass; a long sentence has many."""
        self._passes = True
        self.hold()

    def let_go(self) -> None:
        self._open.set()
