"""Options of an evaluation. This module does not import torch, so that ``--help`` is fast."""

import os
from dataclasses import dataclass

from cascade_srn.config import CONSTRAINTS, PRECISIONS, Settings, check_overlaps, require_choice, require_range
from cascade_srn.errors import ConfigError, require
from cascade_srn.evaluation.breakdown import BREAKDOWNS
from cascade_srn.evaluation.items import SYMMETRIC_POLICIES
from cascade_srn.evaluation.noise import DOCUMENT_KINDS, PDF
from cascade_srn.formats.alignment import check_align
from cascade_srn.inference.options import parse_precision
from cascade_srn.storage.files import check_encoding

RESAMPLED = ("documents", "sentences")


@dataclass(frozen=True)
class EvaluateOptions(Settings):
    """Models, the data to evaluate them on, and how. ``cascade-srn evaluate --help`` describes the options.

    ``predictions`` are files with predictions made elsewhere, which are scored like models. ``against`` are the models
    or such files of the second side of a comparison. ``noise`` are kinds of noise to score the models with, too. None
    stands for the detected format, and for the ``overlaps`` and ``constraints`` of each model.
    """

    models: tuple[str, ...]
    data: str
    against: tuple[str, ...] = ()
    format: str | None = None
    align: str = "exact"
    keep_escapes: bool = False
    map: str | None = None
    symmetric: str = "directed"
    gold_entities: bool = False
    from_text: bool = False
    by: tuple[str, ...] = ()
    overlaps: str | None = None
    train: str | None = None
    batch_words: int = 4096
    precision: str = "auto"
    resample: str = "documents"
    n_resamples: int = 10_000
    seed: int = 0
    constraints: str | None = None
    predictions: tuple[str, ...] = ()
    predictions_format: str | None = None
    schema: str | None = None
    noise: tuple[str, ...] = ()
    encoding: str | None = None

    def __post_init__(self) -> None:
        if not self.models and not self.predictions:
            raise ConfigError(f"no model to evaluate on {self.data!r}", "Give one or more models before the data")
        check_align(self.align)
        check_encoding(self.encoding)
        check_overlaps(self.overlaps)
        parse_precision(self.precision)
        for name, choices in (
            ("symmetric", (*SYMMETRIC_POLICIES, "all")),
            ("constraints", CONSTRAINTS),
            ("resample", RESAMPLED),
        ):
            if (value := getattr(self, name)) is not None:
                require_choice(name, value, choices, option=name)
        for name in self.by:
            require_choice("by", name, BREAKDOWNS, option="by")
        if "entity_text" in self.by and self.train is None:
            raise ConfigError(
                "scores by entity_text need the training data",
                "Give the data the models were trained on",
                option="train",
            )
        for name in self.noise:
            require_choice("noise", name, DOCUMENT_KINDS, option="noise")
        if PDF in self.noise:
            require("pypdfium2", extra="pdf")
        if self.noise:
            # Noise is in the text.
            object.__setattr__(self, "from_text", True)
            if self.predictions or any(map(os.path.isfile, self.against)):
                raise ConfigError(
                    "predictions made elsewhere are not for text with noise", "Evaluate models only", option="noise"
                )
        if self.from_text and self.gold_entities:
            raise ConfigError(
                "gold entities cannot be given to a model that starts from raw text",
                "Evaluate one or the other",
                option="gold_entities",
            )
        for name in ("schema", "predictions_format"):
            if getattr(self, name) is not None and not self.predictions:
                raise ConfigError(f"{name} is for predictions made elsewhere", "Give them", option="predictions")
        for name, least in (("batch_words", 1), ("n_resamples", 100), ("seed", 0)):
            require_range(name, getattr(self, name), least, option=name)
        _require_distinct((*self.models, *self.predictions, *self.against))

    @property
    def policies(self) -> tuple[str, ...]:
        """Policies to score under. The analysis uses the first."""
        return SYMMETRIC_POLICIES if self.symmetric == "all" else (self.symmetric,)

    @property
    def entities(self) -> str:
        """Source of the entities, as :func:`~cascade_srn.evaluation.analysis.analyse` takes it."""
        return "gold" if self.gold_entities else "predicted"


@dataclass(frozen=True)
class ForeignOptions(Settings):
    """Models, and raw text files or folders of another kind than they were trained on."""

    models: tuple[str, ...]
    texts: tuple[str, ...]
    field: str = "text"
    encoding: str | None = None
    batch_words: int = 4096
    precision: str = "auto"

    def __post_init__(self) -> None:
        if not self.models or not self.texts:
            raise ConfigError("there is no model or no text", "Give at least one of each")
        check_encoding(self.encoding)
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        require_range("batch_words", self.batch_words, 1, option="batch_words")
        _require_distinct(self.models)


def _require_distinct(models: tuple[str, ...]) -> None:
    """Raise ConfigError if a model is given twice, also by two paths of one folder."""
    names: dict[str, list[str]] = {}
    for name in models:
        # Resolving a hub id does no harm.
        names.setdefault(os.path.realpath(os.path.expanduser(name)), []).append(name)
    if repeated := next((given[1] for given in names.values() if len(given) > 1), None):
        raise ConfigError(f"the model {repeated!r} is given twice", "Give each model once")
