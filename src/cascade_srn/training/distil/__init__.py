"""Distil teachers into a smaller student: label raw text, and train on the labels.

:class:`.labelling.Labelling` writes labels. :class:`.run.Distillation` prepares the training of a student.
Both need torch and are imported from their own modules.
"""

from dataclasses import dataclass

from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.errors import ConfigError

PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class LabelSettings(Settings):
    """Settings of a labelling.

    Attributes:
        field: Field of a JSON record that contains the text.
        min_words: Least number of words of a sentence to label.
        max_words: Largest number of words of a sentence to label.
        max_sentences: Number of sentences to label, evenly spaced over the text. Default: all.
        floor: Least probability that is stored.
        shard_sentences: Labelled sentences per file, in whole documents.
        batch_words: Words per batch, padding included.
        precision: Precision of the encoders: "float32", "bf16", or "auto" for bf16 on a GPU.
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
            require_range(name, getattr(self, name), 1, option=name)
        if self.max_sentences is not None:
            require_range("max_sentences", self.max_sentences, 1, option="max_sentences")
        require_range("floor", self.floor, 0.0001, 0.5, option="floor")
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        if self.min_words > self.max_words:
            raise ConfigError(
                f"min_words is {self.min_words}, but max_words is {self.max_words}",
                "Raise max_words or lower min_words",
                option="max_words",
            )
