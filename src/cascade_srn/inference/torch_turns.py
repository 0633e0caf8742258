"""The three turns of a PyTorch cascade, for the search, with copies that do not wait for the work that a GPU has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cascade_srn.encoder.pieces import RowArrays, RowBatch
from cascade_srn.encoder.pretrained import ReplayPass
from cascade_srn.encoder.windows import FullPasses, Integers
from cascade_srn.inference.cascade_search import CascadeSearch, EntityScores, ObjectScores, SearchSettings
from cascade_srn.inference.decode import Floats
from cascade_srn.network.cascade import Cascade
from cascade_srn.network.examples import RowCollator
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels
from cascade_srn.network.span_extraction import Pairs


def send(values: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Copy values to a device. Without pinned memory, the copy would wait for the GPU."""
    tensor = torch.from_numpy(values)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class HostCopy:
    """A copy of a tensor on the host, which starts at once and is waited for when it is read."""

    def __init__(self, values: Tensor, into: Tensor | None = None) -> None:
        """Start the copy, if given into a pinned tensor of the same size."""
        self._event: torch.cuda.Event | None = None
        if not values.is_cuda:
            self._values = values
            return
        with torch.cuda.device(values.device):
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True) if into is None else into
            self._values.copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> np.ndarray[Any, Any]:
        """Wait for the copy and return it."""
        if self._event is not None:
            self._event.synchronize()
        found: np.ndarray[Any, Any] = self._values.numpy()
        return found


# Number of pieces of an encoder pass that is replayed.
_PASS_PIECES = 8192
_PAIRS_AT_ONCE, _PAIRS_AT_ONCE_ON_CPU = 1 << 13, 1 << 9


@dataclass(frozen=True)
class Words:
    """Features of words. If turn 1 reads them, also its start and end probabilities and a function for matches."""

    features: Tensor
    boundaries: HostCopy | None = None
    match_logits: Callable[[Pairs], Tensor] | None = None


class TorchTurns:
    """The turns of a PyTorch cascade. See :class:`.Turns`.

    ``replay`` runs encoder passes of few shapes.
    """

    def __init__(self, cascade: Cascade, settings: SearchSettings, replay: ReplayPass | None = None) -> None:
        self.cascade = cascade
        self.replay = replay
        self.division = None if replay is None else FullPasses(min(_PASS_PIECES, settings.pass_pieces))
        self.settings = settings
        self.has_relations = cascade.relations is not None
        # A CPU is faster with few pairs, because they stay in its cache.
        self.pairs_at_once = _PAIRS_AT_ONCE_ON_CPU if settings.device.type == "cpu" else _PAIRS_AT_ONCE
        self._entity_offset = self._send(settings.entity_offset)

    def _send(self, values: np.ndarray[Any, Any]) -> Tensor:
        return send(values, self.settings.device)

    def features(self, rows: RowArrays, *, entities: bool = False) -> Words:
        """See :class:`.Turns`. A GPU computes the boundaries of turn 1 and copies them without waiting."""
        batch, settings = RowBatch.from_arrays(rows, self._send), self.settings
        features = self.cascade.features(batch, bf16=settings.bf16, check=settings.check, replay=self.replay)
        if not entities:
            return Words(features)
        start, end, match_logits = self.cascade.entity_boundaries(features)
        # Stacked, so that a GPU copies both at once.
        scaled = torch.stack((start, end)) / self.settings.temperatures.entity + self._entity_offset
        return Words(features, HostCopy(scaled.sigmoid()), match_logits)

    def entities(self, words: Words) -> tuple[Floats, Floats, EntityScores]:
        """See :class:`.Turns`. The words were read for turn 1."""
        temperature, offset = self.settings.temperatures.entity, self._entity_offset
        match_logits = words.match_logits
        assert words.boundaries is not None
        assert match_logits is not None
        both = words.boundaries.read()

        def match(row: Integers, first: Integers, last: Integers, label: Integers) -> Floats:
            columns = self._send(np.stack((row, first, last, label))).unbind(0)
            logits = match_logits(Pairs(*columns[:3])).gather(1, columns[3][:, None])[:, 0]
            return _to_host((logits / temperature + offset[columns[3]]).sigmoid())

        return both[0], both[1], match

    def tags(self, entities: Integers, shape: tuple[int, int]) -> Tensor | None:
        """See :class:`.Turns`."""
        return self.cascade.tags(SpanLabels(*self._send(entities).unbind(1)), shape)

    def subjects(self, words: Words, tags: Tensor | None, spans: Integers) -> Floats:
        """See :class:`.Turns`."""
        logits = self.cascade.subject_span_logits(words.features, tags, self._send(spans))
        return _to_host(_min_score(logits, self.settings.temperatures.subject)[:, 0])

    def objects(self, words: Words, tags: Tensor | None, subjects: Integers, spans: Integers) -> ObjectScores:
        """See :class:`.Turns`."""
        queries = Queries(*self._send(subjects).unbind(1))
        logits = self.cascade.object_span_logits(words.features, tags, queries, self._send(spans))

        def score(query: Integers, span: Integers) -> Callable[[], Floats]:
            chosen = self._send(np.stack((query, span))).unbind(0)
            return HostCopy(_min_score(logits(*chosen), self.settings.temperatures.object)).read

        return score


def _min_score(logits: tuple[Tensor, ...], temperature: float) -> Tensor:
    """Return the smallest probability, which is that of the smallest logit."""
    first, *others = logits
    for other in others:
        first = torch.minimum(first, other)
    return (first / temperature).sigmoid()


def _to_host(values: Tensor) -> Floats:
    found: Floats = HostCopy(values).read()
    return found


def search_cascade(cascade: Cascade, collator: RowCollator, settings: SearchSettings) -> CascadeSearch:
    """Make the search of a cascade, without what a GPU needs to be fast."""
    return CascadeSearch(TorchTurns(cascade, settings), collator, settings)
