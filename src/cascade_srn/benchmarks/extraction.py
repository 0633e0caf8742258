"""Extraction as something to time: all three turns, over sentences that are batched in a known way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cascade_srn.benchmarks.workload import calibrated, count
from cascade_srn.build import build_cascade
from cascade_srn.config import Thresholds
from cascade_srn.data.batching import by_word_budget
from cascade_srn.data.examples import Example
from cascade_srn.decode import boundary_candidates
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.heads import Pairs, SpanLabels
from cascade_srn.model import Model
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
        head = self.model.cascade.entity_head
        words = self.model.cascade.entity_inputs(features)
        start, end = (logits.sigmoid() for logits in head.boundaries(words))
        boundary_candidates(start, end, lengths, self.thresholds.entity)
        match = head.match(words, Pairs(gold.row, gold.start, gold.last)).sigmoid()
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
