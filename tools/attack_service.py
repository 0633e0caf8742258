"""Measure how a service on this machine serves ordinary clients while it is attacked.

    python tools/attack_service.py [--attacks pieces,slow-heads] [--seconds 30] [--output attack.json]

For each attack, ``cascade-srn serve`` is started on a free port of 127.0.0.1. Ordinary requests are measured without
and with the attack, by one client and by several at once. With ``--url`` a running local service is measured instead.
Other machines cannot be attacked. Every part is limited in count and time.

Exit codes: 1 if an ordinary request was lost or the service died, 2 for invalid arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import random
import re
import resource
import secrets
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

KEY_VARIABLE = "CASCADE_SRN_API_KEY"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Seconds between two measurements of the service's memory.
SAMPLE_SECONDS = 0.05
START_SECONDS = 120.0
# Pause of an attacker that could not connect, so that it does not loop at full speed.
RECONNECT_SECONDS = 0.1
# Descriptors that this process needs for other files.
SPARE_DESCRIPTORS = 100

ABSTRACTS = (
    "We present a statistical parser for spoken language. It is trained on a small treebank and uses a hidden Markov "
    "model to find disfluencies. On the test set it reaches an F1 score of 88.2%.",
    "This paper describes a system for machine translation from German to English. A phrase table is combined with a "
    "neural language model. Human judges prefer its output to that of the baseline in 61% of the cases.",
    "Named entity recognition in biomedical text suffers from unknown words. We add character embeddings to a "
    "conditional random field and evaluate the tagger on three corpora.",
    "Coreference resolution is often evaluated on newspaper text only. We annotate a corpus of dialogues, compare four "
    "systems on it, and discuss the errors of each of them.",
    "A speech recognizer for a language with little data can be adapted from a related language. We describe the "
    "transfer of acoustic models and report word error rates.",
    "We introduce a method for summarization that selects sentences by their relations. It needs no training data, and "
    "its summaries cover more events than those of earlier methods.",
)


# --- Requests -------------------------------------------------------------------------------------------------------


def http_request(content: bytes, key: str | None, *, chunked: bool = False) -> bytes:
    """Return a POST request to /extract as bytes. ``chunked`` sends the content in chunks of one byte."""
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(content)}"
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST /extract HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{authorization}"
        f"Connection: close\r\n{length}\r\n\r\n"
    ).encode()
    if not chunked:
        return head + content
    return head + b"".join(b"1\r\n%c\r\n" % byte for byte in content) + b"0\r\n\r\n"


async def exchange(address: tuple[str, int], request: bytes) -> int:
    """Send a request on a new connection and return the status of the complete answer."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)  # not drained, because a refusal can arrive before the service has read the body
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        return int(head[9:12])
    finally:
        writer.close()


# Errors of a connection and of incomplete responses.
CONNECTION_ERRORS = (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError)


# --- Attacks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attack:
    """An attack on the service.

    Attributes:
        name: Name of the attack.
        group: Name for attacks of one kind, which can be selected together.
        description: What is sent.
        content: Makes the body of a request that is sent repeatedly; None for attacks by slow connections.
        chunked: Send the body in chunks of one byte.
        authorized: Send the API key.
        connections: Parallel connections; None for ``--connections``, 0 for more than the descriptor limit.
        opening: Start of the request on a slow connection; None sends nothing.
        drip: Byte that a slow connection sends repeatedly.
    """

    name: str
    group: str
    description: str
    content: Callable[[], bytes] | None = None
    chunked: bool = False
    authorized: bool = True
    connections: int | None = None
    opening: bytes | None = None
    drip: bytes = b""


def _json(**body: Any) -> bytes:
    return json.dumps(body).encode()


