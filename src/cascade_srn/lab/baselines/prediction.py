"""Prediction with the baselines: from the cells of tables, or from spans and then from pairs of entities."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.encoder.pieces import Row
from cascade_srn.inference.batching import group_by_words
from cascade_srn.inference.cascade_search import SearchSettings
from cascade_srn.inference.decode import ScoredTriple, SearchResult, limit_entities, relation_score
from cascade_srn.inference.torch_turns import send
from cascade_srn.lab.baselines.pipeline import N_MARKERS, NONE, Pipeline, PipelineCollator, ordered_pairs
from cascade_srn.lab.baselines.table_filling import TableCollator, TableFilling
from cascade_srn.network.batch import to_device
from cascade_srn.network.examples import Example
from cascade_srn.network.span_extraction import Pairs, pairs_within
from cascade_srn.types import Span, Triple


@dataclass(frozen=True)
class TableSearch:
    """Fills the tables of sentences. A cell has a label if its probability reaches the threshold of the label.

    With thresholds of 0.5 this is the published decoding. The entity table has the threshold of entities, the relation
    table that of objects. The threshold of subjects is not used, and the subject score of a triple is 1.
    """

    network: TableFilling
    collator: TableCollator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Find entities and relations, or with ``given_entities`` only the relations between the given entities."""
        sentences = [example.sentence for example in examples]
        batch = self.collator.pieces.batch(rows, max_pieces=self.settings.pass_pieces)
        cells = pairs_within(batch.word_lengths, self.settings.limits.entity_words)
        batch = batch.to(self.settings.device)
        features = self.network.features(batch, bf16=self.settings.bf16, check=self.settings.check)
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
        else:
            cells = to_device(cells, self.settings.device)
            logits = self.network.entity_logits(features, batch.word_lengths, cells)
            calibrated = logits / self.settings.temperatures.entity + send(
                self.settings.entity_offset, self.settings.device
            )
            found = _accept_cells(calibrated, cells, send(self.settings.entity, self.settings.device))
            entities = decode_entities(found, self.collator.schema.entity_types, len(sentences))
        kept, limited = limit_entities(entities, sentences, self.settings.limits)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        if self.network.relations is not None:
            cells = to_device(relation_candidates(kept), self.settings.device)
            logits = self.network.relation_logits(features, batch.word_lengths, cells)
            threshold = send(self.settings.object, self.settings.device)
            found = _accept_cells(logits / self.settings.temperatures.object, cells, threshold)
            triples = decode_triples(found, self.collator.schema.relation_types, kept)
        return [
            SearchResult(sentence.annotated(spans, [scored.triple for scored in own]), own, number in limited)
            for number, (sentence, spans, own) in enumerate(zip(sentences, entities, triples, strict=True))
        ]


# Row, first word, second word and label of a cell, and its probability.
ScoredCell = tuple[tuple[int, int, int, int], float]


def _accept_cells(logits: Tensor, cells: Pairs, threshold: Tensor) -> list[ScoredCell]:
    """Return the labels of cells that reach their thresholds."""
    score = logits.sigmoid()
    cell, label = (score >= threshold).nonzero(as_tuple=True)
    return _scored_cells(cells, cell, label, score[cell, label])


def _scored_cells(cells: Pairs, index: Tensor, labels: Tensor, scores: Tensor) -> list[ScoredCell]:
    """Return cells with a label and a score each. Shapes: index, labels, scores (n,)."""
    columns = torch.stack((cells.row[index], cells.start[index], cells.last[index], labels), dim=1).tolist()
    return list(zip(map(tuple, columns), scores.tolist(), strict=True))


def decode_entities(found: Iterable[ScoredCell], names: Sequence[str], n_sentences: int) -> list[list[Span]]:
    """Return the entities of each sentence from the cells of first and last words."""
    entities: list[list[Span]] = [[] for _ in range(n_sentences)]
    for (row, first, last, label), score in found:
        entities[row].append(Span(first, last + 1, names[label], score))
    return [sorted(spans) for spans in entities]


def relation_candidates(entities: Sequence[Sequence[Span]]) -> Pairs:
    """Return the cells of the relation table that can become triples: all pairs of first words of entities.

    The published decoding fills the whole table and drops the other cells afterwards, with the same result.
    """
    cells = [
        (row, first, second)
        for row, spans in enumerate(entities)
        for starts in [sorted({span.start for span in spans})]
        for first in starts
        for second in starts
    ]
    return Pairs(*torch.tensor(cells, dtype=torch.long).view(-1, 3).unbind(1))


def decode_triples(
    found: Iterable[ScoredCell], names: Sequence[str], entities: Sequence[Sequence[Span]]
) -> list[list[ScoredTriple]]:
    """Return the triples of each sentence, one for each label of a cell of first words.

    If several entities start with a word, the one with the highest score is chosen. The object differs from the subject
    if there is another entity to choose.
    """
    triples: list[list[ScoredTriple]] = [[] for _ in entities]
    by_start = [_group_by_start(spans) for spans in entities]
    for (row, first, second, label), score in found:
        head = most_confident(by_start[row][first])
        tail = most_confident(by_start[row][second], not_this=head)
        triple = Triple(head, names[label], tail, relation_score(head, tail, score))
        triples[row].append(ScoredTriple(triple, 1.0, score))
    return [sorted(own) for own in triples]


def most_confident(entities: Sequence[Span], not_this: Span | None = None) -> Span:
    """Return the entity with the highest score, the first by words and label among equals.

    A given entity has no score and counts as certain. ``not_this`` is chosen only if there is no other.
    """
    others = [entity for entity in entities if entity != not_this] or entities
    return min(others, key=lambda entity: (-1.0 if entity.score is None else -entity.score, entity))


def _group_by_start(spans: Iterable[Span]) -> Mapping[int, list[Span]]:
    groups: dict[int, list[Span]] = {}
    for span in spans:
        groups.setdefault(span.start, []).append(span)
    return groups


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
        return decode_entities(_scored_cells(spans, index, labels, scores), names, len(rows))

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
