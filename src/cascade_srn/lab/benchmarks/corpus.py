"""Measure corpus jobs, compared with ``Extractor.stream`` over the same texts.

Each run is a new process, so that all of them pay for imports and the model, and memory is that of one run.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cascade_srn.apps.corpus.inputs import RowReader, find_input_files
from cascade_srn.apps.corpus.progress import status
from cascade_srn.apps.corpus.shards import InputSettings, plan_shards
from cascade_srn.errors import CascadeError, DataError
from cascade_srn.lab.benchmarks.measuring import BenchmarkRun, Result, number, peak, take_turns, text
from cascade_srn.lab.benchmarks.options import CorpusOptions
from cascade_srn.lab.benchmarks.workload import example_corpus
from cascade_srn.runs.children import end_process
from cascade_srn.runs.device import find_device

STREAM = "Extractor.stream"
_POLL_SECONDS = 0.05
# Seconds that an interrupted run has to end its workers.
_END_SECONDS = 20
# A program of its own, since the modules of benchmarks import torch, which the model may not need.
_STREAM = """
import json, sys
from cascade_srn import Extractor
model, path, device, precision, batch_words, workers = sys.argv[1:]
extractor = Extractor.from_pretrained(model or None, device=device, precision=precision)
with open(path, encoding="utf-8") as lines:
    texts = (json.loads(line)["text"] for line in lines)
    documents = extractor.stream(texts, batch_words=int(batch_words), on_error="skip", workers=int(workers))
    print(sum(len(document.sentences) for document in documents))
