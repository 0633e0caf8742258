"""Measure how the cost of extraction grows with sentence length, subjects per sentence and corpus size."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cascade_srn.config import Thresholds
from cascade_srn.errors import require
from cascade_srn.extractor import Extractor, find_model
from cascade_srn.lab.benchmarks.extract import CALIBRATION, Extraction, accepting_thresholds
from cascade_srn.lab.benchmarks.measuring import (
    BenchmarkRun,
    Memory,
    Result,
    measure_in_turns,
    milliseconds,
    number,
    peak,
    peak_memory,
    text,
)
from cascade_srn.lab.benchmarks.options import GrowthOptions
from cascade_srn.lab.benchmarks.workload import (
    BenchmarkCorpus,
    calibrate_threshold,
    count,
    describe_encoder,
    encoder_name,
    new_model,
    read_corpus,
)
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.runs.device import find_device
from cascade_srn.types import Sentence, Span

COLOUR = "#2a6fb0"


def require_matplotlib() -> None:
    """Raise an error before the measurement if matplotlib is missing."""
    require("matplotlib", extra="report")


def plot_growth(result: dict[str, Any], path: str | Path) -> Path:
    """Draw the series of a growth result, as read from its JSON file, on logarithmic axes. Return the path."""
    require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    series = list(dict.fromkeys(row["series"] for row in result["rows"]))
    figure = Figure(figsize=(4.2 * len(series), 3.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(series), squeeze=False)[0], series, strict=True):
        points = sorted((row["size"], 1000 * row["median_s"]) for row in result["rows"] if row["series"] == name)
        sizes, times = zip(*points, strict=True)
        axes.loglog(sizes, times, marker="o", color=COLOUR, linewidth=1.5)
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.set_ylabel("time, ms")
        axes.grid(alpha=0.3)
        exponent = result["summary"]["exponents"].get(name)
        if exponent is not None:
            axes.set_title(f"power {exponent['overall']:.2f}, at the end {exponent['final']:.2f}", fontsize=10)
    settings, environment = result["settings"], result["environment"]
    hardware = environment["gpu"] or environment["cpu"]
    figure.suptitle(f"{settings['preset']}, {environment['precision']}, {hardware}", fontsize=10)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    return target


LENGTH, SUBJECTS, CORPUS = "sentence length", "subjects in a sentence", "corpus size"
# Entities per sentence in the series over the sentence length.
N_ENTITIES = 4
# Number of largest sizes that determine the final exponent.
TAIL = 3

COLUMNS = (
    text("what grows", "series"),
    number("size", "size"),
    milliseconds("time, ms", lambda row: row["median_s"]),
    peak(),
)


def growth_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit cost ≈ a · size^b and return b: 1 for linear growth, 2 for quadratic growth."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def measure(options: GrowthOptions, run: BenchmarkRun) -> Result:
    """Measure the three series. The sizes of a series are measured in turns."""
    device = find_device(options.device)
    corpus = read_corpus(options.data, options.sentences)
    with encoder_name(options.encoder, corpus) as encoder:
        if options.model is not None:
            model = Model.load(find_model(options.model))
            model.require_cascade("this benchmark")
            model.network.to(device)
        else:
            model = new_model(encoder, corpus.schema, options.preset, device)
    precision = options.precision
    with run.collecting():
        precision = _sentence_rows(model, corpus, options, device, run)
        _corpus_rows(model, corpus, options, device, run)
    exponents = _exponents(run.rows)
    notes = tuple(
        f"time grows with {series} to the power {found['overall']:.2f} overall, "
        f"{found['final']:.2f} for the largest sizes"
        for series, found in exponents.items()
    )
    return run.result(
        "growth",
        device,
        options,
        COLUMNS,
        notes,
        precision=precision,
        summary={"exponents": exponents},
        preset=model.settings.fusion.preset,
        corpus=corpus.describe(),
        heads="saved model" if options.model else "random",
        encoder=describe_encoder(options),
    )


def _sentence_rows(
    model: Model, corpus: BenchmarkCorpus, options: GrowthOptions, device: torch.device, run: BenchmarkRun
) -> str:
    """Measure generated sentences of growing length and with a growing number of subjects. Return the precision.

    The entities are given, and all of them are subjects.
    """
    run.step("making sentences")
    made = _Sentences(corpus, model)
    calibrating = [made.example(24, N_ENTITIES) for _ in range(CALIBRATION)]
    thresholds = accepting_thresholds(model, calibrating, n_triples=None if options.model else CALIBRATION)

    def extraction(n_words: int, n_entities: int) -> Extraction:
        examples = [made.example(n_words, n_entities) for _ in range(options.batch_sentences)]
        return Extraction(model, examples, options, thresholds=thresholds, given_entities=True)

    lengths = {size: extraction(size, min(size, N_ENTITIES)) for size in options.lengths}
    subjects = {size: extraction(options.subject_words, size) for size in options.subjects}
    for series, runs in ((LENGTH, lengths), (SUBJECTS, subjects)):
        run.rows += _series(series, runs, dict.fromkeys(runs), options, device, run)
    some = next(chain(lengths.values(), subjects.values()), None)
    return options.precision if some is None else some.precision


def _corpus_rows(
    model: Model, corpus: BenchmarkCorpus, options: GrowthOptions, device: torch.device, run: BenchmarkRun
) -> None:
    """Stream the corpus repeatedly through ``Extractor.stream``, which holds a bounded part of it."""
    extractor = Extractor(model, precision=options.precision)
    thresholds = model.settings.thresholds if options.model else _realistic(model, corpus)

    def repeated(factor: int) -> Callable[[], None]:
        def stream() -> None:
            documents = chain.from_iterable(repeat(corpus.documents, factor))
            for _ in extractor.stream(documents, batch_words=options.batch_words, thresholds=thresholds):
                pass

        return stream

    runs = {factor: repeated(factor) for factor in sorted(options.factors)}
    memories = {}
    for number_, (factor, stream) in enumerate(runs.items()):
        run.step(f"{CORPUS}, memory", number_ + 1, len(runs), f"data × {factor}")
        memories[factor] = peak_memory(stream, device)
    # The runs for the memory were the warm-up, and a repeat of the largest corpus takes long.
    options = replace(options, warmup=0, repeats=min(options.repeats, 3))
    rows = _series(CORPUS, runs, memories, options, device, run)
    run.rows += [{**row, "sentences": row["size"] * len(corpus.sentences)} for row in rows]


def _realistic(model: Model, corpus: BenchmarkCorpus) -> Thresholds:
    """Return thresholds with which random heads predict about as many entities and triples as the gold data has."""
    sample = corpus.examples[:CALIBRATION]
    gold = count([example.sentence for example in sample])
    # No entity is a subject in the first search: turn 3 would take long if too many entities passed.
    start = Thresholds(subject=1.0, object=1.0)
    found = calibrate_threshold(model, sample, start, "entity", target=gold.entities, given_entities=False)
    found = replace(found, subject=0.0)
    if model.network.relations is None:
        return found
    return calibrate_threshold(model, sample, found, "object", target=gold.triples, given_entities=False)


def _series(
    name: str,
    runs: Mapping[int, Callable[[], object]],
    memories: Mapping[int, Memory | None],
    options: GrowthOptions,
    device: torch.device,
    run: BenchmarkRun,
) -> list[dict[str, Any]]:
    candidates = {str(size): function for size, function in runs.items()}
    timings = measure_in_turns(
        candidates, repeats=options.repeats, warmup=options.warmup, device=device, run=run, what=name
    )
    rows = []
    for size in runs:
        memory = memories[size]
        found = memory.to_dict() if memory is not None else None
        rows.append({"series": name, "size": size, **timings[str(size)].to_dict(), "memory": found})
    return rows


def _exponents(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the growth exponents of each series, over all sizes and over the largest ones, where fixed costs fade."""
    found = {}
    for series in dict.fromkeys(row["series"] for row in rows):
        points = sorted((row["size"], row["median_s"]) for row in rows if row["series"] == series)
        sizes, times = zip(*points, strict=True)
        if len(set(sizes)) > 1:
            found[series] = {
                "overall": growth_exponent(sizes, times),
                "final": growth_exponent(sizes[-TAIL:], times[-TAIL:]),
            }
    return found


class _Sentences:
    """Generates sentences from the words of a corpus, with entities of one or two words spread over them."""

    def __init__(self, corpus: BenchmarkCorpus, model: Model) -> None:
        words = [word for sentence in corpus.sentences for word in sentence.words]
        random.Random(0).shuffle(words)
        self._words: Iterator[str] = cycle(words)
        self._labels = model.schema.entity_types

    def example(self, n_words: int, n_entities: int) -> Example:
        room = n_words / n_entities
        length = min(2, math.floor(room))
        starts = [math.floor(i * room) for i in range(n_entities)]
        labels = cycle(self._labels)
        entities = [Span(start, start + length, next(labels)) for start in starts]
        return Example(Sentence.from_words(list(islice(self._words, n_words)), entities))
