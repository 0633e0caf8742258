"""A pipeline of two models: spans are classified, and then pairs of entities, each with an encoder of its own.

After PURE: Zhong and Chen, "A Frustratingly Easy Approach for Entity and Relation Extraction", NAACL 2021,
https://arxiv.org/abs/2010.12812. The relation model reads the sentence anew for every pair of entities, with text
markers around the two that tell which is the subject, which the object, and their types.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from cascade_srn.baselines.pipeline_batch import PipelineBatch
from cascade_srn.cascade import CascadeLoss, words_at
from cascade_srn.config import TurnWeights
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.heads import Pairs
from cascade_srn.heads.span_extraction import MATCH_PRIOR

# The class of spans that are no entity, and of pairs without a relation.
NONE = 0


class SpanClassifier(nn.Module):
    """What a span is, from its first word, its last word and its length: two hidden layers and a softmax."""

    def __init__(
        self,
        word_width: int,
        n_types: int,
        *,
        max_words: int,
        length_width: int = 150,
        hidden_width: int = 150,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.lengths = nn.Embedding(max_words, length_width)
        # The first layer over [first word; last word; length], in parts: a word is projected once for all its spans.
        self.first = nn.Linear(word_width, hidden_width)
        self.last = nn.Linear(word_width, hidden_width, bias=False)
        self.length = nn.Linear(length_width, hidden_width, bias=False)
        self.hidden = nn.Linear(hidden_width, hidden_width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_width, 1 + n_types)
        # Deviation: the published biases start at zero, with which an untrained model takes most spans for entities,
        # and has their square to read in pairs.
        with torch.no_grad():
            self.output.bias.zero_()
            self.output.bias[NONE] = -math.log(MATCH_PRIOR)

    def forward(self, words: Tensor, spans: Pairs) -> Tensor:
        """Logits of the classes, NONE first.

        Shapes:
            words: (n_rows, n_words, word_width)
            returns: (n_spans, 1 + n_types)
        """
        first = words_at(self.first(words), spans.row, spans.start)
        last = words_at(self.last(words), spans.row, spans.last)
        length = self.length(self.lengths.weight).index_select(0, spans.last - spans.start)
        layer = self.dropout((first + last + length).relu())
        layer = self.dropout(self.hidden(layer).relu())
        logits: Tensor = self.output(layer)
        return logits


class PairClassifier(nn.Module):
    """How a subject is related to an object, from the markers that open the two: a norm and a softmax."""

    def __init__(self, word_width: int, n_types: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * word_width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * word_width, 1 + n_types)

    def forward(self, items: Tensor, openings: Tensor) -> Tensor:
        """Logits of the classes, NONE first.

        Shapes:
            items: (n_pairs, n_items, word_width), the words and markers of each pair's row
            openings: (n_pairs, 2), which items are the markers that open subject and object
            returns: (n_pairs, 1 + n_types)
        """
        pair = torch.arange(len(openings), device=openings.device).repeat_interleave(2)
        both = words_at(items, pair, openings.flatten()).view(len(openings), 2 * items.shape[-1])
        logits: Tensor = self.output(self.dropout(self.norm(both)))
        return logits


class TwoEncoders(nn.Module):
    """The pretrained encoders of the two models: of one shape and one vocabulary, with weights of their own."""

    def __init__(self, entities: PretrainedEncoder, relations: PretrainedEncoder | None) -> None:
        super().__init__()
        self.entities = entities
        self.relations = relations

    @property
    def config(self) -> object:
        """The transformers configuration, which both have."""
        return self.entities.config

    @property
    def model(self) -> nn.Module:
        """All that is pretrained, for an optimiser that tells layers by the names of their parameters."""
        return self


class Pipeline(nn.Module):
    """The two models side by side. No weight is shared, so that training them together is training each alone.

    Without ``relations`` it is the entity model.
    """

    def __init__(self, *, encoder: TwoEncoders, spans: SpanClassifier, relations: PairClassifier | None) -> None:
        super().__init__()
        if (encoder.relations is None) != (relations is None):
            raise ValueError("a relation model has an encoder and a classifier; give both or neither")
        self.encoder = encoder
        self.spans = spans
        self.relations = relations

    def span_logits(
        self, rows: RowBatch, spans: Pairs, *, half: bool = False, check: Callable[[], None] | None = None
    ) -> Tensor:
        """Compute the logits of the spans' classes. Shape: (n_spans, 1 + n_entity_types)."""
        logits: Tensor = self.spans(self.encoder.entities(rows, half=half, check=check), spans)
        return logits

    def pair_logits(self, rows: RowBatch, openings: Tensor, *, half: bool = False) -> Tensor:
        """The classes of pairs, each with a row of its own. Shape: (n_pairs, 1 + n_relation_types)."""
        if self.encoder.relations is None or self.relations is None:
            raise ValueError("this model was built for entities alone and has no relation model")
        logits: Tensor = self.relations(self.encoder.relations(rows, half=half), openings)
        return logits

    def forward(self, batch: PipelineBatch, weights: TurnWeights) -> CascadeLoss:
        """Cross-entropy over the classes of spans and of pairs, per sentence.

        Spans count by the weight of the entity turn's matches, pairs by that of the object turn's.
        """
        n = max(batch.n_sentences, 1)
        entity = weights.entity.match * _cross_entropy(self.span_logits(batch.rows, batch.spans), batch.types) / n
        nothing = torch.zeros_like(entity)
        if self.relations is None or batch.pair_rows is None:
            return CascadeLoss(entity, nothing, nothing)
        logits = self.pair_logits(batch.pair_rows, batch.openings)
        return CascadeLoss(entity, nothing, weights.object.match * _cross_entropy(logits, batch.relations) / n)


def _cross_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, classes, reduction="sum")
