"""A pipeline of two models: spans are classified, and then pairs of entities, each with an encoder of its own.

After PURE: Zhong and Chen, "A Frustratingly Easy Approach for Entity and Relation Extraction", NAACL 2021,
https://arxiv.org/abs/2010.12812. The relation model reads the sentence anew for every pair of entities, with text
markers around the two that tell which is the subject, which the object, and their types.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from cascade_srn.baselines.limits import refuse_what_the_cascade_learns_from
from cascade_srn.cascade import CascadeLoss, words_at
from cascade_srn.config import FusionSettings, TurnWeights
from cascade_srn.data.batch import DEFAULT_BATCH_SETTINGS, BatchSettings, to_device
from cascade_srn.data.collate import corrupt
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row, RowBatch, WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.fusion.markers import Markers, marker_names
from cascade_srn.heads import Pairs, pairs_within
from cascade_srn.heads.span_extraction import MATCH_PRIOR
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span

# Markers are those of the cascade's fusion by markers, around entities whose "type" is a role and a type.
_MARKERS = FusionSettings("markers", "span")
SUBJECT, OBJECT = "S", "O"
# Two markers around the subject and two around the object.
N_MARKERS = 4


@dataclass(frozen=True)
class PipelineBatch:
    """Sentences with gold annotation, ready for the loss.

    Shapes:
        spans: all spans up to the longest that are classified
        types: (n_spans,), classes, 0 for what is no entity
        pair_rows: a row for every pair of entities; None where relations are not learned
        openings: (n_pairs, 2), the items of a row that open subject and object
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
        """The same batch on a device."""
        return to_device(self, device)


class PipelineCollator:
    """Makes rows and batches for a pipeline; ``markers`` are those of :func:`find_markers`."""

    def __init__(self, pieces: WordPieces, schema: Schema, markers: Markers, *, max_words: int) -> None:
        self.pieces = pieces
        self.schema = schema
        self.markers = markers
        self.max_words = max_words

    def plain(self, example: Example) -> Row:
        """What the entity model reads."""
        return self.pieces.row(example.sentence.words, example.left, example.right)

    def with_pair(self, row: Row, subject: Span, object_: Span) -> tuple[Row, tuple[int, int]]:
        """What the relation model reads for a pair of entities, and the items that open the two."""
        around = [
            Span(entity.start, entity.end, f"{role}:{entity.label}")
            for role, entity in ((SUBJECT, subject), (OBJECT, object_))
        ]
        marked = self.markers.insert(row, around)
        before = [int(marked.word_items[entity.start]) - 1 for entity in (subject, object_)]
        if subject.start == object_.start:
            # Both open before the same word: the longer one first, and of equals the subject.
            before[0 if subject.end >= object_.end else 1] -= 1
        return marked, (before[0], before[1])

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> PipelineBatch:
        """Gold sentences as a batch for the loss.

        The relation model learns from all pairs of gold entities, as published, or with ``settings.corruption`` from
        pairs of entities of which about such a share has a mistake; a pair's relation is that of the same words.
        """
        refuse_what_the_cascade_learns_from("pipeline", examples, settings)
        rng = random.Random() if rng is None else rng
        plain = [self.pieces.masked(self.plain(example), settings.masking, rng) for example in examples]
        rows = self.pieces.batch(plain, settings.division)
        sentences = [example.sentence for example in examples]
        marked: list[Row] = []
        openings: list[tuple[int, int]] = []
        relations: list[int] = []
        for row, sentence in zip(plain, sentences, strict=True):
            known = _relations_of(sentence, self.schema)
            given = self._given(sentence, settings.corruption, rng) if settings.joint else ()
            for subject, object_ in ordered_pairs(given):
                pair_row, at = self.with_pair(row, subject, object_)
                marked.append(pair_row)
                openings.append(at)
                relations.append(known.get((_words(subject), _words(object_)), 0))
        spans = spans_within(rows.word_lengths, self.max_words)
        return PipelineBatch(
            rows=rows,
            spans=spans,
            types=self._types(sentences, spans),
            pair_rows=self.pieces.batch(marked, settings.division) if settings.joint else None,
            openings=torch.tensor(openings, dtype=torch.long).view(-1, 2),
            relations=torch.tensor(relations, dtype=torch.long),
            n_sentences=len(sentences),
        )

    def _given(self, sentence: Sentence, corruption: float, rng: random.Random) -> Sequence[Span]:
        if corruption == 0:
            return sentence.entities
        return corrupt(sentence.entities, len(sentence), self.schema.entity_types, corruption, rng)

    def _types(self, sentences: Sequence[Sentence], spans: Pairs) -> Tensor:
        """The class of each span; of several types on the same words, the first of the schema."""
        known: dict[tuple[int, int, int], int] = {}
        for row, sentence in enumerate(sentences):
            for entity in sentence.entities:
                at, number = (row, entity.start, entity.end - 1), 1 + self.schema.entity_types.index(entity.label)
                known[at] = min(number, known.get(at, number))
        places = torch.stack((spans.row, spans.start, spans.last), dim=1).tolist()
        return torch.tensor([known.get(tuple(place), 0) for place in places], dtype=torch.long)


def pipeline_markers(schema: Schema) -> dict[str, str]:
    """The markers of the relation model, each with words that describe it."""
    return marker_names(_MARKERS, _roles(schema))


def find_markers(schema: Schema, tokenizer: Any) -> Markers:
    """The same, looked up in a tokenizer that holds them."""
    return Markers.of(_MARKERS, _roles(schema), tokenizer)


def _roles(schema: Schema) -> list[str]:
    return [f"{role}:{label}" for role in (SUBJECT, OBJECT) for label in schema.entity_types]


def ordered_pairs(entities: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """All pairs of different entities, as subject and object."""
    for subject in entities:
        for object_ in entities:
            if subject != object_:
                yield subject, object_


def spans_within(lengths: Tensor, max_words: int) -> Pairs:
    """All spans of up to ``max_words`` words. Shapes: lengths (n_rows,)."""
    pairs = pairs_within(lengths)
    short = pairs.last - pairs.start < max_words
    return Pairs(pairs.row[short], pairs.start[short], pairs.last[short])


def _words(entity: Span) -> tuple[int, int]:
    return entity.start, entity.end


def _relations_of(sentence: Sentence, schema: Schema) -> dict[tuple[tuple[int, int], tuple[int, int]], int]:
    """The class of each pair of spans that is related; of several relations, the first of the schema."""
    known: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}
    for triple in sentence.triples:
        pair, number = (_words(triple.head), _words(triple.tail)), 1 + schema.relation_types.index(triple.label)
        known[pair] = min(number, known.get(pair, number))
    return known


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
