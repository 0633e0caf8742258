"""The protocols of a model family, which training, prediction and model folders use.

The cascade is one family, and each baseline is another. A family has a network with its loss, a collator and a search.
Families share everything else: data, encoders, the training loop, the predictor, scoring and model folders.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import nn

from cascade_srn.config import ModelSettings, TurnWeights
from cascade_srn.encoder.pieces import WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.inference.predictor import RowMaker, Search, SearchSettings, TorchModule
from cascade_srn.model.unreachable import Unreachable
from cascade_srn.network.batch import DEFAULT_BATCH_SETTINGS, BatchSettings
from cascade_srn.network.cascade import CascadeLoss
from cascade_srn.network.examples import Example
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence


class Batch(Protocol):
    """A training batch: the input of the loss."""

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on a device."""


class Network(TorchModule, Protocol):
    """A ``torch.nn.Module`` that computes the loss of a batch.

    ``encoder`` has all pretrained weights, which have their own learning rate. Its ``config`` is the configuration of
    transformers, and its ``model`` has the parameters by layer.
    """

    @property
    def encoder(self) -> Any:
        """The pretrained part of the network."""

    @property
    def relations(self) -> nn.Module | None:
        """The part that finds relations. None for a model that finds entities only."""

    def forward(self, batch: Any, weights: TurnWeights) -> CascadeLoss:
        """Return the loss of a batch, averaged over the sentences."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call :meth:`forward` through the hooks of torch."""


class BatchMaker(RowMaker, Protocol):
    """A collator: makes encoder rows and training batches for one model."""

    @property
    def schema(self) -> Schema:
        """The labels of the model."""

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> Batch:
        """Make a training batch of gold sentences. A family refuses settings that do not apply to it."""


ENTITY_ROWS, RELATION_ROWS = "entity", "relation"


@dataclass(frozen=True)
class LabelRows:
    """Rows of a weight that belong to labels, in the order of the schema.

    ``kind`` is whether the labels are entity types or relation types. ``before`` is the number of rows before them.
    """

    kind: str
    before: int = 0


@dataclass(frozen=True)
class ModelFamily:
    """A model family, as the functions that make its parts."""

    # Returns the special tokens that the family inserts into text, each with a description in words.
    markers: Callable[[ModelSettings, Schema], dict[str, str]]
    # Makes a network from settings, schema and an encoder whose vocabulary contains the markers.
    network: Callable[[ModelSettings, Schema, PretrainedEncoder], Network]
    # Makes a collator from settings, schema, pieces and tokenizer.
    collator: Callable[[ModelSettings, Schema, WordPieces, Any], BatchMaker]
    # Makes a search from a network, a collator and the search settings of a batch.
    search: Callable[[Any, Any, SearchSettings], Search]
    # Yields the annotations of a sentence that no model of these settings can predict.
    unreachable: Callable[[ModelSettings, Schema, Sentence], Iterator[Unreachable]]
    # Returns the weights with a row for each label, by the start of their names.
    label_rows: Callable[[ModelSettings], Mapping[str, LabelRows]]
