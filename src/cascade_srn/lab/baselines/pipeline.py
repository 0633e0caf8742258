"""A pipeline of two models with separate encoders: the first classifies spans, the second pairs of entities.

It follows PURE: Zhong and Chen, "A Frustratingly Easy Approach for Entity and Relation Extraction", NAACL 2021,
https://arxiv.org/abs/2010.12812. The relation model reads the sentence again for every pair of entities. Text markers
show the roles (subject, object) and types of the two.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from cascade_srn.config import FusionSettings, TurnWeights
from cascade_srn.encoder.pieces import Row, RowBatch, WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.lab.baselines.limits import refuse_cascade_settings
from cascade_srn.network.batch import DEFAULT_BATCH_SETTINGS, BatchSettings, corrupt, to_device
from cascade_srn.network.cascade import CascadeLoss, Network, words_at
from cascade_srn.network.examples import Example
from cascade_srn.network.markers import Markers, marker_names
from cascade_srn.network.span_extraction import MATCH_PRIOR, Pairs, pairs_within
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span

# The entity markers of early fusion, around entities whose type combines role and type.
_MARKERS = FusionSettings("markers", "span")
SUBJECT, OBJECT = "S", "O"
# Two markers around the subject and two around the object.
N_MARKERS = 4
# The class of spans that are no entity, and of pairs without a relation.
NONE = 0


@dataclass(frozen=True)
class PipelineBatch:
    """A training batch of the pipeline.

    Shapes:
        spans: all spans up to the maximum length
        types: (n_spans,), classes, 0 for no entity
        pair_rows: one row for each pair of entities; None if relations are not learned
        openings: (n_pairs, 2), items of the opening markers of subject and object
        relations: (n_pairs,), classes, 0 for no relation
    """

    rows: RowBatch
    spans: Pairs
    types: Tensor
    pair_rows: RowBatch | None
    openings: Tensor
    relations: Tensor
    n_sentences: int

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on a device."""
        return to_device(self, device)


class PipelineCollator:
    """Makes rows and batches for a pipeline. ``markers`` are those of :func:`find_markers`."""

    def __init__(self, pieces: WordPieces, schema: Schema, markers: Markers, *, max_words: int) -> None:
        self.pieces = pieces
        self.schema = schema
        self.markers = markers
        self.max_words = max_words

    def plain(self, example: Example) -> Row:
        """Return the row of the entity model."""
        return self.pieces.row(example.sentence.words, example.left, example.right)

    def with_pairs(
        self, rows: Sequence[Row], pairs: Sequence[tuple[int, Span, Span]]
    ) -> tuple[list[Row], list[tuple[int, int]]]:
        """Return the rows of the relation model, and the items of the opening markers of both entities in each.

        ``pairs`` are positions of rows with a subject and an object.
        """
        spans = [
            [Span(e.start, e.end, f"{role}:{e.label}") for role, e in ((SUBJECT, subject), (OBJECT, object_))]
            for _, subject, object_ in pairs
        ]
        marked = self.markers.insert_all([rows[i] for i, _, _ in pairs], self.markers.around_entities(spans))
        openings = []
        for row, (_, subject, object_) in zip(marked, pairs, strict=True):
            items = [int(row.word_items[entity.start]) - 1 for entity in (subject, object_)]
            if subject.start == object_.start:
                # Both markers precede the same word: the longer entity opens first, and the subject if they are equal.
                items[0 if subject.end >= object_.end else 1] -= 1
            openings.append((items[0], items[1]))
        return marked, openings

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> PipelineBatch:
        """Make a training batch of gold sentences.

        The relation model learns from all pairs of gold entities, as published. With ``settings.corruption``, it learns
        from pairs of corrupted entities. The target of a pair is the gold relation between the same words.
        """
        refuse_cascade_settings("pipeline", examples, settings)
        rng = random.Random() if rng is None else rng
        plain = [self.pieces.mask_words(self.plain(example), settings.masking, rng) for example in examples]
        rows = self.pieces.batch(plain, settings.division)
        sentences = [example.sentence for example in examples]
        pairs: list[tuple[int, Span, Span]] = []
        relations: list[int] = []
        for number, sentence in enumerate(sentences):
            gold = _relation_classes(sentence, self.schema)
            entities = self._training_entities(sentence, settings.corruption, rng) if settings.joint else ()
            for subject, object_ in ordered_pairs(entities):
                pairs.append((number, subject, object_))
                relations.append(gold.get((_words(subject), _words(object_)), NONE))
        marked, openings = self.with_pairs(plain, pairs)
        spans = pairs_within(rows.word_lengths, self.max_words)
        return PipelineBatch(
            rows=rows,
            spans=spans,
            types=self._entity_classes(sentences, spans),
            pair_rows=self.pieces.batch(marked, settings.division) if settings.joint else None,
            openings=torch.tensor(openings, dtype=torch.long).view(-1, 2),
            relations=torch.tensor(relations, dtype=torch.long),
            n_sentences=len(sentences),
        )

    def _training_entities(self, sentence: Sentence, corruption: float, rng: random.Random) -> Sequence[Span]:
        if corruption == 0:
            return sentence.entities
        return corrupt(sentence.entities, len(sentence), self.schema.entity_types, corruption, rng)

    def _entity_classes(self, sentences: Sequence[Sentence], spans: Pairs) -> Tensor:
        """Return the class of each span. Of several types on the same words, the first of the schema counts."""
        gold: dict[tuple[int, int, int], int] = {}
        for row, sentence in enumerate(sentences):
            for entity in sentence.entities:
                span, number = (row, entity.start, entity.end - 1), 1 + self.schema.entity_types.index(entity.label)
                gold[span] = min(number, gold.get(span, number))
        candidates = torch.stack((spans.row, spans.start, spans.last), dim=1).tolist()
        return torch.tensor([gold.get(tuple(span), NONE) for span in candidates], dtype=torch.long)


