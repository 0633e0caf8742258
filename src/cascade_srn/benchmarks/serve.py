"""The service under load: lost, mixed-up and wrong answers, rate and latency, for one client and for many."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cascade_srn.benchmarks.measuring import Timing
from cascade_srn.benchmarks.results import Result, environment, milliseconds, number, plain_settings
from cascade_srn.benchmarks.serve_load import TOLERANCE, Question, Tally, alike, ask_at_once, ask_in_turn
from cascade_srn.benchmarks.serve_options import ServeOptions
from cascade_srn.benchmarks.workload import FRESH, Corpus, encoder_name, new_model, read_corpus
from cascade_srn.config import Thresholds
from cascade_srn.device import find_device
from cascade_srn.errors import DataError
from cascade_srn.extractor import Extractor, find_model
from cascade_srn.serving.run import allow_many_connections
from cascade_srn.thresholds import chosen_thresholds
from cascade_srn.types import Document

COLUMNS = (
    number("clients", lambda row: row["clients"]),
    number("answers", lambda row: row["answers"]),
    number("lost", lambda row: row["lost"]),
    number("mixed up", lambda row: row["mixed"]),
    number("wrong", lambda row: row["wrong"]),
    number("refused", lambda row: row["refused"]),
    number("failed", lambda row: row["failed"]),
    number("answers/s", lambda row: row["answers_per_s"], "{:,.1f}"),
    milliseconds("p50, ms", lambda row: row["latency"]["p50_s"]),
    milliseconds("p95, ms", lambda row: row["latency"]["p95_s"]),
    milliseconds("p99, ms", lambda row: row["latency"]["p99_s"]),
    number("texts in a batch", lambda row: row["batch_texts"], "{:.1f}"),
)
NOTES = (
    "every answer is held against the document that Extractor gives for the text alone; one text a request, and a "
    "client asks anew as soon as it has its answer",
)


def measure(options: ServeOptions) -> Result:
    """Measure a service in a process of its own, from this one."""
    device = find_device(options.device)
    corpus = read_corpus(options.data, options.sentences)
    allow_many_connections()
    with _model_folder(options, corpus) as folder:
        questions = _questions(folder, corpus, options)
        with _served(folder, options) as url:
            rows = [_measured(url, questions, options, n_clients) for n_clients in (1, options.clients)]
    settings = {
        **plain_settings(options),
        "corpus": corpus.describe(),
        "questions": len(questions),
        "score_tolerance": TOLERANCE,
        "encoder": None if options.model else FRESH,
    }
    used = ("bf16" if device.type == "cuda" else "float32") if options.precision == "auto" else options.precision
    return Result("serve", device.type, settings, environment(device, used), rows, COLUMNS, NOTES)


def is_faultless(result: Result) -> bool:
    """Whether every request had its own, right answer."""
    return not any(row[kind] for row in result.rows for kind in ("lost", "mixed", "wrong", "refused", "failed"))


def _measured(url: str, questions: Sequence[Question], options: ServeOptions, n_clients: int) -> dict[str, Any]:
    parts = urlsplit(url)
    place = parts.hostname or "", parts.port or 0
    texts, batches = _batches(url)
    if n_clients == 1:
        asked = [questions[i % len(questions)] for i in range(options.single)]
        asyncio.run(ask_in_turn(place, asked[:10]))  # does not count
        tally = asyncio.run(ask_in_turn(place, asked))
    else:
        tally = asyncio.run(ask_at_once(place, questions, n_clients=n_clients, seconds=options.seconds))
    more_texts, more_batches = _batches(url)
    return _row(tally, n_clients, (more_texts - texts) / max(1.0, more_batches - batches))


def _row(tally: Tally, n_clients: int, batch_texts: float) -> dict[str, Any]:
    return {
        "clients": n_clients,
        "answers": len(tally.latencies),
        **{kind: tally.outcomes[kind] for kind in ("right", "lost", "mixed", "wrong", "refused", "failed")},
        "seconds": tally.seconds,
        "answers_per_s": len(tally.latencies) / tally.seconds,
        "latency": Timing(tuple(tally.latencies)).percentiles() if tally.latencies else _NO_LATENCY,
        "batch_texts": batch_texts,
    }


_NO_LATENCY: dict[str, float | None] = {"p50_s": None, "p95_s": None, "p99_s": None}


@contextmanager
def _model_folder(options: ServeOptions, corpus: Corpus) -> Iterator[Path]:
    """The model's folder, or that of a small one that lives as long as the block."""
    if options.model is not None:
        yield find_model(options.model)
        return
    with tempfile.TemporaryDirectory() as folder, encoder_name(None, corpus) as encoder:
        path = Path(folder) / "small"
        new_model(encoder, corpus.schema, "swift", find_device("cpu")).save(path)
        yield path


