"""Measure the service under load: errors, rate and latency, for one client and for many."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cascade_srn.apps.web.metrics import WRITE_SECONDS
from cascade_srn.apps.web.run import limit_open_files
from cascade_srn.config import Thresholds
from cascade_srn.errors import DataError
from cascade_srn.extractor import Extractor, find_model
from cascade_srn.inference.options import resolve_thresholds
from cascade_srn.lab.benchmarks.measuring import (
    BenchmarkRun,
    Result,
    Timing,
    latencies,
    number,
)
from cascade_srn.lab.benchmarks.options import ServeOptions
from cascade_srn.lab.benchmarks.workload import FRESH, BenchmarkCorpus, encoder_name, new_model, read_corpus
from cascade_srn.runs.children import end_process
from cascade_srn.runs.device import find_device
from cascade_srn.types import Document

# Scores may differ by this much between batches, by rounding.
TOLERANCE = 1e-3
# Time limit of the service, so long that slow machines show their latency and not the limit. Answers that take longer
# are lost.
LIMIT_SECONDS, LOST_SECONDS = 600, 630.0
# Seconds that the service has to shut down.
END_SECONDS = 60
# Requests before the measurement, which do not count.
N_WARM_UP = 10


@dataclass(frozen=True)
class LoadRequest:
    """A request as bytes and the expected document."""

    text: str
    request: bytes
    expected: dict[str, Any]

    @classmethod
    def of(cls, body: dict[str, Any], expected: Document) -> LoadRequest:
        """Make the question for a body that is sent to /extract."""
        content = json.dumps(body).encode()
        head = (
            "POST /extract HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        return cls(expected.text, head.encode() + content, expected.to_dict())

    def judge(self, status: int, body: bytes) -> str:
        """Return "right", "mixed" (answer to another request), "wrong", "refused" (503) or "failed" (other status)."""
        if status != 200:
            return "refused" if status == 503 else "failed"
        documents = json.loads(body)["documents"]
        if len(documents) != 1 or documents[0]["text"] != self.text:
            return "mixed"
        return "right" if is_equal(documents[0], self.expected) else "wrong"


def is_equal(found: Any, expected: Any, key: str = "") -> bool:
    """Return whether two answers are equal up to the rounding of scores."""
    if key == "score" and found is not None and expected is not None:
        return bool(abs(found - expected) <= TOLERANCE)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(is_equal(found[name], expected[name], name) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(is_equal(*pair) for pair in zip(found, expected, strict=True))
    return bool(found == expected)


@dataclass
class Tally:
    """Outcomes of requests and latencies of answers."""

    outcomes: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


class Client:
    """A persistent connection that reconnects when it is closed."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        """Open the connection."""
        self._streams = await asyncio.open_connection(*self._place)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
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


async def ask_in_turn(place: tuple[str, int], questions: Sequence[LoadRequest], tally: Tally) -> None:
    """Ask one question after the other with a single client. An interruption keeps the tally."""
    client = Client(*place)
    with _stopwatch(tally):
        for question in questions:
            await _ask(client, question, tally)
    client.close()


async def ask_at_once(
    place: tuple[str, int], questions: Sequence[LoadRequest], tally: Tally, *, n_clients: int, seconds: float
) -> None:
    """Ask with many clients for some time. All clients connect before the first question."""
    clients = [Client(*place) for _ in range(n_clients)]
    for first in range(0, n_clients, 100):
        await asyncio.gather(*(client.connect() for client in clients[first : first + 100]))
    end = time.perf_counter() + seconds

    async def keep_asking(number: int, client: Client) -> None:
        turn = number
        while time.perf_counter() < end:
            await _ask(client, questions[turn % len(questions)], tally)
            turn += n_clients + 1

    with _stopwatch(tally):
        await asyncio.gather(*(keep_asking(number, client) for number, client in enumerate(clients)))
    for client in clients:
        client.close()


@contextmanager
def _stopwatch(tally: Tally) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        tally.seconds = time.perf_counter() - started


async def _ask(client: Client, question: LoadRequest, tally: Tally) -> None:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(LOST_SECONDS):
            status, body = await client.ask(question.request)
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        client.close()
        tally.outcomes["lost"] += 1
        return
    tally.latencies.append(time.perf_counter() - started)
    outcome = question.judge(status, body)
    tally.outcomes[outcome] += 1
    if outcome == "refused":
        await asyncio.sleep(1)  # as the Retry-After header says


FAULTS = ("lost", "mixed", "wrong", "refused", "failed")
COLUMNS = (
    number("clients", "clients"),
    number("answers", "answers"),
    *(number("mixed up" if kind == "mixed" else kind, kind) for kind in FAULTS),
    number("answers/s", "answers_per_s", "{:,.1f}"),
    *latencies("p50", "p95", "p99"),
    number("texts in a batch", "batch_texts", "{:.1f}"),
)
NOTES = (
    "every answer is compared with the document that Extractor returns for the text alone; each request has one text, "
    "and a client sends its next request as soon as it has an answer",
)


def measure(options: ServeOptions, run: BenchmarkRun) -> Result:
    """Measure a service that runs in another process."""
    device = find_device(options.device)
    corpus = read_corpus(options.data, options.sentences)
    limit_open_files()
    with run.collecting(), _model_folder(options, corpus) as folder:
        run.step("expected answers")
        questions = _questions(folder, corpus, options)
        run.step("start of the service")
        with _run_service(folder, options) as url:
            for number_, n_clients in enumerate(options.clients):
                run.step("clients", number_ + 1, len(options.clients), f"{n_clients:,} at once")
                run.rows.append(_measure_row(url, questions, options, n_clients, run))
    return run.result(
        "serve",
        device,
        options,
        COLUMNS,
        NOTES,
        precision=options.precision,
        corpus=corpus.describe(),
        questions=len(questions),
        score_tolerance=TOLERANCE,
        encoder=None if options.model else FRESH,
    )


def is_faultless(result: Result) -> bool:
    """Return whether every request got the right answer."""
    return not any(row[kind] for row in result.rows for kind in FAULTS)


def _measure_row(
    url: str, questions: Sequence[LoadRequest], options: ServeOptions, n_clients: int, run: BenchmarkRun
) -> dict[str, Any]:
    parts = urlsplit(url)
    place = parts.hostname or "", parts.port or 0
    texts, batches = _batches(url)
    tally = Tally()
    with run.collecting(tally.latencies):
        if n_clients == 1:
            asked = [questions[i % len(questions)] for i in range(options.single)]
            asyncio.run(ask_in_turn(place, asked[:N_WARM_UP], Tally()))
            asyncio.run(ask_in_turn(place, asked, tally))
        else:
            asyncio.run(ask_at_once(place, questions, tally, n_clients=n_clients, seconds=options.seconds))
    if options.workers > 1:
        time.sleep(2 * WRITE_SECONDS)  # until the workers have written their metrics
    more_texts, more_batches = _batches(url)
    return _row(tally, n_clients, (more_texts - texts) / max(1.0, more_batches - batches))


def _row(tally: Tally, n_clients: int, batch_texts: float) -> dict[str, Any]:
    return {
        "clients": n_clients,
        "answers": len(tally.latencies),
        **{kind: tally.outcomes[kind] for kind in ("right", *FAULTS)},
        "seconds": tally.seconds,
        "answers_per_s": len(tally.latencies) / tally.seconds,
        "latency": Timing(tuple(tally.latencies)).percentiles() if tally.latencies else None,
        "batch_texts": batch_texts,
    }


@contextmanager
def _model_folder(options: ServeOptions, corpus: BenchmarkCorpus) -> Iterator[Path]:
    """Yield the folder of the model, or of a small new one that exists during the block."""
    if options.model is not None:
        yield find_model(options.model)
        return
    with tempfile.TemporaryDirectory() as folder, encoder_name(None, corpus) as encoder:
        path = Path(folder) / "small"
        new_model(encoder, corpus.schema, "swift", find_device("cpu")).save(path)
        yield path


def _questions(folder: Path, corpus: BenchmarkCorpus, options: ServeOptions) -> list[LoadRequest]:
    """Make three questions per text: plain, with thresholds and with given entities."""
    extractor = Extractor.from_pretrained(folder, device=find_device(options.device), precision=options.precision)
    own = extractor.model.settings.thresholds
    changed = {"entity": (1 + own.entity) / 2, "subject": (1 + own.subject) / 2}
    higher = resolve_thresholds(changed, own)
    # Texts are distinct, so that mixed-up answers are found. The segmenter may split words of the corpus.
    texts = [Document.from_text(text) for text in dict.fromkeys(document.text for document in corpus.documents)]
    questions = [LoadRequest.of({"text": d.text}, d) for d in _stable(extractor, texts, own)]
    for document in _stable(extractor, texts, higher):
        questions.append(LoadRequest.of({"text": document.text, "thresholds": changed}, document))
    found = _stable(extractor, texts, own)
    for document in _stable(extractor, found, own, given=True):
        entities = [{"start": e.start, "end": e.end, "label": e.label} for e in document.entities]
        questions.append(LoadRequest.of({"text": document.text, "entities": entities}, document))
    if not questions:
        raise DataError(
            f"the answer to every text of {corpus.name} depends on rounding", "Give other texts", option="data"
        )
    return questions


def _stable(
    extractor: Extractor, documents: Sequence[Document], thresholds: Thresholds, *, given: bool = False
) -> list[Document]:
    """Predict documents, and leave out those where a score is so near its threshold that rounding decides.

    Scores are compared as well: an entity that is below its threshold can still influence later turns.
    """
    if given:
        documents = [
            Document(d.text, tuple(s.annotated([replace(e, score=None) for e in s.entities], ()) for s in d.sentences))
            for d in documents
        ]
    found, *others = (
        extractor.predict(documents, thresholds=_shift(thresholds, step), given_entities=given)
        for step in (0.0, -TOLERANCE, TOLERANCE)
    )
    return [
        one
        for one, *twins in zip(found, *others, strict=True)
        if all(is_equal(twin.to_dict(), one.to_dict()) for twin in twins)
    ]


def _shift(thresholds: Thresholds, step: float) -> Thresholds:
    def shift(value: float) -> float:
        return min(1.0, max(0.0, value + step))

    shifted: dict[str, Any] = {
        name: {label: shift(each) for label, each in value.items()} if isinstance(value, dict) else shift(value)
        for name, value in thresholds.to_dict().items()
        if value is not None
    }
    return Thresholds(**shifted)


@contextmanager
def _run_service(folder: Path, options: ServeOptions) -> Iterator[str]:
    """Run the service in another process and yield its address."""
    command = [sys.executable, "-m", "cascade_srn", "serve", "--model", str(folder), "--port", "0", "--quiet"]
    command += ["--device", options.device, "--precision", options.precision]
    command += ["--batch-words", str(options.batch_words), "--timeout", str(LIMIT_SECONDS)]
    command += ["--workers", str(options.workers)]
    # In its own session, so that Ctrl-C reaches the benchmark only, which ends the service.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield _address(process)
        finally:
            end_process(process, END_SECONDS)


def _address(process: subprocess.Popen[str]) -> str:
    lines = []
    for line in process.stderr or ():
        lines.append(line)
        if found := re.search(r" at (http://\S+) ", line):
            return found[1]
    raise DataError(f"the service did not start: {' '.join(lines).strip()}")


def _batches(url: str) -> tuple[float, float]:
    """Return the numbers of texts and batches that the model has processed so far."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    total: Counter[str] = Counter()  # over all workers
    for name, _, said in (line.rpartition(" ") for line in lines if line[:1] != "#"):
        total[name.partition("{")[0]] += float(said)  # type: ignore[assignment]
    return total["cascade_srn_batch_texts_sum"], total["cascade_srn_batch_texts_count"]
