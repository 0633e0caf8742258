"""How raw text is labelled: every setting, with its default."""

from __future__ import annotations

from dataclasses import dataclass

from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.errors import ConfigError

PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class LabelSettings(Settings):
    """How raw text is labelled.

    **Text.** ``field`` of each JSON record is its text. Sentences of fewer than ``min_words`` or more than
    ``max_words`` words are not labelled. Of the others ``max_sentences`` are, evenly over the text (None: all).

    **Labels.** What has a probability below ``floor`` is not kept.

    **Writing.** A file holds about ``shard_sentences`` labelled sentences, in whole documents.

    **Speed.** ``batch_words`` bounds a batch, padding included; ``precision`` is that of the teachers' encoders:
    "float32", "bf16", or "auto" for bf16 on a GPU and float32 elsewhere.
    """

    field: str = "text"
    min_words: int = 4
    max_words: int = 100
    max_sentences: int | None = None
    floor: float = 0.01
    shard_sentences: int = 8192
    batch_words: int = 16384
    precision: str = "auto"

    def __post_init__(self) -> None:
        for name in ("min_words", "max_words", "shard_sentences", "batch_words"):
            require_range(name, getattr(self, name), 1)
        if self.max_sentences is not None:
            require_range("max_sentences", self.max_sentences, 1)
        require_range("floor", self.floor, 0.0001, 0.5)
        require_choice("precision", self.precision, PRECISIONS)
        if self.min_words > self.max_words:
            raise ConfigError(
                f"min_words is {self.min_words} and max_words is {self.max_words}, which no sentence can meet; raise "
                "max_words or lower min_words"
            )