def _questions(folder: Path, corpus: Corpus, options: ServeOptions) -> list[Question]:
    """Each text in three ways: as it is, with thresholds of its own, and with its entities given."""
    extractor = Extractor.from_pretrained(folder, device=find_device(options.device), precision=options.precision)
    own = extractor.model.settings.thresholds
    changed = {"entity": (1 + own.entity) / 2, "subject": (1 + own.subject) / 2}
    higher = chosen_thresholds(changed, own)
    # Other texts would tell nothing about mixed-up answers, and words of the corpus may be split by the segmenter.
    texts = [Document.from_text(text) for text in dict.fromkeys(document.text for document in corpus.documents)]
    questions = [Question.of({"text": d.text}, d) for d in _stable(extractor, texts, own)]
    for document in _stable(extractor, texts, higher):
        questions.append(Question.of({"text": document.text, "thresholds": changed}, document))
    found = _stable(extractor, texts, own)
    for document in _stable(extractor, found, own, given=True):
        entities = [{"start": e.start, "end": e.end, "label": e.label} for e in document.entities]
        questions.append(Question.of({"text": document.text, "entities": entities}, document))
    if not questions:
        raise DataError(f"{corpus.name} holds no text whose answer does not hang on rounding; give other --data")
    return questions


def _stable(
    extractor: Extractor, documents: Sequence[Document], thresholds: Thresholds, *, given: bool = False
) -> list[Document]:
    """What is found in the texts, without those where a score lies so near its threshold that rounding decides.

    Scores are looked at as well: an entity that is shown to the later turns, and not predicted, has a part in them.
    """
    if given:
        documents = [
            Document(d.text, tuple(s.annotated([replace(e, score=None) for e in s.entities], ()) for s in d.sentences))
            for d in documents
        ]
    found, *others = (
        extractor.predict(documents, thresholds=_moved(thresholds, step), given_entities=given)
        for step in (0.0, -TOLERANCE, TOLERANCE)
    )
    return [
        one
        for one, *twins in zip(found, *others, strict=True)
        if all(alike(twin.to_dict(), one.to_dict()) for twin in twins)
    ]


def _moved(thresholds: Thresholds, step: float) -> Thresholds:
    def moved(value: float) -> float:
        return min(1.0, max(0.0, value + step))

    return Thresholds(
        entity=moved(thresholds.entity),
        subject=moved(thresholds.subject),
        object=moved(thresholds.object),
        entity_types={label: moved(value) for label, value in thresholds.entity_types.items()},
        relation_types={label: moved(value) for label, value in thresholds.relation_types.items()},
        related=None if thresholds.related is None else moved(thresholds.related),
    )


@contextmanager
def _served(folder: Path, options: ServeOptions) -> Iterator[str]:
    """The service in a process of its own, as users start it; its address."""
    command = [sys.executable, "-m", "cascade_srn", "serve", "--model", str(folder), "--port", "0", "--quiet"]
    command += ["--device", options.device, "--precision", options.precision]
    command += ["--batch-words", str(options.batch_words), "--timeout", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _address(process)
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> str:
    told = []
    for line in process.stderr or ():
        told.append(line)
        if found := re.search(r" at (http://\S+) ", line):
            return found[1]
    raise DataError(f"the service did not start: {' '.join(told).strip()}")


def _batches(url: str) -> tuple[float, float]:
    """How many texts and how many batches the model has had so far."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    value = {name: float(said) for name, _, said in (line.rpartition(" ") for line in lines) if name[:1] != "#"}
    return value.get("cascade_srn_batch_texts_sum", 0.0), value.get("cascade_srn_batch_texts_count", 0.0)
