"""What models of torch and exported models have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from cascade_srn.config import OVERLAPS, ModelSettings, Thresholds
from cascade_srn.inference.predictor import Predictor, RowMaker, Search, SearchSettings, never_stop
from cascade_srn.network.examples import Example
from cascade_srn.schema import Schema


class BaseModel(ABC):
    """A model that an :class:`.Extractor` can use. See :class:`.Model` for the attributes."""

    settings: ModelSettings
    schema: Schema

    @property
    @abstractmethod
    def collator(self) -> RowMaker:
        """Makes rows for the encoder."""

    @property
    @abstractmethod
    def device(self) -> Any:
        """Device of the network: that of torch, or None without torch."""

    @property
    @abstractmethod
    def survives_fork(self) -> bool:
        """Whether a process that is forked after the model was used can use it. Threads do not survive a fork."""

    @abstractmethod
    def to(self, device: Any) -> None:
        """Move the network to a device, in place. Raises a ConfigError if the device is not available."""

    @abstractmethod
    def eval(self) -> None:
        """Switch to evaluation mode."""

    @abstractmethod
    def search(self, settings: SearchSettings) -> Search:
        """Make the search of a batch. See :class:`.PredictingModel`."""

    @abstractmethod
    def inference(self) -> AbstractContextManager[Any]:
        """Return a context for prediction. See :class:`.PredictingModel`."""

    def check_precision(self, precision: str) -> None:  # noqa: B027 (most models have all precisions)
        """Raise a ConfigError if the model cannot compute in a precision."""

    def capture_graphs(self, half: bool) -> None:  # noqa: B027 (most models have none)
        """Capture the CUDA graphs of single sentences now, if the model has some. ``half``: for bfloat16."""

    def cost(self, example: Example) -> int:
        """Return the cost of a sentence in ordinary words. See ``WordPieces.cost``."""
        return self.collator.pieces.cost(self.collator.plain(example))

    @property
    def overlaps(self) -> str:
        """What to do with entities that share words: the choice stored with the model, else "flat"."""
        return self.settings.overlaps or OVERLAPS[0]

    def predictor(
        self,
        *,
        thresholds: Thresholds | None = None,
        overlaps: str | None = None,
        batch_words: int = 4096,
        precision: str = "auto",
        check: Callable[[], None] = never_stop,
        constraints: str | None = None,
        cuda_graphs: bool = False,
    ) -> Predictor:
        """Make a predictor. See :class:`.Predictor`.

        Args:
            thresholds: Minimum scores. None: those of the model.
            overlaps: What to do with entities that share words. None: :attr:`overlaps`.
            batch_words: Maximum number of words per batch, padding included.
            precision: Precision of the pretrained encoder.
            check: Called at short intervals. It may raise to stop the work.
            constraints: "on" or "off". None: the choice of the model.
            cuda_graphs: Whether a GPU replays batches as CUDA graphs.
        """
        return Predictor(
            self,
            thresholds=self.settings.thresholds if thresholds is None else thresholds,
            temperatures=self.settings.temperatures,
            limits=self.settings.limits,
            overlaps=self.overlaps if overlaps is None else overlaps,
            check=check,
            batch_words=batch_words,
            precision=precision,
            constraints=self.settings.constraints if constraints is None else constraints,
            cuda_graphs=cuda_graphs,
        )
