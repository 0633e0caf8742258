"""Two tables filled over one encoder: entities by their first and last words, relations by two first words.

This is how PFN extracts (Yan et al., EMNLP 2021): every pair of words is a cell, every label a yes or no in it. The
method ``pfn`` fills the tables over PFN's own encoder, ``table-srn`` over the two-task SRN (paper, appendix "Analysis
of Encoder").
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from cascade_srn.baselines.partition_filter import ENTITY, RELATION, SHARED, PartitionFilterNetwork
from cascade_srn.baselines.table_batch import TableBatch
from cascade_srn.cascade import CascadeLoss
from cascade_srn.config import TurnWeights
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.encoder.sequence import padding_mask
from cascade_srn.encoder.srn import SelectionRecurrentNetwork
from cascade_srn.heads import Pairs
from cascade_srn.heads.loss import cross_entropy
from cascade_srn.heads.span_extraction import MATCH_PRIOR

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