"""
COLUMNS = (
    text("run", "run"),
    number("documents", "documents"),
    number("seconds", "median_s", "{:.1f}"),
    number("documents/s", "documents_per_s", "{:.1f}"),
    number("sentences/s", "sentences_per_s", "{:.1f}"),
    number("× stream", "ratio", "{:.3f}"),
    peak(),
    number("processes", lambda row: row["memory"]["processes"]),
)
NOTES = (
    "each run is a new process, and its time includes imports and loading the model; medians; "
    "× stream: throughput divided by that of Extractor.stream; peak: sum of the resident sets of all processes",
)


@dataclass(frozen=True)
class ProcessRun:
    """Wall-clock time, peak memory and largest number of processes of one run, and what it printed."""

    seconds: float
    peak_bytes: int
    n_processes: int
    printed: str


def measure(options: CorpusOptions, run: BenchmarkRun) -> Result:
    """Measure the stream and each split in turns, and then the memory over repeated data."""
    device = find_device(options.device)
    with run.collecting(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = _read_texts(options)
        data = _write_data(folder / "data.jsonl", texts, 1)
        _measure_splits(options, data, folder, len(texts), run)
        _measure_memory(options, texts, folder, run)
    n_sentences = run.rows[0]["sentences"]
    corpus = {"documents": len(texts), "sentences": n_sentences, "characters": sum(map(len, texts))}
    summary, precision = _summarise(run.rows), options.precision
    return run.result("corpus", device, options, COLUMNS, NOTES, precision=precision, summary=summary, corpus=corpus)


def run_process(command: list[str], threads: int) -> ProcessRun:
    """Run a command, and follow the memory of its processes.

    Raises:
        CascadeError: If the command fails.
    """
    import psutil

    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    peak = n_processes = 0
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **limits, "PYTHONPATH": paths}
        )
        try:
            while process.poll() is None:
                sizes = _resident_sets(psutil, process.pid)
                peak, n_processes = max(peak, sum(sizes)), max(n_processes, len(sizes))
                time.sleep(_POLL_SECONDS)
            seconds = time.perf_counter() - started
        finally:
            end_process(process, _END_SECONDS)
        output.seek(0)
        printed = output.read().decode("utf-8", "replace").strip()
    # 3: some documents are in errors, which costs no less.
    if process.returncode not in (0, 3):
        last = printed.splitlines()[-1] if printed else f"exit code {process.returncode}"
        raise CascadeError(f"a measured run failed: {last}", "Run the command on the data itself")
    return ProcessRun(seconds, peak, n_processes, printed)


def _resident_sets(psutil: Any, pid: int) -> list[int]:
    """Return the memory of a process and its descendants. Those that end in between are left out."""
    sizes = []
    try:
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            sizes.append(int(process.memory_info().rss))
    except psutil.Error:
        pass
    return sizes


def _read_texts(options: CorpusOptions) -> list[str]:
    settings = InputSettings(field=options.field, limit=options.documents)
    files = find_input_files(str(example_corpus()) if options.data is None else options.data, settings)
    with RowReader(files, settings) as reader:
        rows = (row for shard in plan_shards(files, settings) for row in reader.read(shard))
        texts = [row.text for row in islice(rows, options.documents) if row.text is not None]
    if not texts:
        raise DataError("the data has no text", "Give a file with texts", option="data")
    return texts


def _write_data(path: Path, texts: list[str], factor: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for repeat in range(factor):
            for at, each in enumerate(texts):
                file.write(json.dumps({"id": f"{repeat}-{at}", "text": each}) + "\n")
    return path


def _stream_run(
    options: CorpusOptions, data: Path, threads: int, split_workers: int = 0
) -> Callable[[], tuple[ProcessRun, int]]:
    given = [options.model or "", str(data), options.device, options.precision, options.batch_words, split_workers]
    command = [sys.executable, "-c", _STREAM, *map(str, given)]

    def run() -> tuple[ProcessRun, int]:
        found = run_process(command, threads)
        return found, int(found.printed.splitlines()[-1])

    return run


def _corpus_run(
    options: CorpusOptions, data: Path, folder: Path, workers: int, threads: int
) -> Callable[[], tuple[ProcessRun, int]]:
    def run() -> tuple[ProcessRun, int]:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            output = Path(name) / "out"
            command = [sys.executable, "-m", "cascade_srn", "corpus", "run", str(data), "--output", str(output)]
            command += ["--workers", str(workers), "--threads", str(threads), "--device", options.device]
            command += ["--precision", options.precision, "--batch-words", str(options.batch_words)]
            command += ["--shard-documents", str(options.shard_documents)]
            command += [] if options.model is None else ["--model", options.model]
            found = run_process(command, threads)
            return found, status(output).n_sentences

    return run


def _measure_splits(options: CorpusOptions, data: Path, folder: Path, n_documents: int, run: BenchmarkRun) -> None:
    """Run the stream and all splits in turns, so that a slowdown of the machine affects all of them."""
    runs = {
        f"{STREAM}, {n} split workers" if n else STREAM: _stream_run(options, data, options.pairs[0][1], n)
        for n in (0, *options.split_workers)
    }
    for workers, threads in options.pairs:
        runs[f"corpus run {workers}x{threads}"] = _corpus_run(options, data, folder, workers, threads)
    found = take_turns(runs, repeats=options.repeats, run=run, what="stream and splits")
    rows = [_row(name, measured, n_documents) for name, measured in found.items()]
    run.rows += [{**row, "ratio": row["documents_per_s"] / rows[0]["documents_per_s"]} for row in rows]


def _measure_memory(options: CorpusOptions, texts: list[str], folder: Path, run: BenchmarkRun) -> None:
    """Run repeated data once each, with one worker."""
    workers, threads = options.pairs[0]
    for number_, factor in enumerate(sorted(options.factors)):
        run.step("repeated data", number_ + 1, len(options.factors), f"data × {factor}")
        data = _write_data(folder / f"data-{factor}.jsonl", texts, factor)
        extract = _corpus_run(options, data, folder, workers, threads)
        row = _row(f"corpus run {workers}x{threads}, data × {factor}", [extract()], factor * len(texts))
        run.rows.append({**row, "ratio": None, "factor": factor})
        data.unlink()


def _row(name: str, measured: list[tuple[ProcessRun, int]], n_documents: int) -> dict[str, Any]:
    times = [run.seconds for run, _ in measured]
    median, n_sentences = statistics.median(times), measured[0][1]
    return {
        "run": name,
        "documents": n_documents,
        "sentences": n_sentences,
        "median_s": median,
        "times_s": times,
        "documents_per_s": n_documents / median,
        "sentences_per_s": n_sentences / median,
        "memory": {
            "peak_bytes": max(run.peak_bytes for run, _ in measured),
            "processes": max(run.n_processes for run, _ in measured),
            "kind": "resident sets of all processes",
        },
    }


def _summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare one worker with the stream, splits with each other, and the ends of the series over repeated data.

    The steady rate is that between the smallest and the largest data, without the start of the processes.
    """
    repeated = [row for row in rows if "factor" in row]
    splits = [row for row in rows if "factor" not in row and not row["run"].startswith(STREAM)]
    summary: dict[str, Any] = {
        "ratio_to_stream": splits[0]["ratio"],
        "ratio_to_first_split": {row["run"]: row["documents_per_s"] / splits[0]["documents_per_s"] for row in splits},
    }
    if len(repeated) > 1:
        small, large = repeated[0], repeated[-1]
        seconds = large["median_s"] - small["median_s"]
        summary["memory_growth"] = large["memory"]["peak_bytes"] / small["memory"]["peak_bytes"]
        summary["steady_documents_per_s"] = (large["documents"] - small["documents"]) / seconds if seconds > 0 else None
    return summary
