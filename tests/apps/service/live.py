"""A service on its own port, and a small model whose forward passes can be paused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import uvicorn
from fastapi import FastAPI
from tests.apps.web.live_app import PATIENCE, run_app, until
from tests.small_models import small_model, spread_probabilities

from cascade_srn import Extractor
from cascade_srn.apps.service.app import create_app
from cascade_srn.apps.service.engine import ModelEngine
from cascade_srn.apps.service.handler import RequestHandler
from cascade_srn.apps.web.app import WebPart
from cascade_srn.apps.web.settings import ServeSettings

TEXT = "A tagger helps parsing and search engines. It needs data, and accuracy measures the parser."


@dataclass(frozen=True)
class Live:
    """A running service: its URL, a client, the application and the server itself."""

    url: str
    client: httpx.Client
    app: FastAPI
    server: uvicorn.Server

    @property
    def engine(self) -> ModelEngine:
        return self.app.state.engine

    @property
    def handler(self) -> RequestHandler:
        return self.app.state.handler

    def post(self, path: str, body: object, **more: object) -> httpx.Response:
        return self.client.post(path, json=body, **more)

    def metrics(self) -> dict[str, float]:
        """Return the values of /metrics by name and labels."""
        lines = [line for line in self.client.get("/metrics").text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def connect(self) -> socket.socket:
        """Open a raw connection, to send data that no client library sends."""
        return socket.create_connection((self.client.base_url.host, self.client.base_url.port), timeout=PATIENCE)

    def stop(self) -> None:
        """Start to shut down, as SIGTERM does."""
        self.server.should_exit = True


@contextmanager
def live(
    source: Extractor | Callable[[], Extractor],
    settings: ServeSettings | None = None,
    *,
    ready: bool = True,
    parts: Mapping[str, WebPart] | None = None,
) -> Iterator[Live]:
    """Run a service on the loopback interface for the duration of the block."""
    app = create_app(source, settings, parts=parts)
    with run_app(app, settings) as (server, client):
        if ready:
            until(app.state.engine.loaded.is_set)
            if app.state.engine.failure is not None:
                raise app.state.engine.failure
        yield Live(str(client.base_url).rstrip("/"), client, app, server)


def received(connection: socket.socket) -> bytes:
    """Receive a response whose body is a JSON object."""
    answer = b""
    while not answer.endswith(b"}"):
        more = connection.recv(65536)
        assert more, answer
        answer += more
    return answer


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
