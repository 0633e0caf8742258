"""Strange texts sent to a running service, as a program would send them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.types import Document

# So many ask at once: the service then batches strange texts with each other.
_CLIENTS = 8
_SECONDS = 120


def asked(url: str, texts: Sequence[str], *, threshold: float | None = None) -> Iterator[Document | str]:
    """The documents that a service answers with, in order; where it answers with anything else, what that was."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(f"the service is {url!r}; give its address, such as http://127.0.0.1:8000")
    _require_ready(HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS), url)
    connections = threading.local()

    def ask(text: str) -> Document | str:
        if not hasattr(connections, "own"):
            connections.own = HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)
        try:
            return _answer(connections.own, text, threshold)
        except (OSError, HTTPException) as error:
            # The next request opens the connection anew.
            connections.own.close()
            return f"no answer: {type(error).__name__}: {error}"

    with ThreadPoolExecutor(_CLIENTS) as clients:
        yield from clients.map(ask, texts)


def _require_ready(connection: HTTPConnection, url: str) -> None:
    try:
        connection.request("GET", "/ready")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise ConfigError(f"there is no service at {url!r} ({error}); start one by cascade-srn serve") from error
    finally:
        connection.close()
    if status != 200:
        raise ConfigError(f"the service at {url!r} is not ready (status {status}); wait until it is")


def _answer(connection: HTTPConnection, text: str, threshold: float | None) -> Document | str:
    body: dict[str, object] = {"text": text}
    if threshold is not None:
        body["thresholds"] = threshold
    connection.request("POST", "/extract", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    received = answer.read().decode()
    if answer.status != 200:
        return f"status {answer.status}: {received[:200]}"
    try:
        (record,) = json.loads(received)["documents"]
        return Document.from_dict(record)
    except (CascadeError, ValueError, KeyError, TypeError) as error:
        return f"the answer is no document: {type(error).__name__}: {error}"
