"""Measure the seconds per epoch of the training loop, and the parts of a training step."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from cascade_srn.lab.benchmarks.measuring import (
    BenchmarkRun,
    Result,
    ResultRow,
    Timing,
    number,
    peak,
    peak_memory,
    synchronise,
    text,
)
from cascade_srn.lab.benchmarks.options import TrainOptions
from cascade_srn.lab.benchmarks.workload import BenchmarkCorpus, describe_encoder, encoder_name, new_model, read_corpus
from cascade_srn.model.model import Model
from cascade_srn.runs.device import few_threads, find_device, matmul_precision
from cascade_srn.training.run import train
from cascade_srn.training.settings import TrainingSettings
from cascade_srn.training.step import Step, make_optimiser

PARTS = ("collating", "forward", "backward", "optimiser")


def _share(part: str, row: ResultRow) -> float | None:
    if row["parts"] is None:
        return None
    return float(100 * row["parts"][part] / sum(row["parts"].values()))


COLUMNS = (
    text("preset", "preset"),
    text("batch", "batch_size"),
    text("graphs", "cuda_graphs"),
    number("s/epoch", "median_s", "{:.2f}"),
    number("sentences/s", "sentences_per_s"),
    number("words/s", "words_per_s"),
    *(number(f"{part}, %", partial(_share, part)) for part in PARTS),
    peak(),
)
NOTES = (
    "s/epoch: median epoch of the training loop after the warm-up; the shares come from one more epoch that waits for "
    "the device after every part",
    "graphs: whether the encoder runs as CUDA graphs, on a GPU only",
)
# Warm-up epochs: on a GPU, shapes are captured after they have occurred a few times.
_N_WARM_UP = {"cuda": 3}


def measure(options: TrainOptions, run: BenchmarkRun) -> Result:
    """Measure every preset with every batch size."""
    device = find_device(options.device)
    corpus = read_corpus(options.data, options.sentences)
    with run.collecting(), encoder_name(options.encoder, corpus) as encoder:
        for preset in options.presets:
            for batch_size in options.batch_sizes:
                for graphs in (False, True) if device.type == "cuda" else (False,):
                    model = new_model(encoder, corpus.schema, preset, device)
                    settings = TrainingSettings(
                        epochs=options.epochs, batch_size=batch_size, precision=options.precision, cuda_graphs=graphs
                    )
                    described = {"preset": preset, "batch_size": batch_size, "cuda_graphs": "yes" if graphs else "no"}
                    what = f"{preset}, batches of {batch_size}" + (", CUDA graphs" if graphs else "")
                    run.rows.append({**described, **_measure_row(model, corpus, settings, device, run, what)})
    used: dict[str, Any] = {"encoder": describe_encoder(options), "corpus": corpus.describe()}
    return run.result("train", device, options, COLUMNS, NOTES, precision=options.precision, **used)


def _measure_row(
    model: Model,
    corpus: BenchmarkCorpus,
    settings: TrainingSettings,
    device: torch.device,
    run: BenchmarkRun,
    what: str,
) -> dict[str, Any]:
    times: list[float] = []

    def measure_epochs() -> None:
        with run.collecting(times):
            for taken in _epochs(model, corpus, settings, device, run, what):
                times.append(taken)  # one at a time, so that an interruption keeps them

    memory = peak_memory(measure_epochs, device)
    timing = Timing(tuple(times))
    return {
        **timing.to_dict(),
        "sentences_per_s": len(corpus.sentences) / timing.median,
        "words_per_s": corpus.n_words / timing.median,
        "parts": run.part(f"{what}, parts of a step", lambda: _parts(model, corpus, settings, device)),
        "memory": memory.to_dict(),
    }


def _epochs(
    model: Model,
    corpus: BenchmarkCorpus,
    settings: TrainingSettings,
    device: torch.device,
    run: BenchmarkRun,
    what: str,
) -> Iterator[float]:
    """Yield the times of the epochs after the warm-up."""
    n_warm_up = _N_WARM_UP.get(device.type, 1)
    n_done, n_epochs = 0, settings.epochs + n_warm_up
    run.step(what, 1, n_epochs, "epochs with warm-up")
    started = time.perf_counter()
    for progress in train(model, corpus.documents, settings=replace(settings, epochs=n_epochs)):
        if progress.epoch_done:
            synchronise(device)
            taken = time.perf_counter() - started
            n_done += 1
            if n_done > n_warm_up:
                yield taken
            if n_done < n_epochs:
                run.step(what, n_done + 1, n_epochs, "epochs with warm-up")
            started = time.perf_counter()


def _parts(model: Model, corpus: BenchmarkCorpus, settings: TrainingSettings, device: torch.device) -> dict[str, float]:
    """Return the seconds of each part of the training steps of one epoch."""
    examples, network = corpus.examples, model.network.train()
    optimiser, schedule = make_optimiser(network, settings, 10 * len(examples))
    clock = _Clock(device)
    step = Step(model, optimiser, schedule, settings, done=clock.ends)
    size, number = settings.batch_size, 0
    with matmul_precision(settings.precision), few_threads(step.device):
        for _ in range(_N_WARM_UP.get(device.type, 0) + 1):
            clock.start()
            for at in range(0, len(examples), size):
                step(examples[at : at + size], number, examples[at + size : at + 2 * size])
                number += 1
    step.release()
    network.eval()
    return clock.spent


class _Clock:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.start()

    def start(self) -> None:
        self.spent = dict.fromkeys(PARTS, 0.0)
        synchronise(self.device)
        self._last = time.perf_counter()

    def ends(self, part: str) -> None:
        synchronise(self.device)
        now = time.perf_counter()
        self.spent[part] += now - self._last
        self._last = now
