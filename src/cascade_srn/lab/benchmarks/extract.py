"""Measure throughput, latency and memory of extraction, compared with the bare encoder and with a BiLSTM."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cascade_srn.config import Thresholds
from cascade_srn.encoder.cuda_graphs.pool import MIN_OCCURRENCES
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.extractor import find_model
from cascade_srn.inference.decode import find_candidates
from cascade_srn.inference.predictor import Predictor
from cascade_srn.lab.benchmarks.measuring import (
    BenchmarkRun,
    Result,
    ResultRow,
    Timing,
    latencies,
    measure_in_turns,
    number,
    peak,
    peak_memory,
    seconds,
    text,
)
from cascade_srn.lab.benchmarks.options import ExtractOptions, GrowthOptions
from cascade_srn.lab.benchmarks.workload import (
    BenchmarkCorpus,
    calibrate_threshold,
    count,
    describe_encoder,
    encoder_name,
    new_model,
    read_corpus,
    train_briefly,
)
from cascade_srn.model.build import build_cascade
from cascade_srn.model.model import Model
from cascade_srn.network.batch import to_device
from cascade_srn.network.examples import Example
from cascade_srn.network.loss import SpanLabels
from cascade_srn.network.span_extraction import Pairs
from cascade_srn.runs.device import find_device
from cascade_srn.types import Sentence

# Number of sentences on which thresholds for random heads are chosen.
CALIBRATION = 16


def group_examples(
    options: ExtractOptions | GrowthOptions, examples: Sequence[Example], predictor: Predictor
) -> list[list[Example]]:
    """Return batches of ``batch_words`` words, or of ``batch_sentences`` sentences if it is not 0, longest first."""
    if not options.batch_sentences:
        return [[examples[i] for i in group] for group, _ in predictor.batches(examples)]
    ordered = sorted(examples, key=lambda example: -len(example.sentence))
    return [ordered[at : at + options.batch_sentences] for at in range(0, len(ordered), options.batch_sentences)]


class Extraction:
    """Extraction with one model. A call runs it once over all examples.

    With ``given_entities`` turns 2 and 3 use the gold entities, all of them as subjects. Turn 1 is computed on features
    that were made before, and its result is discarded. A model with random heads then does the work of a trained one.
    """

    def __init__(
        self,
        model: Model,
        examples: Sequence[Example],
        options: ExtractOptions | GrowthOptions,
        *,
        thresholds: Thresholds,
        given_entities: bool,
        cuda_graphs: bool = True,
    ) -> None:
        self.model = model
        self.given_entities = given_entities
        self.thresholds = thresholds
        self.n_words = sum(len(example.sentence) for example in examples)
        self.n_sentences = len(examples)
        # A number of sentences always fits into one batch of the predictor.
        longest = max(len(example.sentence) for example in examples)
        words = max(options.batch_words, options.batch_sentences * longest)
        self.predictor = model.predictor(
            thresholds=thresholds, batch_words=words, precision=options.precision, cuda_graphs=cuda_graphs
        )
        self.groups = group_examples(options, examples, self.predictor)
        # The predictor makes batches by words itself.
        self._calls = self.groups if options.batch_sentences else [list(examples)]
        self._turn1_inputs = [self._features(group) for group in self.groups] if given_entities else []

    @property
    def precision(self) -> str:
        """Precision of the pretrained encoder."""
        return "bf16" if self.predictor.bf16 else "float32"

    def __call__(self) -> list[Sentence]:
        """Run the extraction and return the sentences, batch by batch."""
        for features, lengths, gold in self._turn1_inputs:
            self._turn1(features, lengths, gold)
        found = []
        for examples in self._calls:
            found += self.predictor.predict(examples, given_entities=self.given_entities)
        return found

    def n_subjects(self) -> int:
        """Return the number of subjects that pass turn 2. Without a threshold for objects, each is part of a triple."""
        thresholds = replace(self.thresholds, object=0.0)
        predictor = self.model.predictor(
            thresholds=thresholds, overlaps="all", batch_words=self.predictor.batch_words, precision=self.precision
        )
        found = (predictor.predict(examples, given_entities=self.given_entities) for examples in self._calls)
        return sum(count(sentences).subjects for sentences in found)

    def encoder_alone(self) -> Callable[[], None]:
        """Return a function that runs only the pretrained encoder on the same batches, which are on the device."""
        encoder, device = self.model.network.encoder.model, self.predictor.device
        batches = [self._rows(group) for group in self.groups]

        @torch.inference_mode()
        def run() -> None:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.predictor.bf16):
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
        return self.model.cascade.features(rows), rows.word_lengths, to_device(gold, self.predictor.device)

    @torch.inference_mode()
    def _turn1(self, features: Tensor, lengths: Tensor, gold: SpanLabels) -> None:
        """Turn 1's heads and decoding; what the matcher looks at are as many pairs as there are gold entities."""
        *boundaries, match_logits = self.model.cascade.entity_boundaries(features)
        start, end = (logits.sigmoid() for logits in boundaries)
        on_host = (start.cpu().numpy(), end.cpu().numpy(), lengths.cpu().numpy())
        find_candidates(on_host[0], on_host[1], on_host[2], self.thresholds.entity)
        match = match_logits(Pairs(gold.row, gold.start, gold.last)).sigmoid()
        match.gather(1, gold.label[:, None]).tolist()


