"""CUDA graphs for the prediction of small batches.

One sentence takes about 400 small kernels, and launching them takes several times as long as running them. Two graphs
launch them at once. The first one reads rows: encoder, SRN, and turn 1 for all pairs of words. The second one reads the
entities that were found: turns 2 and 3 for all pairs of entities. The host thus waits twice for the GPU.

Batches are padded to the shapes of :mod:`.static_shapes`. Graphs compute what the same batch without a graph computes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from cascade_srn.encoder.cuda_graphs.pool import CudaGraphPool, RecurringCudaGraphs
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.encoder.windows import Integers
from cascade_srn.inference.cuda_graphs.static_shapes import RowShape, SpanShape, split_points
from cascade_srn.inference.torch_turns import HostCopy
from cascade_srn.network.cascade import Cascade
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels
from cascade_srn.network.span_extraction import Pairs

# Bounds the memory of the graphs: each holds its outputs, of at most some megabytes. All share one pool for the rest.
_MAX_GRAPHS = 128

Compute = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Returns features and scores from a buffer of integers."""


class StaticCall:
    """A function of a buffer of integers that is replayed as a CUDA graph, or called each time on a CPU.

    Attributes:
        features: The features that the last launch computed, valid until the next one.
    """

    def __init__(self, compute: Compute, size: int, device: torch.device, pool: CudaGraphPool | None) -> None:
        self._compute: Compute | None = compute
        self._buffer = torch.zeros(size, dtype=torch.int64, device=device)
        self._host = torch.zeros(size, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._last: HostCopy | None = None
        self._graph = None if pool is None else pool.capture(self._run, device)
        if self._graph is not None:
            self._found = torch.empty(self._scores.shape, dtype=self._scores.dtype, pin_memory=True)
            # The function refers to the model, which must not live as long as its graphs.
            self._compute = None

    def _run(self) -> None:
        assert self._compute is not None
        self.features, self._scores = self._compute(self._buffer)

    def launch(self, fill: Callable[[Integers], None]) -> HostCopy:
        """Fill the buffer, compute, and start the copy of the scores to the host."""
        if self._last is not None:
            # The buffers may still be in use.
            self._last.read()
        fill(self._host.numpy())
        with _guard(self._buffer.device):
            self._buffer.copy_(self._host, non_blocking=True)
            if self._graph is None:
                self._run()
                return HostCopy(self._scores)
            self._graph.replay()
            self._last = HostCopy(self._scores, self._found)
            return self._last


class WordsCall:
    """The first graph of a shape of rows, and the second graphs that read its features."""

    def __init__(
        self, cascade: Cascade, shape: RowShape, device: torch.device, bf16: bool, pool: CudaGraphPool | None
    ) -> None:
        self.shape, self.device = shape, device
        self.related: dict[SpanShape, StaticCall] = {}
        with torch.device(device):
            row, (first, last) = torch.arange(shape.n_rows), torch.triu_indices(shape.width, shape.width)
            self.pairs = Pairs(row.repeat_interleave(len(first)), *(v.repeat(shape.n_rows) for v in (first, last)))
            # Made here, because a capture cannot copy from the host.
            self._position = torch.arange(shape.width)

        def compute(buffer: Tensor) -> tuple[Tensor, Tensor]:
            features = cascade.features(self._rows(buffer), bf16=bf16)
            *boundaries, match = cascade.entity_boundaries(features)
            return features, torch.cat([part.flatten() for part in (*boundaries, match(self.pairs))])

        self.call = StaticCall(compute, sum(shape.sizes), device, pool)

    def _rows(self, buffer: Tensor) -> RowBatch:
        shape = self.shape
        ids, source, target, word_items, *lengths = (buffer[part] for part in split_points(shape.sizes))
        return RowBatch(
            piece_ids=ids.view(shape),
            piece_mask=self._position < lengths[0][:, None],
            source=source,
            target=target,
            item_lengths=lengths[1],
            word_items=word_items.view(shape),
            word_lengths=lengths[2],
            n_items=shape.width,
            passes=((shape.n_rows, shape.width),),
        )

    def add_related(self, cascade: Cascade, shape: SpanShape, pool: CudaGraphPool | None) -> None:
        """Make the call for turns 2 and 3 of spans."""

        def compute(buffer: Tensor) -> tuple[Tensor, Tensor]:
            words = self.call.features
            spans, entities, *pairs = (buffer[part] for part in split_points(shape.sizes))
            spans, columns = spans.view(-1, 3), entities.view(-1, 4).unbind(1)
            tags = cascade.tags(SpanLabels(*columns), (self.shape.n_rows, self.shape.width))
            subjects = cascade.subject_span_logits(words, tags, spans)
            objects = cascade.object_span_logits(words, tags, Queries(*spans.unbind(1)), spans)(*pairs)
            return words, torch.cat([_smallest(logits).flatten() for logits in (subjects, objects)])

        self.related[shape] = StaticCall(compute, sum(shape.sizes), self.device, pool)


def _smallest(logits: tuple[Tensor, ...]) -> Tensor:
    """Return the smallest logits, whose probability is the smallest one."""
    first, *others = logits
    for other in others:
        first = torch.minimum(first, other)
    return first


class PredictionCudaGraphs(RecurringCudaGraphs):
    """The graphs of a model. One prediction at a time uses them, with :meth:`reserve`."""

    def __init__(self, *, max_graphs: int = _MAX_GRAPHS, **settings: Any) -> None:
        """Make the graphs. See :class:`.RecurringCudaGraphs` for ``settings``."""
        self._lock = Lock()
        super().__init__(max_graphs=max_graphs, **settings)

    def _clear(self) -> None:
        super()._clear()
        self._words: dict[tuple[RowShape, bool], WordsCall] = {}

    def reserve(self) -> bool:
        """Return whether this prediction may use the graphs. If so, call :meth:`release` after it."""
        return self._lock.acquire(blocking=False)

    def release(self) -> None:
        """Let other predictions use the graphs. All results of this one have been read."""
        self._lock.release()

    def capture_ahead(self, cascade: Cascade, device: torch.device, bf16: bool, limit: int) -> None:
        """Capture the graphs of single sentences now, unless a prediction uses the graphs.

        ``limit`` is the largest number of pieces that the encoder reads.
        """
        if not self.reserve():
            return
        usual, self.min_occurrences = self.min_occurrences, 1
        try:
            has_related = cascade.relations is not None and cascade.relations.subject_fusion is not None
            for shape in RowShape.of_sentences(limit):
                words = self.words(cascade, shape, device, bf16)
                if words is None or not has_related:
                    continue
                for spans in SpanShape.of_sentences():
                    self.related(cascade, words, spans)
        finally:
            self.min_occurrences = usual
            self.release()

    def words(self, cascade: Cascade, shape: RowShape, device: torch.device, bf16: bool) -> WordsCall | None:
        """Return the call for rows of a shape, or None if there is none yet."""
        self._drop_if_moved(cascade)
        key = shape, bf16
        if key not in self._words:
            made = self._make(key, cascade, device, lambda pool: WordsCall(cascade, shape, device, bf16, pool))
            if made is None:
                return None
            self._words[key] = made
        return self._words[key]

    def related(self, cascade: Cascade, words: WordsCall, shape: SpanShape) -> StaticCall | None:
        """Return the call for spans of words that were read, or None if there is none yet."""
        if shape not in words.related:
            device = words.device
            self._make((id(words), shape), cascade, device, lambda pool: words.add_related(cascade, shape, pool))
        return words.related.get(shape)


# Not attributes of the networks, because graphs cannot be copied or pickled.
_GRAPHS: WeakKeyDictionary[Cascade, PredictionCudaGraphs] = WeakKeyDictionary()
_MAKING = Lock()


def prediction_cuda_graphs(cascade: Cascade) -> PredictionCudaGraphs:
    """Return the graphs of a model."""
    with _MAKING:
        return _GRAPHS.setdefault(cascade, PredictionCudaGraphs())


def _guard(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
