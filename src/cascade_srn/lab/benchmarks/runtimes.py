"""Compare torch with ONNX Runtime: speed, latency, start-up, memory and size, on the CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.extractor import load_model
from cascade_srn.inference.predictor import Predictor
from cascade_srn.lab.benchmarks.measuring import (
    BenchmarkRun,
    Result,
    Timing,
    latencies,
    number,
    peak,
    take_turns,
    text,
)
from cascade_srn.lab.benchmarks.options import RuntimesOptions
from cascade_srn.lab.benchmarks.workload import BenchmarkCorpus, read_corpus
from cascade_srn.model.folder import read_export, runs_light
from cascade_srn.network.examples import Example
from cascade_srn.runtime.model import LightModel
from cascade_srn.storage.bundled import find_model

TEXT = "We train a CRF for named entity recognition."
# Linux counts the memory of the parent to that of a new process. The parent is therefore a small process.
_LAUNCHER = """
import os, subprocess, sys
environment = {**os.environ, "CASCADE_SRN_RUNTIME": sys.argv[1]}
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, env=environment)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(min(abs(os.waitstatus_to_exitcode(status)), 255))
"""

COLUMNS = (
    text("model", "model"),
    text("runtime", "runtime"),
    text("precision", "precision"),
    number("sentences/s", "sentences_per_s"),
    number("CPU ms/sentence", lambda row: 1000 * row["cpu_s"] / row["sentences"], "{:.1f}"),
    *latencies("p50", "p95"),
    number("first answer, CPU s", lambda row: row["start"] and row["start"]["median_s"], "{:.2f}"),
    peak(),
    number("size, MB", lambda row: row["folder_bytes"] / 1e6),
)
NOTES = (
    "p50, p95: one sentence at a time; first answer: CPU time of extract with one text, in a new process; "
    "peak: resident set of extract with all sentences, in a new process; medians",
)


@dataclass(frozen=True)
class Runtime:
    """A model in one runtime and precision, loaded in this process."""

    folder: Path
    in_torch: bool
    precision: str
    predictor: Predictor

    @property
    def runtime(self) -> str:
        """What runs the model."""
        return "torch" if self.in_torch else "ONNX Runtime"

    @property
    def name(self) -> str:
        """Name for reports."""
        return f"{self.folder.resolve().name}, {self.runtime}, {self.precision}"

    def command(self, *arguments: str) -> list[str]:
        """Return the runtime, and the command that extracts with the model in a process of its own."""
        asked = self.precision if self.in_torch else "auto"
        options = ["--model", str(self.folder), "--precision", asked, "--device", "cpu", "--format", "jsonl"]
        runtime = "torch" if self.in_torch else "auto"
        return [runtime, sys.executable, "-m", "cascade_srn", "extract", *options, *arguments]


@dataclass(frozen=True)
class Taken:
    """Wall-clock and CPU seconds."""

    wall: float
    cpu: float


def measure(options: RuntimesOptions, run: BenchmarkRun) -> Result:
    """Measure all models in turns."""
    if not hasattr(os, "wait4"):
        raise ConfigError("this benchmark needs Linux or macOS, which measure the CPU time of a process")
    corpus = read_corpus(options.data, options.sentences)
    runtimes = _load(options, run)
    timings = take_turns(
        {runtime.name: partial(_timed, runtime.predictor, corpus.examples) for runtime in runtimes},
        repeats=options.repeats,
        warmup=options.warmup,
        run=run,
        what="all sentences",
    )
    alone = corpus.examples[: options.latency_sentences]
    latency = run.part("one sentence at a time", lambda: _latency(runtimes, alone)) or {}
    starts = run.part("first answer", lambda: _starts(runtimes, options.starts, run)) or {}
    memory = run.part("memory", lambda: _memory(runtimes, corpus)) or {}
    for runtime in runtimes:
        taken = timings[runtime.name]
        wall = Timing(tuple(one.wall for one in taken))
        run.rows.append(
            {
                "model": runtime.folder.resolve().name,
                "runtime": runtime.runtime,
                "precision": runtime.precision,
                "sentences": len(corpus.examples),
                **wall.to_dict(),
                "cpu_s": float(np.median([one.cpu for one in taken])),
                "sentences_per_s": len(corpus.examples) / wall.median,
                "latency": latency.get(runtime.name),
                "start": starts.get(runtime.name),
                "memory": memory.get(runtime.name),
                "folder_bytes": sum(path.stat().st_size for path in runtime.folder.iterdir() if path.is_file()),
            }
        )
    used = ", ".join(dict.fromkeys(row["precision"] for row in run.rows))
    cpu = torch.device("cpu")
    return run.result("runtimes", cpu, options, COLUMNS, NOTES, precision=used, corpus=corpus.describe())


def _load(options: RuntimesOptions, run: BenchmarkRun) -> list[Runtime]:
    """Load each model in all its runtimes: in torch with each precision, in ONNX Runtime with its own."""
    found = []
    for name in options.models:
        run.step(f"loading {name}")
        folder = find_model(name)
        if read_export(folder) is None:
            model = load_model(folder, device="cpu", runtime="torch")
            for asked in options.precisions:
                predictor = model.predictor(batch_words=options.batch_words, precision=asked)
                found.append(Runtime(folder, True, asked, predictor))
        if runs_light(folder, "cpu", runtime="auto"):
            light = LightModel.load(folder)
            predictor = light.predictor(batch_words=options.batch_words)
            found.append(Runtime(folder, False, light.precision, predictor))
    if len({runtime.name for runtime in found}) < len(found):
        raise ConfigError("two models have the same name", "Give folders with different names", option="models")
    return found


def _timed(predictor: Predictor, examples: list[Example]) -> Taken:
    wall, cpu = time.perf_counter(), time.process_time()
    predictor.predict(examples)
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def _latency(runtimes: list[Runtime], examples: list[Example]) -> dict[str, dict[str, Any]]:
    """Measure single sentences. Each sentence is read by all models in turn, after a short warm-up."""
    taken: dict[str, list[Taken]] = {runtime.name: [] for runtime in runtimes}
    for example in [*examples[:3], *examples]:
        for runtime in runtimes:
            taken[runtime.name].append(_timed(runtime.predictor, [example]))
    return {
        name: {
            "sentences": len(examples),
            **Timing(tuple(one.wall for one in times[-len(examples) :])).percentiles(),
            "cpu": Timing(tuple(one.cpu for one in times[-len(examples) :])).percentiles(),
        }
        for name, times in taken.items()
    }


def _starts(runtimes: list[Runtime], repeats: int, run: BenchmarkRun) -> dict[str, dict[str, Any]]:
    """Measure the CPU time of new processes that answer one text."""
    candidates = {runtime.name: partial(_run, runtime.command("--text", TEXT)) for runtime in runtimes}
    # The first turn reads the files of the libraries from the disk.
    found = take_turns(candidates, repeats=repeats, warmup=1, run=run, what="first answer")
    return {name: Timing(tuple(cpu for cpu, _ in used)).to_dict() for name, used in found.items()}


def _memory(runtimes: list[Runtime], corpus: BenchmarkCorpus) -> dict[str, dict[str, int]]:
    """Measure the peak memory of new processes that extract from all sentences."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.txt"
        lines = (" ".join(" ".join(sentence.words).split()) for sentence in corpus.sentences)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return {r.name: {"peak_bytes": _run(r.command(str(path), "--per", "line"))[1]} for r in runtimes}


def _run(command: list[str]) -> tuple[float, int]:
    """Run a command of a runtime. Return the CPU seconds and the largest resident set of its process, in bytes."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode:
        reason = errors.strip().rpartition("\n")[2]
        raise CascadeError(f"extract ended with the exit code {process.returncode}: {reason}")
    cpu, peak = output.split()
    # Kilobytes on Linux, bytes on macOS.
    return float(cpu), int(peak) * (1 if sys.platform == "darwin" else 1024)
