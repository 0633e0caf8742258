"""Sentences as tables: which cells there are, and which of them are filled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from cascade_srn.baselines.refusals import refuse_what_the_cascade_learns_from
from cascade_srn.data.batch_settings import ALL_THERE_IS, BatchSettings
from cascade_srn.data.examples import Example
from cascade_srn.data.moving import moved
from cascade_srn.encoder.pieces import Row, RowBatch, WordPieces
from cascade_srn.heads import Pairs, pairs_within
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence

Cell = tuple[int, int, int]


@dataclass(frozen=True)
class TableBatch:
    """Sentences with gold annotation, ready for the loss.

    Shapes:
        spans: the cells of the entity tables, first and last word, n (n + 1) / 2 of a sentence of n words
        entities: distinct flat positions in (n_spans × n_entity_types), the filled ones
        first_words: the cells of the relation tables, first words of subject and object, n² of a sentence
        relations: distinct flat positions in (n_first_words × n_relation_types), the filled ones
    """

    rows: RowBatch
    spans: Pairs
    entities: Tensor
    first_words: Pairs
    relations: Tensor
    n_sentences: int

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""
        return moved(self, device)


class TableCollator:
    """Makes rows and batches for a model that fills tables."""

    def __init__(self, pieces: WordPieces, schema: Schema, method: str) -> None:
        self.pieces = pieces
        self.schema = schema
        self.method = method

    def plain(self, example: Example) -> Row:
        """The one row of a sentence: nothing is ever inserted into it."""
        return self.pieces.row(example.sentence.words, example.left, example.right)

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = ALL_THERE_IS,
        chance: random.Random | None = None,
    ) -> TableBatch:
        """Gold sentences as a batch for the loss.

        Both tables are filled from the sentence alone, so that there are no entities to be told of, and none to be
        mistaken about: ``settings.corruption`` has nothing to do. All cells are learned.
        """
        refuse_what_the_cascade_learns_from(self.method, examples, settings)
        chance = random.Random() if chance is None else chance
        plain = [self.pieces.masked(self.plain(example), settings.masking, chance) for example in examples]
        rows = self.pieces.batch(plain, settings.division)
        sentences = [example.sentence for example in examples]
        lengths = rows.word_lengths
        return TableBatch(
            rows=rows,
            spans=pairs_within(lengths),
            entities=self._filled([entity_cells(s, self.schema) for s in sentences], lengths, triangle=True),
            first_words=pairs_of_words(lengths),
            relations=self._filled([relation_cells(s, self.schema) for s in sentences], lengths, triangle=False),
            n_sentences=len(sentences),
        )

    def _filled(self, cells: Sequence[set[Cell]], lengths: Tensor, *, triangle: bool) -> Tensor:
        """Cells of each sentence as flat positions among those of the batch, in rising order."""
        n_labels = len(self.schema.entity_types if triangle else self.schema.relation_types)
        positions, before = [], 0
        for length, filled in zip(lengths.tolist(), cells, strict=True):
            for first, second, label in filled:
                # Row by row of the table; of a triangle, rows begin at their own number.
                skipped = first * (first + 1) // 2 if triangle else 0
                positions.append((before + first * length + second - skipped) * n_labels + label)
            before += length * (length + 1) // 2 if triangle else length * length
        return torch.tensor(sorted(positions), dtype=torch.long)


def entity_cells(sentence: Sentence, schema: Schema) -> set[Cell]:
    """The filled cells of a sentence's entity table: first word, last word, number of the type."""
    return {(e.start, e.end - 1, schema.entity_types.index(e.label)) for e in sentence.entities}


def relation_cells(sentence: Sentence, schema: Schema) -> set[Cell]:
    """The filled cells of a sentence's relation table: first words of subject and object, number of the type.

    Where entities begin with the same word, their relations share a cell, and one of a kind is left.
    """
    return {(t.head.start, t.tail.start, schema.relation_types.index(t.label)) for t in sentence.triples}


def pairs_of_words(lengths: Tensor) -> Pairs:
    """All pairs of words of the same row, a word with itself among them: by row, then first, then second word.

    Shapes:
        lengths: (n_rows,)
    """
    row = torch.repeat_interleave(torch.arange(len(lengths)), lengths * lengths)
    n_cells = lengths * lengths
    place = torch.arange(len(row)) - (n_cells.cumsum(0) - n_cells)[row]
    return Pairs(row, place // lengths[row], place % lengths[row])
