"""What the folder of a loaded model has besides its weights, to be kept when the model is saved again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from cascade_srn.config import ModelSettings
from cascade_srn.model.folder import CARD_FILE
from cascade_srn.schema import Schema

# Appended to a card if the settings of the model are no longer those that the scores were measured with.
CHANGED_NOTICE = "Thresholds or other settings of the model were changed after the figures above were measured."
# Cards are read into memory. A longer one, in bytes, is not kept.
_MAX_CARD = 1 << 20
# Types of weights that are kept when a model is saved again, by their names in safetensors.
_DTYPES = {"F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class StoredModel:
    """What a folder has besides settings and values of weights, to be kept when the model is saved again.

    Attributes:
        card: Text of the model card, or None if there is none.
        settings: Settings of the model when it was loaded. The figures of the card are theirs.
        schema: Its schema.
        dtypes: Types of the stored weights.
    """

    card: str | None
    settings: ModelSettings
    schema: Schema
    dtypes: Mapping[str, torch.dtype]

    @classmethod
    def read(cls, folder: Path, settings: ModelSettings, schema: Schema, dtypes: Mapping[str, str]) -> StoredModel:
        """Read the card of a folder. One that cannot be read is treated as missing."""
        try:
            with (folder / CARD_FILE).open("rb") as handle:
                data = handle.read(_MAX_CARD + 1)
            card = data.decode("utf-8") if len(data) <= _MAX_CARD else None
        except (OSError, UnicodeDecodeError):
            card = None
        known = {name: getattr(torch, _DTYPES[dtype]) for name, dtype in dtypes.items() if dtype in _DTYPES}
        return cls(card, settings, schema, known)

    def as_stored(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return a weight in the type that it was stored in, if that keeps its value. Trained weights need not fit."""
        dtype = self.dtypes.get(name, weight.dtype)
        narrow = weight.to(dtype)
        return narrow if dtype == weight.dtype or torch.equal(narrow.to(weight.dtype), weight) else weight

    def card_for(self, settings: ModelSettings, schema: Schema) -> str | None:
        """Return the card, with a notice if it has scores and the model has other settings now."""
        is_changed = (settings, schema) != (self.settings, self.schema)
        if self.card is None or not is_changed or "\n## Scores\n" not in self.card or CHANGED_NOTICE in self.card:
            return self.card
        return f"{self.card.rstrip()}\n\n{CHANGED_NOTICE}\n"
