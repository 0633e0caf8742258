"""Protocols of a model family: what training, prediction and model folders use of a model.

The cascade is one family, each baseline another. A family consists of a network with its loss, a collator and a
search. Everything else is shared: data, encoders, the training loop, the predictor, scoring and model folders.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import nn

from cascade_srn.cascade import CascadeLoss
from cascade_srn.config import ModelSettings, TurnWeights
from cascade_srn.data.batch import DEFAULT_BATCH_SETTINGS, BatchSettings
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.inference.cascade_search import Search, SearchSettings, TorchModule
from cascade_srn.schema import Schema


class Batch(Protocol):
    """A training batch: the input of the loss."""

    def to(self, device: torch.device | str) -> Self:
        """Return the same batch on a device."""


class Network(TorchModule, Protocol):
    """A ``torch.nn.Module`` that computes the loss of a batch.

    ``encoder`` holds all pretrained weights, which have their own learning rate: its ``config`` is the transformers
    configuration and its ``model`` holds the parameters by layer.
    """

    @property
    def encoder(self) -> Any:
        """The pretrained part of the network."""

    @property
    def relations(self) -> nn.Module | None:
        """The part that finds relations, or None for a model of entities alone."""

    def forward(self, batch: Any, weights: TurnWeights) -> CascadeLoss:
        """Return the loss of a batch, each part a mean over the sentences."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call :meth:`forward` through the hooks of torch."""


class BatchMaker(Protocol):
    """A collator: makes encoder rows and training batches for one model."""

    @property
    def schema(self) -> Schema:
        """The labels of the model."""

    @property
    def pieces(self) -> WordPieces:
        """The conversion of words to pieces and of rows to tensors."""

    def plain(self, example: Example) -> Row:
        """Return the row of a sentence without any markers."""

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = DEFAULT_BATCH_SETTINGS,
        rng: random.Random | None = None,
    ) -> Batch:
        """Make a training batch of gold sentences.

        Args:
            examples: The sentences.
            settings: What the batch is made of. A family refuses settings that do not apply to it.
            chance: Random numbers. None: a new generator.
        """


@dataclass(frozen=True)
class ModelFamily:
    """A model family: the functions that make its parts.

    Attributes:
        markers: Return the special tokens that the family inserts into text, each with a description in words.
        network: Make a network from settings, schema and an encoder whose vocabulary holds the markers.
        collator: Make a collator from settings, schema, pieces and the tokenizer.
        search: Make a search from a network and a collator of this family, and the search settings of a batch.
    """

    markers: Callable[[ModelSettings, Schema], dict[str, str]]
    network: Callable[[ModelSettings, Schema, PretrainedEncoder], Network]
    collator: Callable[[ModelSettings, Schema, WordPieces, Any], BatchMaker]
    search: Callable[[Any, Any, SearchSettings], Search]
