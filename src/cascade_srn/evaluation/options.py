"""What an evaluation can be asked to do; free of torch, so that a command line can show it at once."""

from __future__ import annotations

import os
from dataclasses import dataclass

from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.data.alignment import check_align
from cascade_srn.errors import ConfigError
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES

# Here and not from predict.py, which needs torch.
PRECISIONS = ("auto", "float32", "bf16")
RESAMPLED = ("documents", "sentences")


@dataclass(frozen=True)
class EvaluateOptions(Settings):
    """Models (folders or hub ids) and the annotated data to evaluate them on.

    ``against`` are the models on the other side of a comparison; without it, two models are compared with each other.
    ``symmetric`` is a policy or "all". With ``gold_entities`` the relations between given gold entities are evaluated.
    ``format`` is that of the data; ``align`` is "exact", or "expand" to take whole words where an offset falls within
    one. ``train`` is the data that the models were trained on, in whatever format, for entity texts that were seen or
    not.
    """

    models: tuple[str, ...]
    data: str
    against: tuple[str, ...] = ()
    format: str | None = None
    align: str = "exact"
    symmetric: str = "directed"
    gold_entities: bool = False
    train: str | None = None
    batch_words: int = 4096
    precision: str = "auto"
    resample: str = "documents"
    n_resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError(f"no model was given beside the data {self.data!r}; give MODEL DATA, one or more models")
        check_align(self.align)
        require_choice("symmetric", self.symmetric, (*SYMMETRIC_POLICIES, "all"))
        require_choice("precision", self.precision, PRECISIONS)
        require_choice("resample", self.resample, RESAMPLED)
        require_range("batch_words", self.batch_words, 1)
        require_range("n_resamples", self.n_resamples, 100)
        require_range("seed", self.seed, 0)
        # The same folder by another path is the same model; a hub id is not a path, and comes to no harm.
        names: dict[str, list[str]] = {}
        for name in (*self.models, *self.against):
            names.setdefault(os.path.realpath(os.path.expanduser(name)), []).append(name)
        if repeated := next((given[1] for given in names.values() if len(given) > 1), None):
            raise ConfigError(f"the model {repeated!r} is given twice, but would count as two; name each model once")

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies to score under; the first is the one of the analysis."""
        return SYMMETRIC_POLICIES if self.symmetric == "all" else (self.symmetric,)

    @property
    def entities(self) -> str:
        """Where entities are from, as :func:`~cascade_srn.evaluation.analysis.analyse` is told."""
        return "gold" if self.gold_entities else "predicted"
