"""Table filling: a table of entities by first and last words, and a table of relations by first words.

This is the extraction of PFN (Yan et al., EMNLP 2021). Every pair of words is a cell with a binary output for each
label. The method ``pfn`` uses PFN's partition filter encoder, ``table-srn`` the two-task SRN (paper, appendix "Analysis
of Encoder").
"""

import math
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from cascade_srn.config import TurnWeights
from cascade_srn.encoder.pieces import Row, RowBatch, WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.lab.baselines.limits import refuse_cascade_settings
from cascade_srn.network.batch import DEFAULT_BATCH_SETTINGS, BatchSettings, to_device
from cascade_srn.network.cascade import CascadeLoss, Network
from cascade_srn.network.examples import Example
from cascade_srn.network.loss import cross_entropy
from cascade_srn.network.sequence import SequenceEncoder, padding_mask
from cascade_srn.network.span_extraction import MATCH_PRIOR, Pairs, pairs_within
from cascade_srn.network.srn import SelectionRecurrentNetwork
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence

# The partitions, in the order of the features.
ENTITY, RELATION, SHARED = 0, 1, 2
N_PARTITIONS = 3
# Cells are scored this many at a time, which bounds the memory for long sentences.
_CHUNK_CELLS = 1 << 17

# First word, second word and label of a table cell.
TableCell = tuple[int, int, int]


def partition_gates(logits: Tensor) -> Tensor:
    """Compute the gates of the entity, relation and shared partitions of the neurons.

    The entity gate ẽ is a cumulative softmax, which increases along the neurons. The relation gate r̃ is one minus a
    cumulative softmax. The partitions are ρ_s = ẽ ⊙ r̃, ρ_e = ẽ − ρ_s and ρ_r = r̃ − ρ_s.

    Shapes:
        logits: (…, 2, hidden), of entity gate and relation gate
        returns: (…, 3, hidden), ρ_e, ρ_r and ρ_s
    """
    entity, falling = logits.softmax(dim=-1).cumsum(dim=-1).unbind(-2)
    relation = 1 - falling
    shared = entity * relation
    return torch.stack((entity - shared, relation - shared, shared), dim=-2)


def partition_filter_scan(
    projected: Tensor, recurrent_weight: Tensor, cell_weight: Tensor, cell_bias: Tensor
) -> Tensor:
    """Run the recurrent part of PFN over all words, starting from zero states.

    ``projected`` is the input term of everything that depends on [x_t; h_{t−1}], with bias, in the order candidate ĉ,
    entity and relation gate of the history c_{t−1}, entity and relation gate of the candidate.

    This is a plain PyTorch loop with about fifteen small operations per word. The SRN has fused kernels, which matters
    in comparisons of speed.

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
        # For the history and the candidate together: (batch, 2, 3, hidden).
        history_gates, candidate_gates = partition_gates(gates[:, hidden:].view(batch, 2, 2, hidden)).unbind(1)
        # Partition: divide history and candidate into entity, relation and shared neurons.
        partition = history_gates * c[:, None] + candidate_gates * candidate[:, None]
        # Filter: the memory of a task is the sum of its own partition and the shared one.
        shared = partition[:, SHARED:]
        memory = torch.cat((partition[:, :SHARED] + shared, shared), dim=1)
        c = torch.addmm(cell_bias, memory.flatten(1), cell_weight)
        h = c.tanh()
        memories.append(memory)
    if not memories:
        return projected.new_zeros(batch, 0, N_PARTITIONS, hidden)
    return torch.stack(memories, dim=1)


class PartitionFilterNetwork(SequenceEncoder):
    """PFN's encoder, forward only. The features of a word are h_e, h_r and h_s: tanh of the memories.

    Drop-connect is as published. In training, each batch drops a ``drop_connect`` share of the recurrent weights, the
    same ones at every word. In evaluation, all weights are scaled by ``1 - drop_connect``.
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

    def forward(self, inputs: Tensor, lengths: Tensor, *, bf16: bool = False) -> Tensor:
        """See :class:`SequenceEncoder`. A feature is (3, hidden_width)."""
        real = padding_mask(lengths, inputs.shape[1])
        words = inputs.masked_fill(~real[:, :, None], 0.0)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16) if bf16 else nullcontext():
            projected = self.input_projection(words)
        # Half precision is too inaccurate for cumulative sums over hundreds of neurons.
        with torch.autocast(inputs.device.type, enabled=False):
            weight = self._drop_connections()
            memories = partition_filter_scan(projected.to(weight.dtype), weight, self.cell.weight.T, self.cell.bias)
            return torch.where(real[:, :, None, None], memories.tanh(), 0.0)

    def _drop_connections(self) -> Tensor:
        if self.drop_connect == 0:
            return self.recurrent_weight
        if not self.training:
            return self.recurrent_weight * (1 - self.drop_connect)
        dropped = torch.rand_like(self.recurrent_weight) < self.drop_connect
        return self.recurrent_weight.masked_fill(dropped, 0.0)

    def task(self, features: Tensor, task: int) -> Tensor:
        """Return h_e or h_r, which include the shared partition. See :class:`SequenceEncoder`."""
        return features.select(-2, task)


