"""Prediction with the pipeline: entities from spans, then relations from pairs of entities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.encoder.pieces import Row
from cascade_srn.inference.batching import group_by_words
from cascade_srn.inference.cascade_search import SearchSettings
from cascade_srn.inference.decode import ScoredTriple, SearchResult, limit_entities, relation_score
from cascade_srn.inference.torch_turns import send
from cascade_srn.lab.baselines.pipeline import N_MARKERS, NONE, Pipeline, PipelineCollator, ordered_pairs
from cascade_srn.network.batch import to_device
from cascade_srn.network.examples import Example
from cascade_srn.network.span_extraction import pairs_within
from cascade_srn.types import Span, Triple


@dataclass(frozen=True)
class PipelineSearch:
    """Runs the entity model and then the relation model.

    Only the most probable label of a span or pair is considered. Its score is p(label) / (p(label) + p(none)), to which
    temperature and threshold apply. With a threshold of 0.5 this is the published decoding. Spans have the threshold of
    entities and pairs that of objects. The threshold of subjects is not used, and the subject score of a triple is 1.
    """

    network: Pipeline
    collator: PipelineCollator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Find entities and relations, or with ``given_entities`` only the relations between the given entities."""
        sentences = [example.sentence for example in examples]
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
        else:
            entities = self._find_entities(rows)
        kept, limited = limit_entities(entities, sentences, self.settings.limits)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        # Thresholds of 1 accept no label, so that the pairs need not be read.
        if self.network.relations is not None and bool((self.settings.object < 1).any()):
            for sentence, scored in self._find_relations(rows, kept):
                triples[sentence].append(scored)
        return [
            SearchResult(
                sentence.annotated(spans, [scored.triple for scored in sorted(own)]), sorted(own), number in limited
            )
            for number, (sentence, spans, own) in enumerate(zip(sentences, entities, triples, strict=True))
        ]

    def _find_entities(self, rows: Sequence[Row]) -> list[list[Span]]:
        batch = self.collator.pieces.batch(rows, max_pieces=self.settings.pass_pieces)
        spans = to_device(pairs_within(batch.word_lengths, self.collator.max_words), self.settings.device)
        logits = self.network.span_logits(
            batch.to(self.settings.device), spans, bf16=self.settings.bf16, check=self.settings.check
        )
        temperature, offset = self.settings.temperatures.entity, send(self.settings.entity_offset, self.settings.device)
        threshold = send(self.settings.entity, self.settings.device)
        index, labels, scores = accept_labels(logits, threshold, temperature, offset)
        names = self.collator.schema.entity_types
        entities: list[list[Span]] = [[] for _ in rows]
        columns = torch.stack((spans.row[index], spans.start[index], spans.last[index], labels), dim=1).tolist()
        for (row, first, last, label), score in zip(columns, scores.tolist(), strict=True):
            entities[row].append(Span(first, last + 1, names[label], score))
        return [sorted(found) for found in entities]

    def _find_relations(
        self, rows: Sequence[Row], entities: Sequence[Sequence[Span]]
    ) -> Iterator[tuple[int, ScoredTriple]]:
        """Yield the triples of a batch with the index of their sentence. The word budget limits the pairs per batch."""
        pairs = [(i, *pair) for i, spans in enumerate(entities) for pair in ordered_pairs(spans)]
        threshold, temperature = send(self.settings.object, self.settings.device), self.settings.temperatures.object
        names = self.collator.schema.relation_types
        costs = [self.collator.pieces.cost(row) for row in rows]
        for group in group_by_words([costs[i] + N_MARKERS for i, _, _ in pairs], self.settings.batch_words):
            self.settings.check()
            members = [pairs[k] for k in group]
            marked, openings = self.collator.with_pairs(rows, members)
            batch = self.collator.pieces.batch(marked).to(self.settings.device)
            items = torch.tensor(openings, device=self.settings.device)
            logits = self.network.pair_logits(batch, items, bf16=self.settings.bf16)
            accepted = (column.tolist() for column in accept_labels(logits, threshold, temperature))
            for index, label, score in zip(*accepted, strict=True):
                sentence, subject, object_ = members[index]
                triple = Triple(subject, names[label], object_, relation_score(subject, object_, score))
                yield sentence, ScoredTriple(triple, 1.0, score)


def accept_labels(
    logits: Tensor, threshold: Tensor, temperature: float, offset: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the index, label (NONE not counted) and score of each row whose best label reaches its threshold.

    A threshold of 1 accepts nothing, not even a score that is rounded to 1.

    Shapes:
        logits: (n, 1 + n_labels), NONE first; threshold, offset: (n_labels,)
        returns: (n_accepted,) each
    """
    best, label = logits[:, NONE + 1 :].float().max(dim=1)
    calibrated = (best - logits[:, NONE].float()) / temperature
    score = (calibrated if offset is None else calibrated + offset[label]).sigmoid()
    min_score = threshold[label]
    index = ((score >= min_score) & (min_score < 1)).nonzero()[:, 0]
    return index, label[index], score[index]
