"""The pipeline in use: entities from spans, then a relation or none for each pair of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.baselines.pipeline import N_MARKERS, NONE, Pipeline, PipelineCollator, ordered_pairs, spans_within
from cascade_srn.data.batch import to_device
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row
from cascade_srn.inference.batching import by_word_budget
from cascade_srn.inference.cascade_search import (
    ScoredTriple,
    SearchResult,
    SearchSettings,
    relation_score,
    within_limits,
)
from cascade_srn.types import Span, Triple


@dataclass(frozen=True)
class PipelineSearch:
    """Runs the two models one after the other.

    A span or a pair gets its likeliest label where that one is likelier than none at all: its score is
    p(label) / (p(label) + p(none)), which is at least one half exactly there, as published, and which thresholds and
    temperatures then apply to. The threshold of entities is that of spans and the one of objects that of pairs; there
    is no turn for subjects, and theirs is not used. A triple's score is that of its pair, and its subject's is 1.
    """

    network: Pipeline
    collator: PipelineCollator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """What the two models find, or, with entities that are given, the relation model alone."""
        sentences = [example.sentence for example in examples]
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
        else:
            entities = self._entities(rows)
        shown, limited = within_limits(entities, sentences, self.settings.limits)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        # Where no label can be accepted, there is no need to read the pairs.
        if self.network.relations is not None and bool((self.settings.object < 1).any()):
            for sentence, scored in self._relations(rows, shown):
                triples[sentence].append(scored)
        return [
            SearchResult(
                sentence.annotated(spans, [scored.triple for scored in sorted(there)]), sorted(there), number in limited
            )
            for number, (sentence, spans, there) in enumerate(zip(sentences, entities, triples, strict=True))
        ]

    def _entities(self, rows: Sequence[Row]) -> list[list[Span]]:
        batch = self.collator.pieces.batch(rows, max_pieces=self.settings.pass_pieces)
        spans = to_device(spans_within(batch.word_lengths, self.collator.max_words), self.settings.device)
        logits = self.network.span_logits(
            batch.to(self.settings.device),
            spans,
            half=self.settings.half,
            check=self.settings.check,
        )
        at, label, score = accepted(logits, self.settings.entity, self.settings.temperatures.entity)
        names = self.collator.schema.entity_types
        entities: list[list[Span]] = [[] for _ in rows]
        columns = torch.stack((spans.row[at], spans.start[at], spans.last[at], label), dim=1).tolist()
        for (row, first, last, number), sure in zip(columns, score.tolist(), strict=True):
            entities[row].append(Span(first, last + 1, names[number], sure))
        return [sorted(found) for found in entities]

    def _relations(self, rows: Sequence[Row], entities: Sequence[Sequence[Span]]) -> Iterator[tuple[int, ScoredTriple]]:
        """The triples of a batch, each with its sentence; as many pairs at a time as the word budget holds."""
        pairs = [(i, *pair) for i, spans in enumerate(entities) for pair in ordered_pairs(spans)]
        threshold, temperature = self.settings.object, self.settings.temperatures.object
        names = self.collator.schema.relation_types
        costs = [self.collator.pieces.cost(row) for row in rows]
        for group in by_word_budget([costs[i] + N_MARKERS for i, _, _ in pairs], self.settings.batch_words):
            self.settings.check()
            members = [pairs[k] for k in group]
            marked = [self.collator.with_pair(rows[i], subject, object_) for i, subject, object_ in members]
            batch = self.collator.pieces.batch([row for row, _ in marked]).to(self.settings.device)
            openings = torch.tensor([at for _, at in marked], device=self.settings.device)
            logits = self.network.pair_logits(batch, openings, half=self.settings.half)
            found = (column.tolist() for column in accepted(logits, threshold, temperature))
            for at, label, score in zip(*found, strict=True):
                sentence, subject, object_ = members[at]
                triple = Triple(subject, names[label], object_, relation_score(subject, object_, score))
                yield sentence, ScoredTriple(triple, 1.0, score)


def accepted(logits: Tensor, threshold: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """What has a label: its place, the label's number (NONE not counted) and its score.

    A threshold of 1 is reached by nothing, not even by a score that is rounded to it.

    Shapes:
        logits: (n, 1 + n_labels), NONE first; threshold: (n_labels,)
        returns: (n_accepted,) each
    """
    best, label = logits[:, NONE + 1 :].float().max(dim=1)
    score = ((best - logits[:, NONE].float()) / temperature).sigmoid()
    wanted = threshold[label]
    at = ((score >= wanted) & (wanted < 1)).nonzero()[:, 0]
    return at, label[at], score[at]