def _texts(unit: str, *, n_texts: int = 8, n_characters: int = 100_000) -> bytes:
    text = (unit * (n_characters // len(unit) + 1))[:n_characters]
    return _json(texts=[text] * n_texts)


def _random_base64() -> str:
    return base64.b64encode(random.Random(0).randbytes(75_000)).decode()


def _random_uuids() -> str:
    rng = random.Random(0)
    return " ".join(str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(3_000)) + " "


def _random_url() -> str:
    rng = random.Random(0)
    return "https://example.org/" + "/".join(f"{rng.getrandbits(64):x}" for _ in range(6_000))


def _empty_entities() -> bytes:
    # Just below the limit of 2 MiB for a body.
    return b'{"text":"a","entities":[' + b",".join([b"[]"] * 690_000) + b"]}"


def _padded() -> bytes:
    # Short for the model, so that only the cost of the chunks is measured.
    return b'{"text":"A short text."' + b" " * 200_000 + b"}"


_SLOW_BODY = (
    b"POST /extract HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n"
)
_SLOW_HEAD = b"POST /extract HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "

ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for attack in (
        Attack("pieces-hyphens", "pieces", '8 texts of 100,000 characters, "a-a-a-…"', lambda: _texts("a-")),
        Attack("pieces-url", "pieces", "8 texts, each one URL of 100,000 characters", lambda: _texts(_random_url())),
        Attack("pieces-base64", "pieces", "8 texts of 100,000 characters, base64", lambda: _texts(_random_base64())),
        Attack("pieces-uuids", "pieces", "8 texts of 100,000 characters, UUIDs", lambda: _texts(_random_uuids())),
        Attack("keywords-short", "keywords", '"SVM , HMM , " 50 times', lambda: _json(text="SVM , HMM , " * 50)),
        Attack("keywords-long", "keywords", '"SVM , HMM , " 8,000 times', lambda: _json(text="SVM , HMM , " * 8_000)),
        Attack("keywords-many", "keywords", "128 texts of them", lambda: _json(texts=["SVM , HMM , " * 50] * 128)),
        Attack("slow-bodies", "slow", "200 bodies, one byte at a time", connections=200, opening=_SLOW_BODY, drip=b" "),
        Attack(
            "slow-bodies-401",
            "slow",
            "200 bodies without the API key, one byte at a time",
            authorized=False,
            connections=200,
            opening=_SLOW_BODY,
            drip=b" ",
        ),
        Attack("slow-heads", "slow", "200 heads, one byte at a time", connections=200, opening=_SLOW_HEAD, drip=b"a"),
        Attack("silent", "slow", "200 connections that send nothing", connections=200),
        Attack("descriptors", "slow", "more silent connections than the service has descriptors", connections=0),
        Attack(
            "tiny-chunks",
            "slow",
            "200,000 bytes in chunks of one byte, at full speed",
            _padded,
            chunked=True,
        ),
        Attack(
            "tiny-chunks-401",
            "slow",
            "the same without the API key",
            _padded,
            chunked=True,
            authorized=False,
        ),
        Attack(
            "bodies", "bodies", "60 parallel bodies of 2 MB with empty entity lists", _empty_entities, connections=60
        ),
        Attack(
            "over-queue", "bodies", "requests with more words than the queue holds", lambda: _texts("word ", n_texts=16)
        ),
    )
}


@dataclass(frozen=True)
class Pressure:
    """Intensity of an attack.

    Attributes:
        connections: Connections of attacks that do not set their own number.
        rate: Requests per second of all connections; None to send the next request after each response.
        drip_seconds: Seconds between two bytes of a slow connection.
        timeout: Seconds that an attacker waits for a response.
        descriptors: Descriptor limit of the service.
    """

    connections: int
    rate: float | None
    drip_seconds: float
    timeout: float
    descriptors: int


class Attacker:
    """The connections of one attack, and their outcomes."""

    def __init__(self, attack: Attack, address: tuple[str, int], key: str | None, pressure: Pressure) -> None:
        self.attack = attack
        self.address = address
        self.key = key if attack.authorized else None
        self.pressure = pressure
        self.outcomes: Counter[str] = Counter()
        self._n_open = 0
        self._next_send = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Attack until ``stop`` is set, then close all connections."""
        if self.attack.content is not None:
            request = http_request(self.attack.content(), self.key, chunked=self.attack.chunked)
            tasks = [asyncio.create_task(self._keep_sending(request)) for _ in range(self.n_connections)]
        else:
            tasks = [asyncio.create_task(self._hold()) for _ in range(self.n_connections)]
        await stop.wait()
        self.outcomes["unanswered at the end" if self.attack.content is not None else "open at the end"] = self._n_open
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def n_connections(self) -> int:
        """Connections of the attack, within the descriptor limit of this process."""
        wanted = self.attack.connections
        if wanted is None:
            wanted = self.pressure.connections
        elif wanted == 0:
            wanted = self.pressure.descriptors + SPARE_DESCRIPTORS
        return min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS)

    async def _keep_sending(self, request: bytes) -> None:
        while True:
            await self._wait_for_turn()
            self._n_open += 1
            try:
                outcome = await self._send(request)
            finally:
                self._n_open -= 1
            self.outcomes[outcome] += 1
            if not outcome.isdecimal():
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _send(self, request: bytes) -> str:
        """Send a request and return the status of the response, or the reason why there is none."""
        try:
            async with asyncio.timeout(self.pressure.timeout):
                return str(await exchange(self.address, request))
        except ConnectionRefusedError:
            return "not connected"
        except TimeoutError:
            return "no answer in time"
        except CONNECTION_ERRORS:
            return "closed"

    async def _wait_for_turn(self) -> None:
        if self.pressure.rate is None:
            return
        now = time.monotonic()
        self._next_send = max(now, self._next_send + 1 / self.pressure.rate)
        await asyncio.sleep(self._next_send - now)

    async def _hold(self) -> None:
        """Keep one slow connection open, and open it again when the service closes it."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self.address)
            except OSError:
                self.outcomes["not connected"] += 1
                await asyncio.sleep(1)
                continue
            self.outcomes["connected"] += 1
            self._n_open += 1
            try:
                await self._drip(reader, writer)
            except OSError:
                self.outcomes["closed"] += 1
            finally:
                self._n_open -= 1
                writer.close()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.attack.opening is not None:
            writer.write(self.attack.opening)
            if self.attack.opening is _SLOW_BODY:
                writer.write((f"Authorization: Bearer {self.key}\r\n" if self.key else "").encode() + b"\r\n")
        reading = asyncio.create_task(reader.read(65_536))
        try:
            while True:
                done, _ = await asyncio.wait({reading}, timeout=self.pressure.drip_seconds)
                if done:
                    received = reading.result()
                    if not received:
                        self.outcomes["closed"] += 1
                        return
                    if received.startswith(b"HTTP/1.1 "):
                        self.outcomes[received[9:12].decode()] += 1
                    reading = asyncio.create_task(reader.read(65_536))
                if self.attack.drip:
                    writer.write(self.attack.drip)
                    await writer.drain()
        finally:
            reading.cancel()


def attacker_process(
    name: str, address: tuple[str, int], key: str | None, pressure: Pressure, channel: Connection
) -> None:
    """Attack from a separate process, so that the attacker does not slow down the ordinary clients.

    Stop when the other end of ``channel`` sends something or is closed, and send the outcomes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process stops this one
    allow_many_connections()

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_reader(channel.fileno(), stop.set)
        attacker = Attacker(ATTACKS[name], address, key, pressure)
        channel.send("started")
        await attacker.run(stop)
        with suppress(OSError):  # the parent has ended
            channel.send(dict(attacker.outcomes))

    asyncio.run(run())


@contextmanager
def attacking(
    attack: Attack, address: tuple[str, int], key: str | None, pressure: Pressure
) -> Iterator[dict[str, int]]:
    """Attack for the duration of the block; the yielded outcomes are complete after it."""
    context = multiprocessing.get_context("spawn")
    own_end, attacker_end = context.Pipe()
    process = context.Process(
        target=attacker_process, args=(attack.name, address, key, pressure, attacker_end), daemon=True
    )
    process.start()
    attacker_end.close()
    outcomes: dict[str, int] = {}
    try:
        own_end.recv()
        yield outcomes
        own_end.send("stop")
        if own_end.poll(30):
            outcomes.update(own_end.recv())
    except (EOFError, OSError):
        outcomes["attacker died"] = 1
    finally:
        own_end.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


# --- The ordinary load ----------------------------------------------------------------------------------------------


@dataclass
class Load:
    """Outcomes of ordinary requests, and the latencies of those answered with 200."""

    clients: int
    latencies: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    not_sent: int = 0

    @property
    def lost(self) -> int:
        """Number of requests without a response or with another status than 200."""
        return sum(count for outcome, count in self.outcomes.items() if outcome != "200")

    def percentile(self, share: int) -> float | None:
        """Return a percentile of the latencies; None if there are none."""
        if len(self.latencies) < 2:
            return self.latencies[0] if self.latencies else None
        return statistics.quantiles(self.latencies, n=100, method="inclusive")[share - 1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "clients": self.clients,
            "sent": self.outcomes.total(),
            "not_sent": self.not_sent,
            "lost": self.lost,
            "outcomes": dict(self.outcomes),
            **{f"p{share}_s": self.percentile(share) for share in (50, 95, 99)},
        }


async def ordinary_load(
    address: tuple[str, int], key: str | None, *, clients: int, requests: int, timeout: float, seconds: float
) -> Load:
    """Send short abstracts for at most ``seconds``; each client sends one after the other."""
    load = Load(clients)
    prepared = [http_request(_json(text=abstract), key) for abstract in ABSTRACTS]
    numbers = iter(range(requests))
    end = time.monotonic() + seconds

    async def send_requests() -> None:
        for number in numbers:
            if time.monotonic() > end:
                load.not_sent += 1
                continue
            started = time.perf_counter()
            try:
                async with asyncio.timeout(timeout):
                    status = await exchange(address, prepared[number % len(prepared)])
            except CONNECTION_ERRORS as error:
                load.outcomes["no answer in time" if isinstance(error, TimeoutError) else "no connection"] += 1
                continue
            load.outcomes[str(status)] += 1
            if status == 200:
                load.latencies.append(time.perf_counter() - started)

    await asyncio.gather(*(send_requests() for _ in range(clients)))
    return load


# --- The service ----------------------------------------------------------------------------------------------------


class Service:
    """The attacked service: its address, memory and state.

    Args:
        url: Address of the service.
        key: API key; None if the service has none.
        process: Process of the service; None if this tool did not start it.
        pid: Process id to measure the memory of; None if unknown.
        limit_bytes: Resident memory at which this tool kills a service that it started.
    """

    def __init__(
        self, url: str, key: str | None, process: subprocess.Popen[bytes] | None, pid: int | None, limit_bytes: int
    ) -> None:
        parts = urlsplit(url)
        self.url = url
        self.address = (parts.hostname or "", parts.port or 80)
        self.key = key
        self.peak = 0
        self.killed = False
        self._process = process
        self._pid = pid
        self._limit = limit_bytes
        self._stop = threading.Event()
        self._monitor = threading.Thread(target=self._watch, daemon=True)
        if pid is not None:
            self._monitor.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._monitor.is_alive():
            self._monitor.join()

    @property
    def state(self) -> str:
        """State of the service: "alive", or how it ended."""
        if self.killed:
            return f"killed past {self._limit >> 20:,} MiB"
        if self._process is not None and self._process.poll() is not None:
            return f"died (exit code {self._process.returncode})"
        if self._process is None and self._pid is not None and not Path(f"/proc/{self._pid}").exists():
            return "died"
        return "alive"

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            held = _memory(self._pid, "VmRSS:")
            self.peak = max(self.peak, _memory(self._pid, "VmHWM:"))
            if self._process is not None and held > self._limit and not self.killed:
                self.killed = True
                self._process.kill()


def _memory(pid: int | None, name: str) -> int:
    """Return a memory value of a process in bytes; 0 if it is not available."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)


@contextmanager
def start_service(options: argparse.Namespace) -> Iterator[Service]:
    """Run ``cascade-srn serve`` on a free port for the duration of the block."""
    key = secrets.token_hex(16)
    command = [sys.executable, "-m", "cascade_srn", "serve", "--host", "127.0.0.1", "--port", "0", "--quiet"]
    command += ["--model", options.model] if options.model else []
    command += shlex.split(options.serve)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    descriptors = options.descriptors if hard == resource.RLIM_INFINITY else min(options.descriptors, hard)

    def limit_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, KEY_VARIABLE: key},
            preexec_fn=limit_descriptors,
        )
        service = None
        try:
            url = _wait_for_address(process, log)
            service = Service(url, key, process, process.pid, options.limit_megabytes << 20)
            yield service
        finally:
            if service is not None:
                service.close()
            process.kill()  # a service under attack may take long to stop
            process.wait()