def pipeline_markers(schema: Schema) -> dict[str, str]:
    """Return the markers of the relation model, each with words that describe it."""
    return marker_names(_MARKERS, _roles_and_types(schema))


def find_markers(schema: Schema, tokenizer: Any) -> Markers:
    """Create the markers of the relation model with the ids of a tokenizer that contains them."""
    return Markers.from_tokenizer(_MARKERS, _roles_and_types(schema), tokenizer)


def _roles_and_types(schema: Schema) -> list[str]:
    return [f"{role}:{label}" for role in (SUBJECT, OBJECT) for label in schema.entity_types]


def ordered_pairs(entities: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield all pairs of different entities as subject and object."""
    for subject in entities:
        for object_ in entities:
            if subject != object_:
                yield subject, object_


def _words(entity: Span) -> tuple[int, int]:
    return entity.start, entity.end


def _relation_classes(sentence: Sentence, schema: Schema) -> dict[tuple[tuple[int, int], tuple[int, int]], int]:
    """Return the class of each related pair of spans. Of several relations, the first of the schema counts."""
    classes: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}
    for triple in sentence.triples:
        pair, number = (_words(triple.head), _words(triple.tail)), 1 + schema.relation_types.index(triple.label)
        classes[pair] = min(number, classes.get(pair, number))
    return classes


class SpanClassifier(nn.Module):
    """Classifies spans by first word, last word and length, with two hidden layers."""

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
        # The first layer over [first word; last word; length], in parts, so that each word is projected only once.
        self.first = nn.Linear(word_width, hidden_width)
        self.last = nn.Linear(word_width, hidden_width, bias=False)
        self.length = nn.Linear(length_width, hidden_width, bias=False)
        self.hidden = nn.Linear(hidden_width, hidden_width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_width, 1 + n_types)
        # Deviation: the published biases start at zero. An untrained model then predicts most spans as entities, and
        # the relation model has to read all pairs of them.
        with torch.no_grad():
            self.output.bias.zero_()
            self.output.bias[NONE] = -math.log(MATCH_PRIOR)

    def forward(self, words: Tensor, spans: Pairs) -> Tensor:
        """Compute the logits of the classes, NONE first.

        Shapes: words (n_rows, n_words, word_width); returns (n_spans, 1 + n_types)
        """
        first = words_at(self.first(words), spans.row, spans.start)
        last = words_at(self.last(words), spans.row, spans.last)
        length = self.length(self.lengths.weight).index_select(0, spans.last - spans.start)
        layer = self.dropout((first + last + length).relu())
        layer = self.dropout(self.hidden(layer).relu())
        logits: Tensor = self.output(layer)
        return logits


class PairClassifier(nn.Module):
    """Classifies pairs of entities by the vectors of their opening markers, with a norm and a linear layer."""

    def __init__(self, word_width: int, n_types: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * word_width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * word_width, 1 + n_types)

    def forward(self, items: Tensor, openings: Tensor) -> Tensor:
        """Compute the logits of the classes, NONE first.

        Shapes:
            items: (n_pairs, n_items, word_width), words and markers of the row of each pair
            openings: (n_pairs, 2), items of the opening markers of subject and object
            returns: (n_pairs, 1 + n_types)
        """
        pair = torch.arange(len(openings), device=openings.device).repeat_interleave(2)
        both = words_at(items, pair, openings.flatten()).view(len(openings), 2 * items.shape[-1])
        logits: Tensor = self.output(self.dropout(self.norm(both)))
        return logits


class TwoEncoders(nn.Module):
    """The pretrained encoders of the two models, with the same configuration and vocabulary but separate weights."""

    def __init__(self, entities: PretrainedEncoder, relations: PretrainedEncoder | None) -> None:
        super().__init__()
        self.entities = entities
        self.relations = relations

    @property
    def config(self) -> object:
        """The transformers configuration of both encoders."""
        return self.entities.config

    @property
    def model(self) -> nn.Module:
        """All pretrained parameters, for the optimiser, which finds the layer of a parameter by its name."""
        return self


class Pipeline(Network):
    """The two models of the pipeline, which share no weights. Without ``relations``, only the entity model."""

    def __init__(self, *, encoder: TwoEncoders, spans: SpanClassifier, relations: PairClassifier | None) -> None:
        super().__init__()
        if (encoder.relations is None) != (relations is None):
            raise ValueError("a relation model needs both an encoder and a classifier")
        self.encoder = encoder
        self.spans = spans
        self.relations = relations

    def span_logits(
        self, rows: RowBatch, spans: Pairs, *, bf16: bool = False, check: Callable[[], None] | None = None
    ) -> Tensor:
        """Compute the logits of the classes of spans. Shape: (n_spans, 1 + n_entity_types)."""
        logits: Tensor = self.spans(self.encoder.entities(rows, bf16=bf16, check=check), spans)
        return logits

    def pair_logits(self, rows: RowBatch, openings: Tensor, *, bf16: bool = False) -> Tensor:
        """Compute the logits of the classes of pairs, one row each. Shape: (n_pairs, 1 + n_relation_types)."""
        if self.encoder.relations is None or self.relations is None:
            raise ValueError("this model has no relation model")
        logits: Tensor = self.relations(self.encoder.relations(rows, bf16=bf16), openings)
        return logits

    def forward(self, batch: PipelineBatch, weights: TurnWeights) -> CascadeLoss:
        """Compute the cross-entropy of spans and pairs, per sentence.

        The weight of spans is that of the entity turn's matches. The weight of pairs is that of the object turn's.
        """
        n = max(batch.n_sentences, 1)
        entity = weights.entity.match * _cross_entropy(self.span_logits(batch.rows, batch.spans), batch.types) / n
        zero = torch.zeros_like(entity)
        if self.relations is None or batch.pair_rows is None:
            return CascadeLoss(entity, zero, zero)
        logits = self.pair_logits(batch.pair_rows, batch.openings)
        return CascadeLoss(entity, zero, weights.object.match * _cross_entropy(logits, batch.relations) / n)


def _cross_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, classes, reduction="sum")
