"""Extraction end to end: throughput, latency and memory, beside the bare encoder and beside a BiLSTM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from cascade_srn.benchmarks.extraction import CALIBRATION, Batching, Extraction, accepting, with_bilstm
from cascade_srn.benchmarks.measuring import Timing, peak_memory, seconds, side_by_side
from cascade_srn.benchmarks.options import ExtractOptions
from cascade_srn.benchmarks.results import Result, environment, milliseconds, number, plain_settings, text
from cascade_srn.benchmarks.workload import FRESH, Corpus, count, encoder_name, new_model, read_corpus, train_briefly
from cascade_srn.data.examples import Example
from cascade_srn.device import find_device
from cascade_srn.extractor import find_model
from cascade_srn.model import Model

COLUMNS = (
    text("preset", "preset"),
    number("sentences/s", lambda row: row["sentences_per_s"]),
    number("words/s", lambda row: row["words_per_s"]),
    number("× encoder", lambda row: row["encoder"]["ratio"], "{:.2f}"),
    number("× BiLSTM", lambda row: row["bilstm"]["ratio"], "{:.2f}"),
    milliseconds("p50, ms", lambda row: row["latency"]["p50_s"]),
    milliseconds("p95, ms", lambda row: row["latency"]["p95_s"]),
    milliseconds("p99, ms", lambda row: row["latency"]["p99_s"]),
    number("peak, MiB", lambda row: row["memory"]["peak_bytes"] / 2**20),
    number("entities", lambda row: row["found"]["entities"]),
    number("subjects", lambda row: row["found"]["subjects"]),
    number("triples", lambda row: row["found"]["triples"]),
)
NOTES = (
    "× encoder: time over that of the bare encoder's forward pass on the same batches; "
    "× BiLSTM: time over that of the same model with a BiLSTM for the SRN, both on given entities; "
    "p50 to p99: one sentence at a time; medians",
)


def measure(options: ExtractOptions) -> Result:
    """Measure every preset, or the one of the model that is given."""
    device = find_device(options.device)
    corpus = read_corpus(options.data, options.sentences)
    batching = Batching(options.batch_words, options.batch_sentences, options.precision)
    rows = [_measured(model, corpus, batching, options, device) for model in _models(options, corpus, device)]
    settings = {
        **plain_settings(options),
        "corpus": corpus.describe(),
        "heads": _heads(options),
        "entities": "given" if _is_given(options) else "predicted",
        "encoder": None if options.model else plain_settings(options)["encoder"] or FRESH,
    }
    return Result("extract", device.type, settings, environment(device, rows[0]["precision"]), rows, COLUMNS, NOTES)


def _is_given(options: ExtractOptions) -> bool:
    """Heads at random find nothing of use, so that entities have to be given."""
    return options.given_entities or (options.model is None and not options.train_steps)


def _heads(options: ExtractOptions) -> str:
    if options.model is not None:
        return "saved model"
    return f"trained for {options.train_steps} steps" if options.train_steps else "random"


def _models(options: ExtractOptions, corpus: Corpus, device: torch.device) -> Iterator[Model]:
    """One model at a time, so that no more than one is held."""
    if options.model is not None:
        model = Model.load(find_model(options.model))
        model.require_cascade("this benchmark")
        for number_, sentence in enumerate(corpus.sentences):
            model.schema.check(sentence, f"sentence {number_} of {corpus.name}")
        model.network.to(device)
        yield model
        return
    with encoder_name(options.encoder, corpus) as encoder:
        for preset in options.presets:
            model = new_model(encoder, corpus.schema, preset, device)
            if options.train_steps:
                train_briefly(model, corpus, options.train_steps, fresh=options.encoder is None)
            yield model


def _measured(
    model: Model, corpus: Corpus, batching: Batching, options: ExtractOptions, device: torch.device
) -> dict[str, Any]:
    extraction, candidates = _candidates(model, corpus.examples, batching, options)
    timings = side_by_side(
        {**candidates, "encoder": extraction.encoder_alone()},
        repeats=options.repeats,
        warmup=options.warmup,
        device=device,
    )
    memory = peak_memory(extraction, device)
    found = count(extraction())
    taken, fusion = timings["extraction"], model.settings.fusion
    srn = timings.get("srn", taken)
    return {
        "preset": fusion.preset or f"{fusion.entities} + {fusion.subject}",
        "sequence_encoder": model.settings.sequence_encoder,
        "precision": extraction.precision,
        "batches": len(extraction.groups),
        **taken.to_dict(),
        "sentences_per_s": extraction.n_sentences / taken.median,
        "words_per_s": extraction.n_words / taken.median,
        "encoder": {**timings["encoder"].to_dict(), "ratio": taken.median / timings["encoder"].median},
        "bilstm": {
            **timings["bilstm"].to_dict(),
            "srn_median_s": srn.median,
            "ratio": srn.median / timings["bilstm"].median,
        },
        "latency": _latency(extraction, corpus.examples[: options.latency_sentences], batching, device),
        "memory": memory.to_dict(),
        "found": {"entities": found.entities, "subjects": extraction.n_subjects(), "triples": found.triples},
    }


def _candidates(
    model: Model, examples: Sequence[Example], batching: Batching, options: ExtractOptions
) -> tuple[Extraction, dict[str, Extraction]]:
    """What is timed beside the encoder: the extraction itself, and SRN and BiLSTM on equal work.

    A BiLSTM in a trained model's place is untrained and would find nothing, so these two are given entities;
    where the extraction is as well, it is the SRN's measurement.
    """
    is_random = options.model is None and not options.train_steps
    n_gold = count([example.sentence for example in examples[:CALIBRATION]]).triples
    accepted = accepting(model, examples, n_triples=n_gold if is_random else None)
    srn = Extraction(model, examples, batching, thresholds=accepted, given_entities=True)
    twin = with_bilstm(model)
    accepted = accepting(twin, examples, n_triples=n_gold)
    bilstm = Extraction(twin, examples, batching, thresholds=accepted, given_entities=True)
    if _is_given(options):
        return srn, {"extraction": srn, "bilstm": bilstm}
    thresholds = model.settings.thresholds
    extraction = Extraction(model, examples, batching, thresholds=thresholds, given_entities=False)
    return extraction, {"extraction": extraction, "srn": srn, "bilstm": bilstm}


def _latency(
    extraction: Extraction, examples: Sequence[Example], batching: Batching, device: torch.device
) -> dict[str, Any]:
    """How long single sentences take, each once, after a few that do not count."""
    alone = [
        Extraction(
            extraction.model,
            [example],
            replace(batching, sentences=1),
            thresholds=extraction.thresholds,
            given_entities=extraction.given_entities,
        )
        for example in examples
    ]
    for one in alone[:3]:
        seconds(one, device)
    return {"sentences": len(alone), **Timing(tuple(seconds(one, device) for one in alone)).percentiles()}
