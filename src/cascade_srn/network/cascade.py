"""The cascade (paper, section "Methodology"): three turns of span extraction over one encoder.

Turn 1 extracts entities, turn 2 subjects and turn 3 the objects of each subject. :class:`Cascade` computes the logits
of each turn. Training uses them in :meth:`Cascade.loss`, extraction in
:class:`~cascade_srn.inference.cascade_search.CascadeSearch`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cascade_srn.config import TurnWeights
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.pretrained import PretrainedEncoder, ReplayPass
from cascade_srn.network.batch import CascadeBatch
from cascade_srn.network.fusion import EntityTags, Queries, SubjectSpan, SubjectTag, subject_means
from cascade_srn.network.loss import SpanLabels, span_loss
from cascade_srn.network.sequence import SequenceEncoder, padding_mask
from cascade_srn.network.span_extraction import Pairs, SpanExtractor, SpanLogits

# Tasks of the sequence encoder, one per turn.
ENTITY, SUBJECT, OBJECT = 0, 1, 2
N_TASKS = 3

StartEndMatch = tuple[Tensor, Tensor, Tensor]
"""Start, end and match logits of chosen spans. Shapes: (n_spans, n_labels) each."""


@dataclass(frozen=True)
class CascadeLoss:
    """The loss L = L_e + L_s + L_o (eq. 15) and its three parts. Shapes: () each."""

    entity: Tensor
    subject: Tensor
    object: Tensor

    @property
    def total(self) -> Tensor:
        """The sum of the three parts."""
        return self.entity + self.subject + self.object


class Network(nn.Module):
    """Base class of networks, whose ``forward`` computes the loss of a batch, averaged over the sentences.

    ``encoder`` has all pretrained weights, which have their own learning rate. Its ``config`` is the configuration of
    transformers, and its ``model`` has the parameters by layer. ``relations`` is None if only entities are found.
    """

    encoder: Any
    relations: nn.Module | None


class RelationTurns(nn.Module):
    """The modules of turns 2 and 3. Fusions are None if markers take their place."""

    def __init__(
        self,
        *,
        subject_head: SpanExtractor,
        object_head: SpanExtractor,
        entity_tags: EntityTags | None,
        subject_fusion: SubjectTag | SubjectSpan | None,
    ) -> None:
        super().__init__()
        self.subject_head = subject_head
        self.object_head = object_head
        self.entity_tags = entity_tags
        self.subject_fusion = subject_fusion


class Cascade(Network):
    """Pretrained encoder, sequence encoder and one span extraction model per turn.

    Each turn has two methods. ``*_logits`` computes the logits of all words and pairs of words, for training and
    distillation. ``entity_boundaries`` and ``*_span_logits`` compute only what extraction needs. Without ``relations``
    the model has turn 1 only: the paper's independent entity model.
    """

    def __init__(
        self,
        *,
        encoder: PretrainedEncoder,
        sequence: SequenceEncoder,
        entity_head: SpanExtractor,
        relations: RelationTurns | None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder: PretrainedEncoder = encoder
        self.sequence = sequence
        self.entity_head = entity_head
        self.relations: RelationTurns | None = relations
        self.dropout = nn.Dropout(dropout)

    @property
    def relation_turns(self) -> RelationTurns:
        """Turns 2 and 3. Raises a ValueError if the model has turn 1 only."""
        if self.relations is None:
            raise ValueError("this model extracts entities only and has no turns 2 and 3")
        return self.relations

    def forward(self, batch: CascadeBatch, weights: TurnWeights) -> CascadeLoss:
        """Return :meth:`loss`. Wrappers for several devices call this method."""
        return self.loss(batch, weights)

    def loss(self, batch: CascadeBatch, weights: TurnWeights) -> CascadeLoss:
        """Compute the losses of the three turns, each averaged over the sentences."""
        features = self.features(batch.rows)
        n = batch.n_sentences
        word_weights = padding_mask(batch.lengths, features.shape[1]).unsqueeze(2).to(features.dtype)
        if batch.weight is not None:
            word_weights = word_weights * batch.weight[:, None, None]
        pair_weights, query_pair_weights = _pair_weights(batch)

        logits = self.entity_logits(features[:n], batch.pairs)
        entity = span_loss(logits, batch.entities, word_weights, weights.entity, n, pair_weights)
        if self.relations is None:
            return CascadeLoss(entity, torch.zeros_like(entity), torch.zeros_like(entity))

        tags = self.tags(batch.given, (n, features.shape[1]))
        logits = self.subject_logits(features.index_select(0, batch.subject_rows), tags, batch.pairs)
        subject = span_loss(logits, batch.subjects, word_weights, weights.subject, n, pair_weights)

        features = features.index_select(0, batch.object_rows)
        logits = self.object_logits(features, tags, batch.queries, batch.query_pairs)
        word_weights = word_weights.index_select(0, batch.queries.sentence)
        object_ = span_loss(logits, batch.objects, word_weights, weights.object, n, query_pair_weights)
        return CascadeLoss(entity, subject, object_)

    def features(
        self,
        rows: RowBatch,
        *,
        bf16: bool = False,
        check: Callable[[], None] | None = None,
        replay: ReplayPass | None = None,
    ) -> Tensor:
        """Encode rows and return the features of their words. Markers are encoded, but have no features.

        ``bf16`` computes the pretrained encoder, and the projection of its output, in bfloat16. ``check`` is called
        between encoder passes, and may raise to stop the work. ``replay`` runs encoder passes faster.

        Shapes: returns (n_rows, n_words, *feature*)
        """
        encoded = self.encoder(rows, bf16=bf16, check=check, replay=replay)
        items = self.sequence(self.dropout(encoded), rows.item_lengths, bf16=bf16)
        return words_at(items, torch.arange(len(items), device=items.device)[:, None], rows.word_items)

    # Turn 1: entities.

    def entity_inputs(self, features: Tensor) -> Tensor:
        """Return ĥ_e (eq. 11). Shapes: features (n_rows, n_words, *feature*); returns (n_rows, n_words, width)."""
        return self.sequence.task(features, ENTITY)

    def entity_logits(self, features: Tensor, pairs: Pairs) -> SpanLogits:
        """Compute turn 1. Shapes: features (n_sentences, n_words, *feature*)."""
        logits: SpanLogits = self.entity_head(self.entity_inputs(features), pairs)
        return logits

    def entity_boundaries(self, features: Tensor) -> tuple[Tensor, Tensor, Callable[[Pairs], Tensor]]:
        """Compute the start and end logits of turn 1, and leave the choice of pairs to the caller.

        Shapes:
            features: (n_sentences, n_words, *feature*)
            returns: start and end logits, (n_sentences, n_words, n_labels) each, and a function that returns the
                match logits of pairs, (n_pairs, n_labels)
        """
        words = self.entity_inputs(features)
        return *self.entity_head.boundaries(words), partial(self.entity_head.match, words)

    # Turn 2: subjects, given the entities.

    def tags(self, entities: SpanLabels, shape: tuple[int, int]) -> Tensor | None:
        """Return the entity tags of all words, or None if the fusion has no entity tags.

        Shapes: ``shape`` is (n_sentences, n_words); returns (n_sentences, n_words, tag_width)
        """
        embed = self.relation_turns.entity_tags
        if embed is None:
            return None
        tags: Tensor = embed(entities.row, entities.start, entities.last, entities.label, shape)
        return tags

    def subject_inputs(self, features: Tensor, tags: Tensor | None) -> Tensor:
        """Return ĥ_s (eq. 11). Shapes: features (…, *feature*); tags (…, tag_width); returns (…, width)."""
        return _join_tags(tags, self.sequence.task(features, SUBJECT))

    def subject_logits(self, features: Tensor, tags: Tensor | None, pairs: Pairs) -> SpanLogits:
        """Compute turn 2. Shapes: features (n_sentences, n_words, *feature*); tags as :meth:`tags` returns them."""
        logits: SpanLogits = self.relation_turns.subject_head(self.subject_inputs(features, tags), pairs)
        return logits

    def subject_span_logits(self, features: Tensor, tags: Tensor | None, spans: Tensor) -> StartEndMatch:
        """Compute turn 2 for the given spans only.

        Shapes:
            features, tags: as of :meth:`subject_logits`
            spans: (n_spans, 3), the sentence, first word and last word of each span
        """
        row, edge = _edges(spans)
        words = self.subject_inputs(words_at(features, row, edge), _tags_at(tags, row, edge))
        return self.relation_turns.subject_head.spans(*words.unbind(0))

    # Turn 3: the objects of each subject, given the entities.

    def object_inputs(self, features: Tensor, tags: Tensor | None, queries: Queries) -> Tensor:
        """Return ĥ_o (eq. 11) for each query.

        Shapes:
            features: (n_queries, n_words, *feature*) if subjects are fused by markers, else (n_sentences, …)
            tags: (n_sentences, n_words, tag_width) or None
            returns: (n_queries, n_words, width)
        """
        fusion = self.relation_turns.subject_fusion
        if fusion is None:
            return self._object_words(features, None if tags is None else tags.index_select(0, queries.sentence))
        fused: Tensor = fusion(self._object_words(features, tags), queries)
        return fused

    def object_logits(self, features: Tensor, tags: Tensor | None, queries: Queries, pairs: Pairs) -> SpanLogits:
        """Compute turn 3. Shapes: features and tags as of :meth:`object_inputs`; pairs by query."""
        logits: SpanLogits = self.relation_turns.object_head(self.object_inputs(features, tags, queries), pairs)
        return logits

    def object_span_logits(
        self, features: Tensor, tags: Tensor | None, queries: Queries, spans: Tensor
    ) -> Callable[[Tensor, Tensor], StartEndMatch]:
        """Return a function that computes turn 3 for chosen pairs of a query and a span.

        Whatever depends on the query or the span alone is computed once, before the function is returned.

        Shapes:
            features, tags: as of :meth:`object_inputs`
            spans: (n_spans, 3), the sentence, first word and last word of each span
            arguments of the returned function: positions of queries and of spans, (n_pairs,) each
        """
        row, edge = _edges(spans)
        turns = self.relation_turns
        fusion = turns.subject_fusion
        if fusion is None:

            def inputs(query: Tensor, span: Tensor) -> Tensor:
                sentence, word = queries.sentence[query], edge.index_select(1, span)
                return self._object_words(words_at(features, query, word), _tags_at(tags, sentence, word))

        else:
            subjects = fusion.subjects(self._subject_means(features, tags, queries))
            words = fusion.words(self._object_words(words_at(features, row, edge), _tags_at(tags, row, edge)))

            def inputs(query: Tensor, span: Tensor) -> Tensor:
                word = edge.index_select(1, span)
                distances = word - queries.start[query], word - queries.last[query]
                return fusion.join(words.index_select(1, span), subjects.index_select(0, query), *distances)

        def logits(query: Tensor, span: Tensor) -> StartEndMatch:
            return turns.object_head.spans(*inputs(query, span).unbind(0))

        return logits

    def _object_words(self, features: Tensor, tags: Tensor | None) -> Tensor:
        return _join_tags(tags, self.sequence.task(features, OBJECT))

    def _subject_means(self, features: Tensor, tags: Tensor | None, queries: Queries) -> Tensor:
        """Average the words of each subject. Shapes: as of :meth:`object_inputs`; returns (n_queries, width)."""
        size = queries.last - queries.start + 1
        # A GPU computes all words in less time than it takes to wait for the number of words inside of subjects. On a
        # CPU, that is cheaper only if subjects overlap much.
        if features.is_cuda or int(size.sum()) > features.shape[0] * features.shape[1]:
            return subject_means(self._object_words(features, tags), queries)
        query, word = queries.words_inside()
        sentence = queries.sentence[query]
        inside = self._object_words(words_at(features, sentence, word), _tags_at(tags, sentence, word))
        return inside.new_zeros(len(queries), inside.shape[1]).index_add(0, query, inside) / size[:, None]


def words_at(features: Tensor, row: Tensor, word: Tensor) -> Tensor:
    """Select words. Shapes: features (n_rows, n_words, …); row and word broadcast to (*n*); returns (*n*, …)."""
    position = row * features.shape[1] + word
    selected: Tensor = features.flatten(0, 1).index_select(0, position.flatten()).unflatten(0, position.shape)
    return selected


def _edges(spans: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows, and first and last words, which are computed at once. Shapes: spans (n, 3); returns (n,), (2, n)."""
    return spans[:, 0], spans[:, 1:].T


def _tags_at(tags: Tensor | None, sentence: Tensor, word: Tensor) -> Tensor | None:
    return None if tags is None else words_at(tags, sentence, word)


def _join_tags(tags: Tensor | None, words: Tensor) -> Tensor:
    return words if tags is None else torch.cat((tags, words), dim=-1)


def _pair_weights(batch: CascadeBatch) -> tuple[Tensor | None, Tensor | None]:
    """Return the sentence weight of each pair, and of each pair of a query. Shapes: (n_pairs, 1) each."""
    if batch.weight is None:
        return None, None
    query_weights = batch.weight.index_select(0, batch.queries.sentence)
    weights = batch.weight.index_select(0, batch.pairs.row), query_weights.index_select(0, batch.query_pairs.row)
    return weights[0][:, None], weights[1][:, None]