@dataclass(frozen=True)
class TableBatch:
    """A training batch of a table-filling model.

    Shapes:
        spans: cells of the entity tables by first and last word, n (n + 1) / 2 for a sentence of n words
        entities: distinct flat positions of the positive targets in (n_spans × n_entity_types)
        first_words: cells of the relation tables by the first words of subject and object, n² for a sentence
        relations: distinct flat positions of the positive targets in (n_first_words × n_relation_types)
    """

    rows: RowBatch
    spans: Pairs
    entities: Tensor
    first_words: Pairs
    relations: Tensor
    n_sentences: int

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on a device."""
        return to_device(self, device)


class TableCollator:
    """Makes rows and batches for a table-filling model."""

    def __init__(self, pieces: WordPieces, schema: Schema, method: str) -> None:
        self.pieces = pieces
        self.schema = schema
        self.method = method

    def plain(self, example: Example) -> Row:
        """Return the row of a sentence. There are no markers."""
        return self.pieces.row(example.sentence.words, example.left, example.right)

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> TableBatch:
        """Make a training batch of gold sentences.

        ``settings.corruption`` has no effect, because neither table depends on given entities.
        """
        refuse_cascade_settings(self.method, examples, settings)
        rng = random.Random() if rng is None else rng
        plain = [self.pieces.mask_words(self.plain(example), settings.masking, rng) for example in examples]
        rows = self.pieces.batch(plain, settings.division)
        sentences = [example.sentence for example in examples]
        lengths = rows.word_lengths
        return TableBatch(
            rows=rows,
            spans=pairs_within(lengths),
            entities=self._flatten([entity_cells(s, self.schema) for s in sentences], lengths, triangle=True),
            first_words=pairs_of_words(lengths),
            relations=self._flatten([relation_cells(s, self.schema) for s in sentences], lengths, triangle=False),
            n_sentences=len(sentences),
        )

    def _flatten(self, cells: Sequence[set[TableCell]], lengths: Tensor, *, triangle: bool) -> Tensor:
        """Return the cells of all sentences as ascending flat positions in the batch."""
        n_labels = len(self.schema.entity_types if triangle else self.schema.relation_types)
        positions, before = [], 0
        for length, sentence_cells in zip(lengths.tolist(), cells, strict=True):
            for first, second, label in sentence_cells:
                # Row i of a triangle starts at column i.
                skipped = first * (first + 1) // 2 if triangle else 0
                positions.append((before + first * length + second - skipped) * n_labels + label)
            before += length * (length + 1) // 2 if triangle else length * length
        return torch.tensor(sorted(positions), dtype=torch.long)


def entity_cells(sentence: Sentence, schema: Schema) -> set[TableCell]:
    """Return the positive cells of a sentence's entity table: first word, last word, type."""
    return {(e.start, e.end - 1, schema.entity_types.index(e.label)) for e in sentence.entities}


def relation_cells(sentence: Sentence, schema: Schema) -> set[TableCell]:
    """Return the positive cells of a sentence's relation table: first words of subject and object, type.

    Relations of entities with the same first word share a cell.
    """
    return {(t.head.start, t.tail.start, schema.relation_types.index(t.label)) for t in sentence.triples}


