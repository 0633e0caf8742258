"""The cascade: three turns of span extraction over one encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cascade_srn.config import TurnWeights
from cascade_srn.data.batch import CascadeBatch
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.encoder.sequence import SequenceEncoder, padding_mask
from cascade_srn.fusion import EntityTags, Queries, SubjectSpan, SubjectTag
from cascade_srn.fusion.span import subject_means
from cascade_srn.heads import SpanExtractor, SpanLabels, span_loss

# The tasks of the sequence encoder, one for each turn.
ENTITY, SUBJECT, OBJECT = 0, 1, 2
N_TASKS = 3


@dataclass(frozen=True)
class CascadeLoss:
    """L = L_e + L_s + L_o (paper, eq. 15), and its parts."""

    entity: Tensor
    subject: Tensor
    object: Tensor

    @property
    def total(self) -> Tensor:
        """The sum that is minimised."""
        return self.entity + self.subject + self.object


class RelationTurns(nn.Module):
    """Turns 2 and 3: the subject and object heads, and how entities and subject reach them."""

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


class Cascade(nn.Module):
    """Pretrained encoder, sequence encoder, and a span extraction model for each turn.

    Without ``relations`` it is the paper's independent entity model: turn 1 alone.
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
        self.encoder = encoder
        self.sequence = sequence
        self.entity_head = entity_head
        self.relations = relations
        self.dropout = nn.Dropout(dropout)

    def features(self, rows: RowBatch, *, half: bool = False, check: Callable[[], None] | None = None) -> Tensor:
        """Compute the features of the words of each row. Markers are encoded with them, then left out.

        Args:
            rows: The rows of a batch.
            half: Compute the pretrained encoder, and the projection of its output, in bfloat16.
            check: Called between encoder passes. It may raise to stop the work.

        Shapes:
            returns: (n_rows, n_words, *feature*)
        """
        encoded = self.encoder(rows, half=half, check=check)
        items = self.sequence(self.dropout(encoded), rows.item_lengths, half=half)
        n_rows, n_items = items.shape[:2]
        first = torch.arange(n_rows, device=items.device)[:, None] * n_items
        picked = items.flatten(0, 1).index_select(0, (rows.word_items + first).flatten())
        words: Tensor = picked.unflatten(0, rows.word_items.shape)
        return words

    def entity_inputs(self, features: Tensor) -> Tensor:
        """ĥ_e (eq. 11). Shapes: features (n_rows, n_words, *feature*); returns (n_rows, n_words, width)."""
        return self.sequence.task(features, ENTITY)

    def tags(self, given: SpanLabels, shape: tuple[int, int]) -> Tensor | None:
        """Entity tags of all words where the fusion uses them. Shape: (n_sentences, n_words, tag_width)."""
        tags = self.relation_turns.entity_tags
        if tags is None:
            return None
        found: Tensor = tags(given.row, given.start, given.last, given.label, shape)
        return found

    def subject_inputs(self, features: Tensor, tags: Tensor | None) -> Tensor:
        """ĥ_s (eq. 11): entity tags, where used, before the task's representation."""
        words = self.sequence.task(features, SUBJECT)
        return words if tags is None else torch.cat((tags, words), dim=-1)

    def object_inputs(self, features: Tensor, tags: Tensor | None, queries: Queries) -> Tensor:
        """ĥ_o (eq. 11) for each query.

        Shapes:
            features: (n_queries, …) where markers tell the subject, else (n_sentences, …)
            tags: (n_sentences, n_words, tag_width) or None
            returns: (n_queries, n_words, width)
        """
        fusion = self.relation_turns.subject_fusion
        if fusion is None:
            return self._object_words(features, None if tags is None else tags.index_select(0, queries.sentence))
        fused: Tensor = fusion(self._object_words(features, tags), queries)
        return fused

    def _object_words(self, features: Tensor, tags: Tensor | None) -> Tensor:
        words = self.sequence.task(features, OBJECT)
        return words if tags is None else torch.cat((tags, words), dim=-1)

    def object_spans(
        self, features: Tensor, tags: Tensor | None, queries: Queries, spans: Tensor
    ) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """ĥ_o at the edges of spans alone: what prediction needs, which looks at entities only.

        Shapes:
            features, tags: as of :meth:`object_inputs`
            spans: (n_spans, 3), a span's sentence, first word and last word
            returns: a function of chosen queries and spans, (n_pairs,) each, that gives the representations of the
                spans' first and last words, (n_pairs, width) each
        """
        row, first, last = spans.unbind(1)
        fusion = self.relation_turns.subject_fusion

        def words(row: Tensor, sentence: Tensor, word: Tensor) -> Tensor:
            return self._object_words(words_at(features, row, word), _tags_at(tags, sentence, word))

        if fusion is None:

            def marked(query: Tensor, span: Tensor) -> tuple[Tensor, Tensor]:
                sentence = queries.sentence[query]
                return words(query, sentence, first[span]), words(query, sentence, last[span])

            return marked
        subjects = fusion.subjects(self._subject_means(features, tags, queries))
        own = {edge: fusion.words(words(row, row, edge)) for edge in (first, last)}

        def fused(query: Tensor, span: Tensor) -> tuple[Tensor, Tensor]:
            def at(edge: Tensor) -> Tensor:
                word = edge[span]
                distances = word - queries.start[query], word - queries.last[query]
                return fusion.join(own[edge].index_select(0, span), subjects.index_select(0, query), *distances)

            return at(first), at(last)

        return fused

    def _subject_means(self, features: Tensor, tags: Tensor | None, queries: Queries) -> Tensor:
        """The mean of ĥ_o's parts over each subject. Shape: (n_queries, width)."""
        size = queries.last - queries.start + 1
        if int(size.sum()) > features.shape[0] * features.shape[1]:
            # So many long subjects share their words that all words together are fewer.
            return subject_means(self._object_words(features, tags), queries)
        query, word = queries.words_inside()
        sentence = queries.sentence[query]
        inside = self._object_words(words_at(features, sentence, word), _tags_at(tags, sentence, word))
        return inside.new_zeros(len(queries), inside.shape[1]).index_add(0, query, inside) / size[:, None]

    @property
    def relation_turns(self) -> RelationTurns:
        """Turns 2 and 3, which this model must have."""
        if self.relations is None:
            raise ValueError("this model was built for entities alone and has no turns 2 and 3")
        return self.relations

    def loss(self, batch: CascadeBatch, weights: TurnWeights) -> CascadeLoss:
        """The three turns' losses for a batch, each per sentence."""
        features = self.features(batch.rows)
        n = batch.n_sentences
        real = padding_mask(batch.lengths, features.shape[1]).unsqueeze(2).to(features.dtype)
        counts, query_counts = _pair_weights(batch)
        if batch.weight is not None:
            real = real * batch.weight[:, None, None]
        logits = self.entity_head(self.entity_inputs(features[:n]), batch.pairs)
        entity = span_loss(logits, batch.entities, real, weights.entity, n, counts)
        if self.relations is None:
            return CascadeLoss(entity, torch.zeros_like(entity), torch.zeros_like(entity))
        tags = self.tags(batch.given, (n, features.shape[1]))
        words = self.subject_inputs(features.index_select(0, batch.subject_rows), tags)
        logits = self.relations.subject_head(words, batch.pairs)
        subject = span_loss(logits, batch.subjects, real, weights.subject, n, counts)
        words = self.object_inputs(features.index_select(0, batch.object_rows), tags, batch.queries)
        logits = self.relations.object_head(words, batch.query_pairs)
        real = real.index_select(0, batch.queries.sentence)
        return CascadeLoss(entity, subject, span_loss(logits, batch.objects, real, weights.object, n, query_counts))

    def forward(self, batch: CascadeBatch, weights: TurnWeights) -> CascadeLoss:
        """Same as :meth:`loss`: the call that wrappers for several devices go through."""
        return self.loss(batch, weights)


def _pair_weights(batch: CascadeBatch) -> tuple[Tensor | None, Tensor | None]:
    """What the sentence of each pair counts, for the pairs of sentences and for those of queries. Shapes: (n, 1)."""
    if batch.weight is None:
        return None, None
    of_query = batch.weight.index_select(0, batch.queries.sentence)
    found = batch.weight.index_select(0, batch.pairs.row), of_query.index_select(0, batch.query_pairs.row)
    return found[0][:, None], found[1][:, None]


def words_at(features: Tensor, row: Tensor, word: Tensor) -> Tensor:
    """Chosen words of a batch. Shapes: features (n_rows, n_words, …); row, word (n,); returns (n, …)."""
    return features.flatten(0, 1).index_select(0, row * features.shape[1] + word)


def _tags_at(tags: Tensor | None, sentence: Tensor, word: Tensor) -> Tensor | None:
    return None if tags is None else words_at(tags, sentence, word)
