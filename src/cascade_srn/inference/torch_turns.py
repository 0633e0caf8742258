"""The three turns of a cascade of torch, for the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cascade_srn.encoder.cuda_graphs.passes import PassGraphs
from cascade_srn.encoder.pieces import RowArrays, RowBatch
from cascade_srn.encoder.windows import FullPasses, Integers
from cascade_srn.inference.decode import Floats
from cascade_srn.inference.predictor import SearchSettings
from cascade_srn.inference.transfer import HostCopy, send
from cascade_srn.inference.turns import EntityScores, ObjectScores
from cascade_srn.network.cascade import Cascade
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels
from cascade_srn.network.span_extraction import Pairs

# Number of pieces of an encoder pass that is captured as a CUDA graph.
_PASS_PIECES = 8192
_PAIRS_AT_ONCE, _PAIRS_AT_ONCE_ON_CPU = 1 << 13, 1 << 9


@dataclass(frozen=True)
class Words:
    """Features of words. If turn 1 reads them, also its start and end probabilities and a function for matches."""

    features: Tensor
    boundaries: HostCopy | None = None
    match_logits: Callable[[Pairs], Tensor] | None = None


class TorchTurns:
    """The turns of a cascade of torch. See :class:`.Turns`.

    ``graphs`` replay encoder passes.
    """

    def __init__(self, cascade: Cascade, settings: SearchSettings, graphs: PassGraphs | None = None) -> None:
        self.cascade = cascade
        self.graphs = graphs
        self.division = None if graphs is None else FullPasses(min(_PASS_PIECES, settings.pass_pieces))
        self.settings = settings
        self.has_relations = cascade.relations is not None
        # A CPU is faster with few pairs, because they stay in its cache.
        self.pairs_at_once = _PAIRS_AT_ONCE_ON_CPU if settings.device.type == "cpu" else _PAIRS_AT_ONCE
        self._entity_offset = settings.tensor(settings.entity_offset)

    def features(self, rows: RowArrays, *, entities: bool = False) -> Words:
        """See :class:`.Turns`. A GPU computes the boundaries of turn 1 and copies them without waiting."""
        batch = RowBatch.from_arrays(rows)
        sent: dict[str, Any] = {
            field.name: send(value, self.settings.device)
            for field in fields(batch)
            if isinstance(value := getattr(batch, field.name), Tensor)
        }
        settings = self.settings
        features = self.cascade.features(
            replace(batch, **sent), half=settings.half, check=settings.check, graphs=self.graphs
        )
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
            columns = self.settings.tensor(np.stack((row, first, last, label))).unbind(0)
            logits = match_logits(Pairs(*columns[:3])).gather(1, columns[3][:, None])[:, 0]
            return _to_host((logits / temperature + offset[columns[3]]).sigmoid())

        return both[0], both[1], match

    def tags(self, entities: Integers, shape: tuple[int, int]) -> Tensor | None:
        """See :class:`.Turns`."""
        return self.cascade.tags(SpanLabels(*self.settings.tensor(entities).unbind(1)), shape)

    def subjects(self, words: Words, tags: Tensor | None, spans: Integers) -> Floats:
        """See :class:`.Turns`."""
        logits = self.cascade.subject_span_logits(words.features, tags, self.settings.tensor(spans))
        return _to_host(_min_score(logits, self.settings.temperatures.subject)[:, 0])

    def objects(self, words: Words, tags: Tensor | None, subjects: Integers, spans: Integers) -> ObjectScores:
        """See :class:`.Turns`."""
        queries = Queries(*self.settings.tensor(subjects).unbind(1))
        logits = self.cascade.object_span_logits(words.features, tags, queries, self.settings.tensor(spans))

        def score(query: Integers, span: Integers) -> Callable[[], Floats]:
            chosen = self.settings.tensor(np.stack((query, span))).unbind(0)
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
