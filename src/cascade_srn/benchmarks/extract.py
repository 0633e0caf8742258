"""Extraction end to end: throughput, latency and memory, beside the bare encoder and beside a BiLSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cascade_srn.benchmarks.measuring import (
    Result,
    Timing,
    environment,
    measured_in_turns,
    milliseconds,
    number,
    peak_memory,
    plain_settings,
    seconds,
    text,
)
from cascade_srn.benchmarks.options import ExtractOptions
from cascade_srn.benchmarks.workload import (
    FRESH,
    Corpus,
    calibrated,
    count,
    encoder_name,
    new_model,
    read_corpus,
    train_briefly,
)
from cascade_srn.config import Thresholds
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.extractor import find_model
from cascade_srn.heads import Pairs, SpanLabels
from cascade_srn.inference.batching import by_word_budget
from cascade_srn.inference.decode import boundary_candidates
from cascade_srn.model.build import build_cascade
from cascade_srn.model.model import Model
from cascade_srn.runs.device import find_device
from cascade_srn.types import Sentence

# Sentences on which thresholds are chosen for heads that are at random.
CALIBRATION = 16


@dataclass(frozen=True)
class Batching:
    """How sentences go through the model: by words, or by a number of sentences (0: by words); longest first."""

    words: int = 4096
    sentences: int = 0
    precision: str = "auto"

    def groups(self, examples: Sequence[Example]) -> list[list[Example]]:
        """The examples, batch by batch."""
        lengths = [len(example.sentence) for example in examples]
        if not self.sentences:
            return [[examples[i] for i in group] for group in by_word_budget(lengths, self.words)]
        ordered = sorted(examples, key=lambda example: -len(example.sentence))
        return [ordered[at : at + self.sentences] for at in range(0, len(ordered), self.sentences)]

    def budget(self, examples: Sequence[Example]) -> int:
        """The words a predictor must allow so that a fixed number of sentences is always one batch."""
        longest = max(len(example.sentence) for example in examples)
        return max(self.words, self.sentences * longest)


class Extraction:
    """From words to triples with one model; calling it runs everything once.

    With ``given_entities`` turns 2 and 3 work on the sentences' own entities, all of them taken as subjects;
    turn 1 is computed as well, on features made ahead, and its result is left aside. So a model whose heads are
    at random does the work of a trained one.
    """

    def __init__(
        self,
        model: Model,
        examples: Sequence[Example],
        batching: Batching,
        *,
        thresholds: Thresholds,
        given_entities: bool,
    ) -> None:
        self.model = model
        self.given_entities = given_entities
        self.thresholds = thresholds
        self.n_words = sum(len(example.sentence) for example in examples)
        self.n_sentences = len(examples)
        self.groups = batching.groups(examples)
        self.predictor = model.predictor(
            thresholds=thresholds, batch_words=batching.budget(examples), precision=batching.precision
        )
        # By words, the predictor batches by itself, as it does for users.
        self._calls = self.groups if batching.sentences else [list(examples)]
        self._turn1_inputs = [self._features(group) for group in self.groups] if given_entities else []

    @property
    def precision(self) -> str:
        """The precision that the pretrained encoder computes in."""
        return "bf16" if self.predictor.half else "float32"

    def __call__(self) -> list[Sentence]:
        """Everything, once; the sentences come batch by batch."""
        for features, lengths, gold in self._turn1_inputs:
            self._turn1(features, lengths, gold)
        found = []
        for examples in self._calls:
            found += self.predictor.predict(examples, given_entities=self.given_entities)
        return found

    def n_subjects(self) -> int:
        """How many subjects pass turn 2: with no threshold for objects, each of them shows in a triple."""
        thresholds = replace(self.thresholds, object=0.0)
        predictor = self.model.predictor(
            thresholds=thresholds,
            batch_words=self.predictor.batch_words,
            precision=self.precision,
        )
        found = (predictor.predict(examples, given_entities=self.given_entities) for examples in self._calls)
        return sum(count(sentences).subjects for sentences in found)

    def encoder_alone(self) -> Callable[[], None]:
        """The pretrained encoder's forward pass over the same batches, their tensors ready on the device."""
        encoder, device = self.model.network.encoder.model, self.predictor.device
        batches = [self._rows(group) for group in self.groups]

        @torch.inference_mode()
        def run() -> None:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.predictor.half):
                for batch in batches:
                    encoder(input_ids=batch.piece_ids, attention_mask=batch.piece_mask.long())

        return run

    def _rows(self, examples: Sequence[Example]) -> RowBatch:
        collator = self.model.collator
        return collator.pieces.batch([collator.plain(e) for e in examples]).to(self.predictor.device)

    @torch.inference_mode()
    def _features(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor, SpanLabels]:
        rows = self._rows(examples)
        gold = self.model.cascade_collator.entity_labels([example.sentence.entities for example in examples])
        return self.model.cascade.features(rows), rows.word_lengths, gold.to(self.predictor.device)

    @torch.inference_mode()
    def _turn1(self, features: Tensor, lengths: Tensor, gold: SpanLabels) -> None:
        """Turn 1's heads and decoding; what the matcher looks at are as many pairs as there are gold entities."""
        *boundaries, match_logits = self.model.cascade.entity_boundaries(features)
        start, end = (logits.sigmoid() for logits in boundaries)
        boundary_candidates(start, end, lengths, self.thresholds.entity)
        match = match_logits(Pairs(gold.row, gold.start, gold.last)).sigmoid()
        match.gather(1, gold.label[:, None]).tolist()


def accepting(model: Model, examples: Sequence[Example], *, n_triples: int | None = None) -> Thresholds:
    """Thresholds with which every given entity is a subject, and about ``n_triples`` triples are found.

    ``n_triples`` is for :data:`CALIBRATION` examples; None keeps the model's own threshold for objects.
    """
    thresholds = replace(model.settings.thresholds, subject=0.0)
    if n_triples is None or model.network.relations is None:
        return thresholds
    sample = examples[:CALIBRATION]
    return calibrated(model, sample, thresholds, "object", target=n_triples, given_entities=True)


def with_bilstm(model: Model) -> Model:
    """The same model with a BiLSTM in place of the SRN: same encoder, all above it at random."""
    settings = replace(model.settings, sequence_encoder="bilstm")
    device = next(model.network.parameters()).device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        cascade = build_cascade(settings, model.schema, model.cascade.encoder)
    return replace(model, settings=settings, network=cascade.to(device).eval())


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
    timings = measured_in_turns(
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