def _wait_for_address(process: subprocess.Popen[bytes], log: Any) -> str:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        written = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
        if found := re.search(r" at (http://\S+) ", written):
            return found[1]
        if process.poll() is not None:
            fail(f"the service did not start: {' '.join(written.split())[-300:] or 'no message'}")
        time.sleep(0.05)
    fail(f"the service was not ready within {START_SECONDS:g} s. Use a smaller --model.")


@contextmanager
def attach_service(options: argparse.Namespace) -> Iterator[Service]:
    """Use the running service at ``--url`` for the duration of the block."""
    service = Service(options.url, os.environ.get(KEY_VARIABLE), None, options.pid, 0)
    try:
        yield service
    finally:
        service.close()


# --- Measuring ------------------------------------------------------------------------------------------------------


def measure(attack: Attack, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the ordinary load without and with an attack, and whether the service recovers."""
    pressure = Pressure(
        options.connections, options.rate, options.drip_seconds, max(60.0, options.timeout), options.descriptors
    )
    with attach_service(options) if options.url else start_service(options) as service:

        def load(clients: int, seconds: float) -> Load:
            return asyncio.run(
                ordinary_load(
                    service.address,
                    service.key,
                    clients=clients,
                    requests=options.requests,
                    timeout=options.timeout,
                    seconds=seconds,
                )
            )

        counts = (1, options.clients)
        warm_up = load(1, options.seconds)
        if not warm_up.latencies:
            fail(f"{service.url} does not answer ordinary requests ({dict(warm_up.outcomes)}). See docs/serve.md.")
        quiet = [load(clients, options.seconds) for clients in counts]
        quiet_peak = service.peak
        with attacking(attack, service.address, service.key, pressure) as outcomes:
            time.sleep(options.lead)
            attacked = [load(clients, options.seconds) for clients in counts]
        recovery = asyncio.run(_recovery(service, options))
        return {
            "attack": attack.name,
            "group": attack.group,
            "description": attack.description,
            "attacker": dict(sorted(outcomes.items())),
            "service": service.state,
            "recovery_s": recovery,
            "quiet_peak_bytes": quiet_peak or None,
            "peak_bytes": service.peak or None,
            "loads": [
                {
                    "clients": during.clients,
                    "quiet": before.to_dict(),
                    "attacked": during.to_dict(),
                    **{
                        f"ratio_p{share}": ratio(during.percentile(share), before.percentile(share))
                        for share in (50, 95, 99)
                    },
                }
                for before, during in zip(quiet, attacked, strict=True)
            ],
        }


def ratio(during: float | None, before: float | None) -> float | None:
    """Return the ratio of two latencies; None if one of them is missing."""
    return during / before if during is not None and before else None


async def _recovery(service: Service, options: argparse.Namespace) -> float | None:
    """Return the seconds until an ordinary request succeeds after the attack; None if it takes too long."""
    started = time.monotonic()
    while service.state == "alive" and time.monotonic() - started < options.recovery_seconds:
        load = await ordinary_load(
            service.address, service.key, clients=1, requests=1, timeout=options.timeout, seconds=options.timeout
        )
        if load.latencies:
            return time.monotonic() - started
        await asyncio.sleep(RECONNECT_SECONDS)
    return None


def is_harmless(row: dict[str, Any]) -> bool:
    """Return whether no ordinary request was lost and the service recovered."""
    lost = sum(load["attacked"]["lost"] for load in row["loads"])
    return lost == 0 and row["service"] == "alive" and row["recovery_s"] is not None


HEADINGS = (
    *("attack", "clients", "sent", "lost", "p50 ms", "p95 ms", "p99 ms", "p50 ratio", "p95 ratio"),
    *("peak MiB", "service", "recovery s", "attacker got"),
)


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Format the results as a table with a line for each attack and number of clients."""
    lines = [HEADINGS]
    for row in rows:
        for load in row["loads"]:
            during = load["attacked"]
            lines.append(
                (
                    row["attack"],
                    str(load["clients"]),
                    str(during["sent"]),
                    str(during["lost"]),
                    *(_format_number(during[f"p{share}_s"], 1000, ".0f") for share in (50, 95, 99)),
                    *(_format_number(load[f"ratio_p{share}"], 1, ".1f") for share in (50, 95)),
                    _format_number(row["peak_bytes"], 1 / 2**20, ".0f"),
                    row["service"],
                    _format_number(row["recovery_s"], 1, ".1f"),
                    ", ".join(f"{outcome}: {count}" for outcome, count in row["attacker"].items()),
                )
            )
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _format_number(value: float | None, factor: float, form: str) -> str:
    return "-" if value is None else format(value * factor, form)


# --- Command line ---------------------------------------------------------------------------------------------------


def fail(message: str) -> NoReturn:
    """Print an error and exit with code 2."""
    sys.stderr.write(f"Error: {message}\n")
    raise SystemExit(2)


def select_attacks(value: str) -> list[Attack]:
    """Return the attacks in a comma-separated list of names and groups; all for an empty list."""
    names = [name.strip() for name in value.split(",") if name.strip()]
    groups = {attack.group for attack in ATTACKS.values()}
    for name in names:
        if name not in ATTACKS and name not in groups:
            fail(f"there is no attack {name!r}. Known: {', '.join([*sorted(groups), *ATTACKS])}.")
    return [attack for attack in ATTACKS.values() if not names or attack.name in names or attack.group in names]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Attack a local cascade-srn service and measure ordinary requests.")
    add = parser.add_argument
    add("--attacks", default="", metavar="A,B,…", help="names or groups of attacks (all)")
    add("--list", action="store_true", help="list the attacks and exit")
    add("--url", help=f"a running service on this machine; its API key is read from ${KEY_VARIABLE}")
    add("--pid", type=int, help="process id of the service at --url, to measure its memory")
    add("--model", help="model to serve (the bundled one)")
    add("--serve", default="", metavar="OPTIONS", help="further options of cascade-srn serve, as one argument")
    add("--requests", type=int, default=40, help="ordinary requests of each measurement (%(default)s)")
    add("--clients", type=int, default=4, help="ordinary clients of the parallel measurement (%(default)s)")
    add("--timeout", type=float, default=10.0, help="seconds until an ordinary request is lost (%(default)s)")
    add("--seconds", type=float, default=30.0, help="longest duration of each measurement (%(default)s)")
    add("--lead", type=float, default=2.0, help="seconds from the start of an attack to the load (%(default)s)")
    add("--recovery-seconds", type=float, default=30.0, help="longest wait for a response afterwards (%(default)s)")
    add("--connections", type=int, default=4, help="parallel connections of an attacker (%(default)s)")
    add("--rate", type=float, help="requests per second of an attacker (one after each response)")
    add("--drip-seconds", type=float, default=0.5, help="seconds between bytes of slow clients (%(default)s)")
    add("--descriptors", type=int, default=1024, help="descriptor limit of the service (%(default)s)")
    add("--limit-megabytes", type=int, default=6000, help="kill the service past this memory, in MiB (%(default)s)")
    add("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)
    for name in ("requests", "clients", "connections", "descriptors", "limit_megabytes"):
        if getattr(options, name) < 1:
            fail(f"--{name.replace('_', '-')} is {getattr(options, name)}. Use a number of at least 1.")
    for name in ("timeout", "seconds", "drip_seconds"):
        if not getattr(options, name) > 0:
            fail(f"--{name.replace('_', '-')} is {getattr(options, name)}. Use a number above 0.")
    if options.rate is not None and not options.rate > 0:
        fail(f"--rate is {options.rate}. Use a number above 0.")
    if options.url and (urlsplit(options.url).scheme != "http" or urlsplit(options.url).hostname not in LOOPBACK):
        fail(f"--url is {options.url!r}. Use a service on this machine, such as http://127.0.0.1:8000.")
    return options


def allow_many_connections() -> None:
    """Raise the descriptor limit of this process as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the attacks one after the other. Finished results are kept if a later attack fails or on Ctrl-C."""
    options = parse(arguments)
    attacks = select_attacks(options.attacks)
    if options.list:
        for attack in attacks:
            print(f"{attack.name:<16} {attack.group:<9} {attack.description}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service does not outlive this process
    rows: list[dict[str, Any]] = []
    code = 0
    try:
        for number, attack in enumerate(attacks, 1):
            sys.stderr.write(f"[{number}/{len(attacks)}] {attack.name}: {attack.description}\n")
            rows.append(measure(attack, options))
            if options.output is not None:
                _write_results(options, rows)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Results so far:\n")
        code = 130
    if rows:
        print(format_table(rows))
    raise SystemExit(code or int(not all(map(is_harmless, rows))))


def _write_results(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    hidden = ("output", "model", "list", "pid")
    settings = {name: value for name, value in vars(options).items() if name not in hidden}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"settings": settings, "rows": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
