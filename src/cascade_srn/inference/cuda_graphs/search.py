"""The three turns and the search of a PyTorch cascade on a GPU.

A GPU replays small batches, and the encoder passes of large ones, as CUDA graphs. It reads the next large batch while
the host decodes the one before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.encoder.cuda_graphs.passes import pass_cuda_graphs
from cascade_srn.encoder.pieces import Row, RowArrays
from cascade_srn.encoder.windows import Integers
from cascade_srn.inference.cascade_search import CascadeSearch, EntityScores, ObjectScores, SearchSettings
from cascade_srn.inference.cuda_graphs.static_shapes import (
    MAX_PIECES,
    MAX_ROWS,
    RowShape,
    SpanPairs,
    SpanShape,
    pack_rows,
    triangle_position,
)
from cascade_srn.inference.cuda_graphs.turns import PredictionCudaGraphs, WordsCall, prediction_cuda_graphs
from cascade_srn.inference.decode import Floats, SearchResult, probability
from cascade_srn.inference.torch_turns import HostCopy, TorchTurns, Words
from cascade_srn.network.cascade import Cascade
from cascade_srn.network.examples import Example, RowCollator


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
    """The turns of a cascade by CUDA graphs, and without them where there is no graph. See :class:`.Turns`."""

    def __init__(self, plain: TorchTurns, graphs: PredictionCudaGraphs, *, limit: int, pad_id: int) -> None:
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
        call = self.graphs.words(self.cascade, shape, settings.device, settings.bf16)
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


_THREAD = threading.local()


class CudaSearch:
    """Finds entities and triples in a batch with a PyTorch cascade. See :class:`.Search`."""

    def __init__(
        self,
        cascade: Cascade,
        collator: RowCollator,
        settings: SearchSettings,
        graphs: PredictionCudaGraphs | None = None,
    ) -> None:
        """Make the search. ``graphs`` are those to use in place of the model's own."""
        self.cascade = cascade
        self.collator = collator
        self.settings = settings
        self._graphs = graphs

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Run the three turns, or turns 2 and 3 if the entities are given."""
        plain = TorchTurns(self.cascade, self.settings)
        graphs = self._usable_graphs(rows)
        if graphs is None or not graphs.reserve():
            # Another thread uses the graphs, or a prediction that this one interrupts.
            return self._search(plain).find(examples, rows, given_entities=given_entities)
        try:
            pieces = self.collator.pieces
            captured = CapturedTurns(plain, graphs, limit=pieces.limit, pad_id=pieces.pad_id)
            return self._search(captured).find(examples, rows, given_entities=given_entities)
        finally:
            graphs.release()

    def begin(
        self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool
    ) -> Callable[[], list[SearchResult]]:
        """Let a GPU read the batch, and return a function that finds entities and triples in it."""
        device = self.settings.device
        replay = pass_cuda_graphs(self.cascade.encoder).read if self.settings.cuda_graphs else None
        search = self._search(TorchTurns(self.cascade, self.settings, replay))
        features = search.begin(examples, rows, given_entities=given_entities)
        with torch.cuda.device(device):
            ready = torch.cuda.Event()
            ready.record()

        def finish() -> list[SearchResult]:
            # On another stream, because the GPU has been given the next batch already. Results are read before the
            # features are freed, so that the streams need not wait for each other after that.
            # The weights that autocast keeps belong to the other stream.
            with torch.cuda.device(device), torch.cuda.stream(_turns_stream(device)), _without_casts():
                torch.cuda.current_stream().wait_event(ready)
                return search.finish(examples, rows, features, given_entities)

        return finish

    def _search(self, turns: TorchTurns | CapturedTurns) -> CascadeSearch:
        return CascadeSearch(turns, self.collator, self.settings)

    def _usable_graphs(self, rows: Sequence[Row]) -> PredictionCudaGraphs | None:
        if self._graphs is not None:
            return self._graphs
        is_allowed = self.settings.cuda_graphs and self.settings.device.type == "cuda"
        return prediction_cuda_graphs(self.cascade) if is_allowed and self._is_small(rows) else None

    def _is_small(self, rows: Sequence[Row]) -> bool:
        return len(rows) <= MAX_ROWS and len(rows) * max(len(row.pieces) for row in rows) <= MAX_PIECES


def _without_casts() -> torch.autocast:
    """Return a block in which autocast neither keeps nor reuses what it casts."""
    return torch.autocast("cuda", enabled=False, cache_enabled=False)


def _turns_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of turns 2 and 3 of this thread. Its small kernels go before those of the encoder."""
    streams: dict[torch.device, torch.cuda.Stream] = _THREAD.__dict__.setdefault("streams", {})
    if device not in streams:
        streams[device] = torch.cuda.Stream(device, priority=-1)
    return streams[device]
