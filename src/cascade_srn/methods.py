"""What a method of extraction has to offer: the faces that training, prediction and model folders see.

The cascade is one method, each baseline another. A method is a network with its loss, a maker of batches and a
search; everything else (data, encoders, the training loop, prediction around the search, scoring, model folders) is the
same for all of them.
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
from cascade_srn.data.batch_settings import ALL_THERE_IS, BatchSettings
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.encoder.pretrained import PretrainedEncoder
from cascade_srn.prediction import Search, Terms
from cascade_srn.schema import Schema


class Batch(Protocol):
    """What a loss is computed from."""

    def to(self, device: torch.device | str) -> Self:
        """The same batch on a device."""


class Network(Protocol):
    """A module that is called with a batch and the weights of the losses, and gives the loss by its parts.

    ``encoder`` holds all that is pretrained, which learns at a rate of its own: its ``config`` is the transformers
    configuration and its ``model`` the parameters by layers. Without relations to find, ``relations`` is None.
    """

    @property
    def encoder(self) -> Any:
        """All that is pretrained."""

    @property
    def relations(self) -> nn.Module | None:
        """What finds relations, if anything does."""

    def forward(self, batch: Any, weights: TurnWeights) -> CascadeLoss:
        """The loss of a batch, each part a mean over its sentences."""


class BatchMaker(Protocol):
    """Makes rows and batches for one model."""

    @property
    def schema(self) -> Schema:
        """The labels of the model."""

    @property
    def pieces(self) -> WordPieces:
        """Words to pieces, rows to tensors."""

    def plain(self, example: Example) -> Row:
        """A sentence as the encoder reads it first."""

    def training_batch(
        self,
        examples: Sequence[Example],
        settings: BatchSettings = ALL_THERE_IS,
        chance: random.Random | None = None,
    ) -> Batch:
        """Gold sentences as a batch for the loss, what is drawn being drawn by ``chance`` (None: by one of its own).

        A method refuses what means nothing to it.
        """


@dataclass(frozen=True)
class Method:
    """How the parts of a method are made.

    Attributes:
        markers: the special tokens that it inserts into text, each with words that describe it
        network: from settings, schema and an encoder whose vocabulary holds the markers
        collator: from settings, schema, pieces and the tokenizer
        search: from a network and a collator of this method, and the terms of a batch
    """

    markers: Callable[[ModelSettings, Schema], dict[str, str]]
    network: Callable[[ModelSettings, Schema, PretrainedEncoder], Network]
    collator: Callable[[ModelSettings, Schema, WordPieces, Any], BatchMaker]
    search: Callable[[Any, Any, Terms], Search]
