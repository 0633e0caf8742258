"""Clients of a service, many at once: bare HTTP over asyncio, every answer held against what it should be."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.types import Document

# What another batch changes in a score by rounding.
TOLERANCE = 1e-3
# Past the service's own time limit: an answer that has not come by then is lost.
PATIENCE = 60.0


@dataclass(frozen=True)
class Question:
    """A request as bytes, and the document that is the right answer."""

    text: str
    request: bytes
    expected: dict[str, Any]

    @classmethod
    def of(cls, body: dict[str, Any], expected: Document) -> Question:
        """The question that a body asks of /extract."""
        content = json.dumps(body).encode()
        head = (
            "POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        return cls(expected.text, head.encode() + content, expected.to_dict())

    def judge(self, status: int, body: bytes) -> str:
        """ "right", "mixed" (the answer to something else), "wrong", "refused" (503) or "failed" (any other)."""
        if status != 200:
            return "refused" if status == 503 else "failed"
        documents = json.loads(body)["documents"]
        if len(documents) != 1 or documents[0]["text"] != self.text:
            return "mixed"
        return "right" if alike(documents[0], self.expected) else "wrong"


def alike(found: Any, expected: Any, key: str = "") -> bool:
    """Equal, but for the rounding of scores."""
    if key == "score" and found is not None and expected is not None:
        return bool(abs(found - expected) <= TOLERANCE)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[name], expected[name], name) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(alike(*pair) for pair in zip(found, expected, strict=True))
    return bool(found == expected)


@dataclass
class Tally:
    """What became of requests, and how long the answers took."""

    outcomes: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Client:
    """One connection, kept open, and opened again when it breaks or the service closes it."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        """Open the connection."""
        self._streams = await asyncio.open_connection(*self._place)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to a request."""
        if self._streams is None:
            await self.connect()
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length))
        if b"\r\nconnection: close\r\n" in head.lower():
            self.close()
        return int(head[9:12]), body

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def ask_in_turn(place: tuple[str, int], questions: Sequence[Question]) -> Tally:
    """One client, one question after the other."""
    tally, client = Tally(), Client(*place)
    started = time.perf_counter()
    for question in questions:
        await _ask(client, question, tally)
    tally.seconds = time.perf_counter() - started
    client.close()
    return tally


async def ask_at_once(
    place: tuple[str, int], questions: Sequence[Question], *, n_clients: int, seconds: float
) -> Tally:
    """Many clients for some time; all are connected before the first one asks, and get their last answers."""
    tally, clients = Tally(), [Client(*place) for _ in range(n_clients)]
    for first in range(0, n_clients, 100):
        await asyncio.gather(*(client.connect() for client in clients[first : first + 100]))
    started = time.perf_counter()
    end = started + seconds

    async def keep_asking(number: int, client: Client) -> None:
        turn = number
        while time.perf_counter() < end:
            await _ask(client, questions[turn % len(questions)], tally)
            turn += n_clients + 1

    await asyncio.gather(*(keep_asking(number, client) for number, client in enumerate(clients)))
    tally.seconds = time.perf_counter() - started
    for client in clients:
        client.close()
    return tally


async def _ask(client: Client, question: Question, tally: Tally) -> None:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE):
            status, body = await client.ask(question.request)
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        client.close()
        tally.outcomes["lost"] += 1
        return
    tally.latencies.append(time.perf_counter() - started)
    outcome = question.judge(status, body)
    tally.outcomes[outcome] += 1
    if outcome == "refused":
        await asyncio.sleep(1)  # as it was told to
