"""The search of a cascade of torch, with what makes it fast on a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch

from cascade_srn.encoder.cuda_graphs.passes import pass_graphs
from cascade_srn.encoder.pieces import Row
from cascade_srn.inference.annotations import SearchResult
from cascade_srn.inference.cascade_search import CascadeSearch
from cascade_srn.inference.cuda_graphs.captured_turns import CapturedTurns
from cascade_srn.inference.cuda_graphs.static_shapes import MAX_PIECES, MAX_ROWS
from cascade_srn.inference.cuda_graphs.turns import PredictionGraphs, prediction_graphs
from cascade_srn.inference.predictor import SearchSettings
from cascade_srn.inference.torch_turns import TorchTurns
from cascade_srn.network.cascade import Cascade
from cascade_srn.network.examples import Example
from cascade_srn.network.rows import RowCollator

_THREAD = threading.local()


class TorchSearch:
    """Finds entities and triples in a batch with a cascade of torch. See :class:`.Search`.

    A GPU replays small batches, and the encoder passes of large ones, as CUDA graphs. It reads the next large batch
    while the host decodes the one before.
    """

    def __init__(
        self,
        cascade: Cascade,
        collator: RowCollator,
        settings: SearchSettings,
        graphs: PredictionGraphs | None = None,
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
        graphs = pass_graphs(self.cascade.encoder) if self.settings.cuda_graphs else None
        search = self._search(TorchTurns(self.cascade, self.settings, graphs))
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

    def _usable_graphs(self, rows: Sequence[Row]) -> PredictionGraphs | None:
        if self._graphs is not None:
            return self._graphs
        is_allowed = self.settings.cuda_graphs and self.settings.device.type == "cuda"
        return prediction_graphs(self.cascade) if is_allowed and self._is_small(rows) else None

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