def accepting_thresholds(model: Model, examples: Sequence[Example], *, n_triples: int | None = None) -> Thresholds:
    """Return thresholds with which every given entity is a subject and about ``n_triples`` triples are found.

    The first ``CALIBRATION`` examples are used. None keeps the object threshold of the model.
    """
    thresholds = replace(model.settings.thresholds, subject=0.0)
    if n_triples is None or model.network.relations is None:
        return thresholds
    sample = examples[:CALIBRATION]
    return calibrate_threshold(model, sample, thresholds, "object", target=n_triples, given_entities=True)


def with_bilstm(model: Model) -> Model:
    """Return a copy of the model with a BiLSTM in place of the SRN. All weights above the encoder are random."""
    settings = replace(model.settings, sequence_encoder="bilstm")
    device = next(model.network.parameters()).device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        cascade = build_cascade(settings, model.schema, model.cascade.encoder)
    return replace(model, settings=settings, network=cascade.to(device).eval())


FOUND = ("entities", "subjects", "triples")


def _found(name: str, row: ResultRow) -> int | None:
    return None if row["found"] is None else row["found"][name]


COLUMNS = (
    text("preset", "preset"),
    number("sentences/s", "sentences_per_s"),
    number("words/s", "words_per_s"),
    number("× encoder", lambda row: row["encoder"]["ratio"], "{:.2f}"),
    number("× encoder without graphs", lambda row: (row.get("without_graphs") or {}).get("ratio"), "{:.2f}"),
    number("× BiLSTM", lambda row: row["bilstm"]["ratio"], "{:.2f}"),
    *latencies("p50", "p95", "p99"),
    *latencies(
        "p50", "p95", suffix=" without graphs", of=lambda row: row["latency"] and row["latency"]["without_graphs"]
    ),
    peak(),
    *(number(name, partial(_found, name)) for name in FOUND),
)
NOTES = (
    "× encoder: ratio to the time of the bare encoder on the same batches, on a GPU also without graphs, in turns; "
    "× BiLSTM: ratio to the time of the same model with a BiLSTM in place of the SRN, both with given entities; "
    "p50 to p99: one sentence at a time, on a GPU by CUDA graphs and, in turns, without them; medians",
)


def measure(options: ExtractOptions, run: BenchmarkRun) -> Result:
    """Measure every preset, or the given model."""
    device = find_device(options.device)
    corpus = read_corpus(options.data, options.sentences)
    with run.collecting():
        for model in _models(options, corpus, device, run):
            run.rows.append(_measure_row(model, corpus, options, device, run))
    return run.result(
        "extract",
        device,
        options,
        COLUMNS,
        NOTES,
        precision=run.rows[0]["precision"],
        corpus=corpus.describe(),
        heads=_heads(options),
        entities="given" if _is_given(options) else "predicted",
        encoder=describe_encoder(options),
    )


def _is_given(options: ExtractOptions) -> bool:
    """Return whether entities are given. Random heads do not predict useful entities."""
    return options.given_entities or (options.model is None and not options.train_steps)


def _heads(options: ExtractOptions) -> str:
    if options.model is not None:
        return "saved model"
    return f"trained for {options.train_steps} steps" if options.train_steps else "random"


def _models(
    options: ExtractOptions, corpus: BenchmarkCorpus, device: torch.device, run: BenchmarkRun
) -> Iterator[Model]:
    """Yield one model at a time, so that only one is in memory."""
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
                run.step(f"{preset}, training for {options.train_steps} steps")
                train_briefly(model, corpus, options.train_steps, fresh=options.encoder is None)
            yield model


