"""Two tables filled over one encoder: entities by their first and last words, relations by two first words.

This is how PFN extracts (Yan et al., EMNLP 2021): every pair of words is a cell, every label a yes or no in it. The
method ``pfn`` fills the tables over PFN's own encoder, ``table-srn`` over the two-task SRN (paper, appendix "Analysis
of Encoder").
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from cascade_srn.baselines.limits import refuse_what_the_cascade_learns_from
from cascade_srn.cascade import CascadeLoss
from cascade_srn.config import TurnWeights
from cascade_srn.data.batch import DEFAULT_BATCH_SETTINGS, BatchSettings, to_device
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row, RowBatch, WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.encoder.sequence import SequenceEncoder, padding_mask
from cascade_srn.encoder.srn import SelectionRecurrentNetwork
from cascade_srn.heads import Pairs, pairs_within
from cascade_srn.heads.loss import cross_entropy
from cascade_srn.heads.span_extraction import MATCH_PRIOR
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence

# The partitions, in the order in which features hold them.
ENTITY, RELATION, SHARED = 0, 1, 2
N_PARTITIONS = 3


def partition_gates(logits: Tensor) -> Tensor:
    """Which neurons are the entity task's, the relation task's, and both's.

    The entity gate ẽ is a cumulative softmax and rises along the neurons; the relation gate r̃ is one minus another
    and falls. Where both are open a neuron is shared, the rest of each gate is its task's own:
    ρ_s = ẽ ⊙ r̃, ρ_e = ẽ − ρ_s, ρ_r = r̃ − ρ_s.

    Shapes:
        logits: (…, 2, hidden), of the entity gate and of the relation gate
        returns: (…, 3, hidden), ρ_e, ρ_r and ρ_s
    """
    entity, falling = logits.softmax(dim=-1).cumsum(dim=-1).unbind(-2)
    relation = 1 - falling
    shared = entity * relation
    return torch.stack((entity - shared, relation - shared, shared), dim=-2)


def partition_filter_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor
) -> Tensor:
    """Run the recurrent part over all words, from zero states.

    ``projected`` holds the input's share of everything that depends on [x_t; h_{t−1}], bias included, in the order
    candidate ĉ, entity and relation gate of the history c_{t−1}, entity and relation gate of the candidate.

    A plain loop in PyTorch: about fifteen small operations a word. That is what a baseline needs; the SRN has
    kernels of its own (:mod:`cascade_srn.encoder.srn_kernels.triton_srn`), and a comparison of speed has to say so.

    Shapes:
        projected: (batch, length, 5 * hidden)
        recurrent_weight: (hidden, 5 * hidden); cell_weight: (3 * hidden, hidden); cell_bias: (hidden,)
        returns: the memories μ_e, μ_r and μ_s, (batch, length, 3, hidden)
    """
    batch, hidden = projected.shape[0], recurrent_weight.shape[0]
    h = projected.new_zeros(batch, hidden)
    c = projected.new_zeros(batch, hidden)
    memories = []
    for step in projected.unbind(1):
        gates = torch.addmm(step, h, recurrent_weight)
        candidate = gates[:, :hidden].tanh()
        # Of the history and of the candidate at once: (batch, 2, 3, hidden).
        history_gates, candidate_gates = partition_gates(gates[:, hidden:].view(batch, 2, 2, hidden)).unbind(1)
        # Partition: what of the history and of the candidate is the entities', the relations', both's.
        partition = history_gates * c[:, None] + candidate_gates * candidate[:, None]
        # Filter: each task gets its own partition and the shared one, added up.
        shared = partition[:, SHARED:]
        memory = torch.cat((partition[:, :SHARED] + shared, shared), dim=1)
        c = torch.addmm(cell_bias, memory.flatten(1), cell_weight)
        h = c.tanh()
        memories.append(memory)
    if not memories:
        return projected.new_zeros(batch, 0, N_PARTITIONS, hidden)
    return torch.stack(memories, dim=1)


class PartitionFilterNetwork(SequenceEncoder):
    """PFN's encoder over a sequence, forward only. A word's features are h_e, h_r and h_s: tanh of the memories.

    Drop-connect, as published: a training batch does without a ``drop_connect`` share of the recurrent weights, the
    same ones at every word; in use all of them count, each that much less.
    """

    def __init__(self, input_width: int, hidden_width: int, *, drop_connect: float = 0.0) -> None:
        super().__init__()
        self.hidden_width = self.task_width = hidden_width
        self.drop_connect = drop_connect
        self.input_projection = nn.Linear(input_width, 5 * hidden_width)
        self.recurrent_weight = nn.Parameter(torch.empty(hidden_width, 5 * hidden_width))
        self.cell = nn.Linear(N_PARTITIONS * hidden_width, hidden_width)
        bound = 1 / math.sqrt(hidden_width)
        nn.init.uniform_(self.recurrent_weight, -bound, bound)

    def forward(self, inputs: Tensor, lengths: Tensor, *, half: bool = False) -> Tensor:
        """See :class:`SequenceEncoder`; a feature is (3, hidden_width)."""
        real = padding_mask(lengths, inputs.shape[1])
        words = inputs.masked_fill(~real[:, :, None], 0.0)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16) if half else nullcontext():
            projected = self.input_projection(words)
        # Cumulative sums over hundreds of neurons are no work for half precision.
        with torch.autocast(inputs.device.type, enabled=False):
            weight = self._connected()
            memories = partition_filter_scan(projected.to(weight.dtype), weight, self.cell.weight.T, self.cell.bias)
            return torch.where(real[:, :, None, None], memories.tanh(), 0.0)

    def _connected(self) -> Tensor:
        """The recurrent weights as they are used."""
        if self.drop_connect == 0:
            return self.recurrent_weight
        if not self.training:
            return self.recurrent_weight * (1 - self.drop_connect)
        dropped = torch.rand_like(self.recurrent_weight) < self.drop_connect
        return self.recurrent_weight.masked_fill(dropped, 0.0)

    def task(self, features: Tensor, task: int) -> Tensor:
        """See :class:`SequenceEncoder`: h_e or h_r, which hold the shared partition already."""
        return features.select(-2, task)


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
        return to_device(self, device)


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
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> TableBatch:
        """Gold sentences as a batch for the loss.

        Both tables are filled from the sentence alone, so that there are no entities to be told of, and none to be
        mistaken about: ``settings.corruption`` has nothing to do. All cells are learned.
        """
        refuse_what_the_cascade_learns_from(self.method, examples, settings)
        rng = random.Random() if rng is None else rng
        plain = [self.pieces.masked(self.plain(example), settings.masking, rng) for example in examples]
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


# Either divides a word's features into those of the entity task, those of the relation task and shared ones, in this
# order: (n_rows, n_words, 3, hidden_width).
TwoTaskEncoder = PartitionFilterNetwork | SelectionRecurrentNetwork


class Table(nn.Module):
    """The cells of one table: σ(W₂ · ELU(dropout(norm(W₁ [h_i; h_j; h_g])))), one output for each label.

    h_i and h_j are the task's representations of the two words. h_g is the sentence's: what a layer makes of the
    task's own features and the shared ones, tanh(W_g [h; h_s]), at its highest over the words.
    """

    def __init__(self, word_width: int, hidden_width: int, n_labels: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        # W₁ in three parts, so that a projection is made once for a word and not once for each of its cells.
        self.first = nn.Linear(word_width, hidden_width)
        self.second = nn.Linear(word_width, hidden_width, bias=False)
        self.sentence = nn.Linear(hidden_width, hidden_width, bias=False)
        self.pooled = nn.Linear(2 * hidden_width, hidden_width)
        self.norm = nn.LayerNorm(hidden_width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_width, n_labels)
        # Deviation: the published biases start near zero. Few cells are filled, and starting from there saves the
        # first epochs, as in the cascade's heads.
        nn.init.constant_(self.output.bias, math.log(MATCH_PRIOR / (1 - MATCH_PRIOR)))

    def forward(self, words: Tensor, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        """Logits of chosen cells.

        Shapes:
            words: (n_rows, n_words, word_width), the task's representations
            features: (n_rows, n_words, 2, hidden_width), the task's own features and the shared ones
            lengths: (n_rows,)
            returns: (n_cells, n_labels)
        """
        sentences = self.sentence(self._global(features, lengths))
        first, second = self.first(words).flatten(0, 1), self.second(words).flatten(0, 1)
        at = cells.row * words.shape[1]
        parts = (
            self._score(first, second, sentences, at[part], cells[part])
            for part in (slice(k, k + _CELLS_AT_ONCE) for k in range(0, len(cells), _CELLS_AT_ONCE))
        )
        found = list(parts)
        return torch.cat(found) if found else words.new_zeros(0, self.output.out_features)

    def _global(self, features: Tensor, lengths: Tensor) -> Tensor:
        """h_g. Shapes: as of :meth:`forward`; returns (n_rows, hidden_width)."""
        if features.shape[1] == 0:
            return features.new_zeros(features.shape[0], features.shape[-1])
        each = self.pooled(features.flatten(-2)).tanh()
        # Nothing is below the least value of tanh, so that padding is never the highest. (The published code pools
        # over padding as well, so that a sentence's result depends on the batch it is in.)
        padding = ~padding_mask(lengths, features.shape[1])[:, :, None]
        highest: Tensor = each.masked_fill(padding, -1.0).amax(dim=1)
        return highest

    def _score(self, first: Tensor, second: Tensor, sentences: Tensor, at: Tensor, cells: Pairs) -> Tensor:
        joined = first.index_select(0, at + cells.start) + second.index_select(0, at + cells.last)
        # As the weights are: in half precision a processor adds up the gradients of a norm wrongly.
        hidden = self.norm((joined + sentences.index_select(0, cells.row)).to(self.norm.weight.dtype))
        logits: Tensor = self.output(nn.functional.elu(self.dropout(hidden)))
        return logits


# Cells are scored this many at a time, which bounds the memory of long sentences.
_CELLS_AT_ONCE = 1 << 17


class TableFilling(nn.Module):
    """Pretrained encoder, a sequence encoder for two tasks, and a table for each.

    Without ``relations`` it finds entities alone.
    """

    def __init__(
        self,
        *,
        encoder: PretrainedEncoder,
        sequence: TwoTaskEncoder,
        entities: Table,
        relations: Table | None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.sequence = sequence
        self.entities = entities
        self.relations = relations
        self.dropout = nn.Dropout(dropout)

    def features(self, rows: RowBatch, *, half: bool = False, check: Callable[[], None] | None = None) -> Tensor:
        """Compute the features of all words, by task and shared. Shape: (n_rows, n_words, 3, hidden_width)."""
        words = self.dropout(self.encoder(rows, half=half, check=check))
        features: Tensor = self.sequence(words, rows.word_lengths, half=half)
        return features

    def entity_logits(self, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        """Cells of the entity table, by first and last word. Shape: (n_cells, n_entity_types)."""
        return self._filled(self.entities, ENTITY, features, lengths, cells)

    def relation_logits(self, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        """Cells of the relation table, by the first words of subject and object. Shape: (n_cells, n_relation_types)."""
        if self.relations is None:
            raise ValueError("this model was built for entities alone and has no table of relations")
        return self._filled(self.relations, RELATION, features, lengths, cells)

    def _filled(self, table: Table, task: int, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        own_and_shared = torch.stack((features[..., task, :], features[..., SHARED, :]), dim=-2)
        logits: Tensor = table(self.sequence.task(features, task), own_and_shared, lengths, cells)
        return logits

    def forward(self, batch: TableBatch, weights: TurnWeights) -> CascadeLoss:
        """Binary cross-entropy over the cells of both tables, per sentence.

        The entity table counts by the weight of the entity turn's matches, the relation table by that of the object
        turn's; there are no subjects to learn.
        """
        features, lengths = self.features(batch.rows), batch.rows.word_lengths
        n = max(batch.n_sentences, 1)
        logits = self.entity_logits(features, lengths, batch.spans)
        entity = weights.entity.match * cross_entropy(logits, batch.entities) / n
        nothing = torch.zeros_like(entity)
        if self.relations is None:
            return CascadeLoss(entity, nothing, nothing)
        logits = self.relation_logits(features, lengths, batch.first_words)
        return CascadeLoss(entity, nothing, weights.object.match * cross_entropy(logits, batch.relations) / n)