def pairs_of_words(lengths: Tensor) -> Pairs:
    """Return all n² pairs of words of each row, by row, then first, then second word.

    Shapes: lengths (n_rows,)
    """
    row = torch.repeat_interleave(torch.arange(len(lengths)), lengths * lengths)
    n_cells = lengths * lengths
    position = torch.arange(len(row)) - (n_cells.cumsum(0) - n_cells)[row]
    return Pairs(row, position // lengths[row], position % lengths[row])


# Both return entity, relation and shared features, in this order: (n_rows, n_words, 3, hidden_width).
TwoTaskEncoder = PartitionFilterNetwork | SelectionRecurrentNetwork


class Table(nn.Module):
    """Scores the cells of one table: σ(W₂ · ELU(dropout(norm(W₁ [h_i; h_j; h_g])))), one output for each label.

    h_i and h_j are the task's representations of the two words. h_g represents the sentence: the maximum over its words
    of tanh(W_g [h; h_s]), where h are the features of the task and h_s the shared ones.
    """

    def __init__(self, word_width: int, hidden_width: int, n_labels: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        # W₁ in three parts, so that each word is projected once and not once for each of its cells.
        self.first = nn.Linear(word_width, hidden_width)
        self.second = nn.Linear(word_width, hidden_width, bias=False)
        self.sentence = nn.Linear(hidden_width, hidden_width, bias=False)
        self.pooled = nn.Linear(2 * hidden_width, hidden_width)
        self.norm = nn.LayerNorm(hidden_width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_width, n_labels)
        # Deviation: the published biases start near zero. Most cells are negative, so that the prior saves epochs, as
        # in the heads of the cascade.
        nn.init.constant_(self.output.bias, math.log(MATCH_PRIOR / (1 - MATCH_PRIOR)))

    def forward(self, words: Tensor, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        """Compute the logits of cells.

        Shapes:
            words: (n_rows, n_words, word_width), representations of the task
            features: (n_rows, n_words, 2, hidden_width), features of the task and shared features
            lengths: (n_rows,)
            returns: (n_cells, n_labels)
        """
        sentences = self.sentence(self._pool_sentences(features, lengths))
        first, second = self.first(words).flatten(0, 1), self.second(words).flatten(0, 1)
        offset = cells.row * words.shape[1]
        parts = [slice(k, k + _CHUNK_CELLS) for k in range(0, len(cells), _CHUNK_CELLS)]
        scores = [self._score(first, second, sentences, offset[part], cells[part]) for part in parts]
        return torch.cat(scores) if scores else words.new_zeros(0, self.output.out_features)

    def _pool_sentences(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Compute h_g. Shapes: those of :meth:`forward`; returns (n_rows, hidden_width)."""
        if features.shape[1] == 0:
            return features.new_zeros(features.shape[0], features.shape[-1])
        projected = self.pooled(features.flatten(-2)).tanh()
        # Deviation: the published code pools over padding too, so that results depend on the batch. -1 is the lower
        # bound of tanh.
        padding = ~padding_mask(lengths, features.shape[1])[:, :, None]
        pooled: Tensor = projected.masked_fill(padding, -1.0).amax(dim=1)
        return pooled

    def _score(self, first: Tensor, second: Tensor, sentences: Tensor, offset: Tensor, cells: Pairs) -> Tensor:
        joined = first.index_select(0, offset + cells.start) + second.index_select(0, offset + cells.last)
        # In the dtype of the weights, because a CPU accumulates the gradients of a norm in bfloat16 inaccurately.
        hidden = self.norm((joined + sentences.index_select(0, cells.row)).to(self.norm.weight.dtype))
        logits: Tensor = self.output(nn.functional.elu(self.dropout(hidden)))
        return logits


class TableFilling(Network):
    """A pretrained encoder, a sequence encoder for two tasks, and a table for each task.

    Without ``relations``, the model extracts entities only.
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
        self.relations: Table | None = relations
        self.dropout = nn.Dropout(dropout)

    def features(self, rows: RowBatch, *, bf16: bool = False, check: Callable[[], None] | None = None) -> Tensor:
        """Compute entity, relation and shared features of all words. Shape: (n_rows, n_words, 3, hidden_width)."""
        words = self.dropout(self.encoder(rows, bf16=bf16, check=check))
        features: Tensor = self.sequence(words, rows.word_lengths, bf16=bf16)
        return features

    def entity_logits(self, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        """Score cells of the entity table, by first and last word. Shape: (n_cells, n_entity_types)."""
        return self._score(self.entities, ENTITY, features, lengths, cells)

    def relation_logits(self, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        """Score cells of the relation table, by first words of two entities. Shape: (n_cells, n_relation_types)."""
        if self.relations is None:
            raise ValueError("this model has no relation table")
        return self._score(self.relations, RELATION, features, lengths, cells)

    def _score(self, table: Table, task: int, features: Tensor, lengths: Tensor, cells: Pairs) -> Tensor:
        own_and_shared = torch.stack((features[..., task, :], features[..., SHARED, :]), dim=-2)
        logits: Tensor = table(self.sequence.task(features, task), own_and_shared, lengths, cells)
        return logits

    def forward(self, batch: TableBatch, weights: TurnWeights) -> CascadeLoss:
        """Compute the binary cross-entropy over the cells of both tables, per sentence.

        The weight of the entity table is that of the entity turn's matches. The weight of the relation table is that of
        the object turn's. The subject loss is zero.
        """
        features, lengths = self.features(batch.rows), batch.rows.word_lengths
        n = max(batch.n_sentences, 1)
        logits = self.entity_logits(features, lengths, batch.spans)
        entity = weights.entity.match * cross_entropy(logits, batch.entities) / n
        zero = torch.zeros_like(entity)
        if self.relations is None:
            return CascadeLoss(entity, zero, zero)
        logits = self.relation_logits(features, lengths, batch.first_words)
        return CascadeLoss(entity, zero, weights.object.match * cross_entropy(logits, batch.relations) / n)
