"""From filled tables to entities and triples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.baselines.table_filling import TableCollator, TableFilling
from cascade_srn.data.batch import to_device
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row
from cascade_srn.heads import Pairs, pairs_within
from cascade_srn.inference.cascade_search import (
    ScoredTriple,
    SearchResult,
    SearchSettings,
    relation_score,
    within_limits,
)
from cascade_srn.types import Span, Triple


@dataclass(frozen=True)
class TableSearch:
    """Fills the tables of sentences; a cell holds a label where its probability reaches the label's threshold.

    That is the published decoding with thresholds of one half. The threshold of entities is that of the entity table
    and the one of objects that of the relation table; there is no turn for subjects, and theirs is not used. A triple's
    score is that of its cell, and its subject's is 1.
    """

    network: TableFilling
    collator: TableCollator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """What is in the two tables, or, with entities that are given, in the relation table alone."""
        sentences = [example.sentence for example in examples]
        batch = self.collator.pieces.batch(rows, max_pieces=self.settings.pass_pieces)
        cells = pairs_within(batch.word_lengths)
        short = cells.last - cells.start < self.settings.limits.entity_words
        if not bool(short.all()):
            cells = Pairs(cells.row[short], cells.start[short], cells.last[short])
        batch = batch.to(self.settings.device)
        features = self.network.features(batch, half=self.settings.half, check=self.settings.check)
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
        else:
            cells = to_device(cells, self.settings.device)
            logits = self.network.entity_logits(features, batch.word_lengths, cells)
            found = _passing(logits, cells, self.settings.entity, self.settings.temperatures.entity)
            entities = entities_of_cells(found, self.collator.schema.entity_types, len(sentences))
        shown, limited = within_limits(entities, sentences, self.settings.limits)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        if self.network.relations is not None:
            cells = to_device(first_words_of(shown), self.settings.device)
            logits = self.network.relation_logits(features, batch.word_lengths, cells)
            found = _passing(logits, cells, self.settings.object, self.settings.temperatures.object)
            triples = triples_of_cells(found, self.collator.schema.relation_types, shown)
        return [
            SearchResult(sentence.annotated(spans, [scored.triple for scored in there]), there, number in limited)
            for number, (sentence, spans, there) in enumerate(zip(sentences, entities, triples, strict=True))
        ]


def _passing(
    logits: Tensor, cells: Pairs, threshold: Tensor, temperature: float
) -> list[tuple[tuple[int, int, int, int], float]]:
    """What is in the cells: row, first word, second word and label, and its probability."""
    score = (logits / temperature).sigmoid()
    cell, label = (score >= threshold).nonzero(as_tuple=True)
    columns = torch.stack((cells.row[cell], cells.start[cell], cells.last[cell], label), dim=1).tolist()
    return list(zip(map(tuple, columns), score[cell, label].tolist(), strict=True))


def entities_of_cells(
    found: Iterable[tuple[tuple[int, int, int, int], float]], names: Sequence[str], n_sentences: int
) -> list[list[Span]]:
    """Entities by sentence, from the labels in the cells of first and last words."""
    entities: list[list[Span]] = [[] for _ in range(n_sentences)]
    for (row, first, last, label), score in found:
        entities[row].append(Span(first, last + 1, names[label], score))
    return [sorted(spans) for spans in entities]


def first_words_of(entities: Sequence[Sequence[Span]]) -> Pairs:
    """The cells of the relation table that can become triples: those of words that entities begin with.

    The published decoding fills the whole table and leaves out the other cells afterwards, which gives the same.
    """
    cells = [
        (row, first, second)
        for row, spans in enumerate(entities)
        for starts in [sorted({span.start for span in spans})]
        for first in starts
        for second in starts
    ]
    return Pairs(*torch.tensor(cells, dtype=torch.long).view(-1, 3).unbind(1))


def triples_of_cells(
    found: Iterable[tuple[tuple[int, int, int, int], float]],
    names: Sequence[str],
    entities: Sequence[Sequence[Span]],
) -> list[list[ScoredTriple]]:
    """Triples by sentence, from the labels in the cells of first words: one for each.

    Where several entities begin with a word, it stands for the surest of them; the object is not the very entity
    that is the subject where there is another. Where there is none, an entity is related to itself.
    """
    triples: list[list[ScoredTriple]] = [[] for _ in entities]
    starting = [_by_start(spans) for spans in entities]
    for (row, first, second, label), score in found:
        head = surest(starting[row][first])
        tail = surest(starting[row][second], not_this=head)
        triple = Triple(head, names[label], tail, relation_score(head, tail, score))
        triples[row].append(ScoredTriple(triple, 1.0, score))
    return [sorted(there) for there in triples]


def surest(entities: Sequence[Span], not_this: Span | None = None) -> Span:
    """The entity with the highest score, one that was given counting as sure; not this one, where there is another.

    Of equals it is the first by words and label, however they were listed.
    """
    others = [entity for entity in entities if entity != not_this] or entities
    return min(others, key=lambda entity: (-1.0 if entity.score is None else -entity.score, entity))


def _by_start(spans: Iterable[Span]) -> Mapping[int, list[Span]]:
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(span.start, []).append(span)
    return found
