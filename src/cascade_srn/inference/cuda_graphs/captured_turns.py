"""The three turns of a cascade of torch by CUDA graphs, for small batches on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.encoder.pieces import RowArrays
from cascade_srn.encoder.windows import Integers
from cascade_srn.inference.cuda_graphs.static_shapes import (
    RowShape,
    SpanPairs,
    SpanShape,
    pack_rows,
    triangle_position,
)
from cascade_srn.inference.cuda_graphs.turns import PredictionGraphs, WordsCall, probability
from cascade_srn.inference.decode import Floats
from cascade_srn.inference.torch_turns import TorchTurns, Words
from cascade_srn.inference.transfer import HostCopy
from cascade_srn.inference.turns import EntityScores, ObjectScores


@dataclass(frozen=True)
class CapturedWords:
    """Words that a graph has read, with padding. They are valid until the graph is replayed."""

    call: WordsCall
    scores: HostCopy
    n_rows: int
    n_words: int

    def as_words(self) -> Words:
        """Return the features without padding."""
        return Words(self.call.call.features[: self.n_rows, : self.n_words].contiguous())


@dataclass(frozen=True)
class _Tags:
    """Entities, whose tags are computed where they are used."""

    entities: Integers
    shape: tuple[int, int]


@dataclass(frozen=True)
class _Related:
    """Logits of turn 3 for all pairs of spans. Shapes: logits (n_pairs, n_labels)."""

    pairs: SpanPairs
    logits: Floats


class CapturedTurns:
    """The turns of a cascade by CUDA graphs, and without them where there is no graph. See :class:`.Turns`.

    Args:
        plain: The turns without graphs.
        graphs: The graphs, which are reserved for this batch.
        limit: Largest number of pieces that the encoder reads.
        pad_id: Piece of padding.
    """

    def __init__(self, plain: TorchTurns, graphs: PredictionGraphs, *, limit: int, pad_id: int) -> None:
        self.plain = plain
        self.settings = plain.settings
        self.cascade = plain.cascade
        self.graphs = graphs
        self.limit, self.pad_id = limit, pad_id
        self.has_relations, self.pairs_at_once = plain.has_relations, plain.pairs_at_once
        self.division = plain.division
        self._related: _Related | None = None

    def features(self, rows: RowArrays, *, entities: bool = False) -> Words | CapturedWords:
        """See :class:`.Turns`."""
        shape, settings = RowShape.find(rows, self.limit), self.settings
        # A graph has a fixed precision.
        if shape is None or torch.is_autocast_enabled(settings.device.type):
            return self.plain.features(rows, entities=entities)
        call = self.graphs.words(self.cascade, shape, settings.device, settings.half)
        if call is None:
            return self.plain.features(rows, entities=entities)
        scores = call.call.launch(lambda out: pack_rows(rows, shape, self.pad_id, out))
        return CapturedWords(call, scores, *rows.word_items.shape)

    def entities(self, words: Words | CapturedWords) -> tuple[Floats, Floats, EntityScores]:
        """See :class:`.Turns`."""
        if isinstance(words, Words):
            return self.plain.entities(words)
        shape, offset = words.call.shape, self.settings.entity_offset
        logits, n_all = words.scores.read(), shape.n_words * len(offset)
        table = logits[2 * n_all :].reshape(shape.n_rows, -1, len(offset))
        both = logits[: 2 * n_all].reshape(2, *shape, len(offset))[:, : words.n_rows, : words.n_words]
        start, end = probability(both, self.settings.temperatures.entity, offset)

        def match(row: Integers, first: Integers, last: Integers, label: Integers) -> Floats:
            found: Floats = table[row, triangle_position(first, last, shape.width), label]
            return probability(found, self.settings.temperatures.entity, offset[label])

        return start, end, match

    def tags(self, entities: Integers, shape: tuple[int, int]) -> _Tags:
        """See :class:`.Turns`."""
        return _Tags(entities, shape)

    def subjects(self, words: Words | CapturedWords, tags: _Tags, spans: Integers) -> Floats:
        """See :class:`.Turns`. A graph also computes the objects of all spans, for :meth:`objects`."""
        self._related = None
        # Without a fusion, turn 3 reads other rows.
        if isinstance(words, CapturedWords) and self.cascade.relation_turns.subject_fusion is not None:
            pairs = SpanPairs(spans, words.n_rows)
            shape = SpanShape.find(len(spans), len(tags.entities), pairs.n_pairs)
            call = None if shape is None else self.graphs.related(self.cascade, words.call, shape)
            if shape is not None and call is not None:
                logits = call.launch(lambda out: pairs.pack(tags.entities, shape, out)).read()
                self._related = _Related(pairs, logits[shape.n_spans :].reshape(shape.n_pairs, -1))
                return probability(logits[: len(spans)], self.settings.temperatures.subject)
        return self.plain.subjects(_as_words(words), self._plain_tags(tags), spans)

    def objects(self, words: Words | CapturedWords, tags: _Tags, subjects: Integers, spans: Integers) -> ObjectScores:
        """See :class:`.Turns`."""
        related = self._related
        if related is None:
            return self.plain.objects(_as_words(words), self._plain_tags(tags), subjects, spans)
        position = related.pairs.find_spans(subjects)

        def score(query: Integers, span: Integers) -> Callable[[], Floats]:
            chosen = related.pairs.position(position[query], span)
            return lambda: probability(related.logits[chosen], self.settings.temperatures.object)

        return score

    def _plain_tags(self, tags: _Tags) -> Tensor | None:
        return self.plain.tags(tags.entities, tags.shape)


def _as_words(words: Words | CapturedWords) -> Words:
    return words if isinstance(words, Words) else words.as_words()