def _measure_row(
    model: Model,
    corpus: BenchmarkCorpus,
    options: ExtractOptions,
    device: torch.device,
    run: BenchmarkRun,
) -> dict[str, Any]:
    fusion = model.settings.fusion
    preset = fusion.preset or f"{fusion.entities} + {fusion.subject}"
    run.step(f"{preset}, thresholds")
    extraction, candidates = _candidates(model, corpus.examples, options)
    timings = measure_in_turns(
        {**candidates, "encoder": extraction.encoder_alone()},
        repeats=options.repeats,
        # A graph is captured when its shape has occurred several times.
        warmup=max(options.warmup, MIN_OCCURRENCES + 1) if device.type == "cuda" else options.warmup,
        device=device,
        run=run,
        what=preset,
    )
    memory = run.part(f"{preset}, memory", lambda: peak_memory(extraction, device).to_dict())
    found = run.part(f"{preset}, numbers found", lambda: _count_found(extraction))
    alone = corpus.examples[: options.latency_sentences]
    latency = run.part(f"{preset}, latency", lambda: _latency(extraction, alone, options, device))
    taken = timings["extraction"]
    srn = timings.get("srn", taken)
    return {
        "preset": preset,
        "sequence_encoder": model.settings.sequence_encoder,
        "precision": extraction.precision,
        "batches": len(extraction.groups),
        **taken.to_dict(),
        "sentences_per_s": extraction.n_sentences / taken.median,
        "words_per_s": extraction.n_words / taken.median,
        "encoder": {**timings["encoder"].to_dict(), "ratio": taken.median / timings["encoder"].median},
        "without_graphs": _ratio(timings.get("without graphs"), timings["encoder"]),
        "bilstm": {
            **timings["bilstm"].to_dict(),
            "srn_median_s": srn.median,
            "ratio": srn.median / timings["bilstm"].median,
        },
        "latency": latency,
        "memory": memory,
        "found": found,
    }


def _ratio(taken: Timing | None, encoder: Timing) -> dict[str, Any] | None:
    return None if taken is None else {**taken.to_dict(), "ratio": taken.median / encoder.median}


def _count_found(extraction: Extraction) -> dict[str, int]:
    found = count(extraction())
    return {"entities": found.entities, "subjects": extraction.n_subjects(), "triples": found.triples}


def _candidates(
    model: Model, examples: Sequence[Example], options: ExtractOptions
) -> tuple[Extraction, dict[str, Extraction]]:
    """Return the extractions to time: the extraction itself, and SRN and BiLSTM on equal work.

    An untrained BiLSTM would find nothing, so SRN and BiLSTM are compared with given entities. If the extraction uses
    given entities too, it is the measurement of the SRN.
    """
    is_random = options.model is None and not options.train_steps
    n_gold = count([example.sentence for example in examples[:CALIBRATION]]).triples
    accepted = accepting_thresholds(model, examples, n_triples=n_gold if is_random else None)
    srn = Extraction(model, examples, options, thresholds=accepted, given_entities=True)
    twin = with_bilstm(model)
    accepted = accepting_thresholds(twin, examples, n_triples=n_gold)
    bilstm = Extraction(twin, examples, options, thresholds=accepted, given_entities=True)
    given = _is_given(options)
    thresholds = srn.thresholds if given else model.settings.thresholds

    def extraction(cuda_graphs: bool) -> Extraction:
        settings: dict[str, Any] = {"thresholds": thresholds, "given_entities": given, "cuda_graphs": cuda_graphs}
        return Extraction(model, examples, options, **settings)

    usual = srn if given else extraction(True)
    timed = {"extraction": usual} if given else {"extraction": usual, "srn": srn}
    if model.device.type == "cuda":
        timed["without graphs"] = extraction(False)
    return usual, {**timed, "bilstm": bilstm}


def _latency(
    extraction: Extraction, examples: Sequence[Example], options: ExtractOptions, device: torch.device
) -> dict[str, Any]:
    """Measure single sentences, after a warm-up. On a GPU, each is measured with CUDA graphs and without, in turns."""
    is_gpu = device.type == "cuda"
    found: dict[bool, list[float]] = {True: [], False: []} if is_gpu else {True: []}
    alone = [
        {
            cuda_graphs: Extraction(
                extraction.model,
                [example],
                replace(options, batch_sentences=1),
                thresholds=extraction.thresholds,
                given_entities=extraction.given_entities,
                cuda_graphs=cuda_graphs,
            )
            for cuda_graphs in found
        }
        for example in examples
    ]
    for one in alone[:3]:
        for function in one.values():
            seconds(function, device)
    # A graph is captured when sentences of its length have occurred several times.
    for _ in range(MIN_OCCURRENCES + 1 if is_gpu else 0):
        for one in alone:
            one[True]()
    for one in alone:
        for cuda_graphs, function in one.items():
            found[cuda_graphs].append(seconds(function, device))
    percentiles = {cuda_graphs: Timing(tuple(times)).percentiles() for cuda_graphs, times in found.items()}
    return {"sentences": len(alone), **percentiles[True], "without_graphs": percentiles.get(False)}
