"""Variants and options of a reproduction. This module does not import torch, so that ``--help`` is fast."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cascade_srn.config import PRECISIONS, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.options import RESAMPLED
from cascade_srn.lab.reproduction.tables import select_tables


@dataclass(frozen=True)
class Variant:
    """A model of the tables. ``extra`` are settings of the recipe that belong to its method."""

    about: str
    fusion: str = "early"
    sequence_encoder: str = "srn"
    joint: bool = True
    candidates: str = "entities"
    method: str = "cascade"
    extra: Mapping[str, str] = field(default_factory=dict)

    def overrides(self) -> list[str]:
        """Return the changes to the recipe. They set everything in which variants differ."""
        changes = {
            "model.method": self.method,
            "model.joint": str(self.joint).lower(),
            "training.candidates": self.candidates,
        }
        if self.method == "cascade":
            changes |= {"model.fusion": self.fusion, "model.sequence_encoder": self.sequence_encoder}
        return [f"{key}={value}" for key, value in (changes | dict(self.extra)).items()]


# Published width and dropout, as in recipes/baselines. Table filling reads no entities, so corruption has no meaning
# for it; the relation model of the pipeline reads corrupted entities, as the later turns of the cascade do.
_TABLES = {"model.hidden_width": "300", "training.corruption": "0"}
_PIPELINE = {"model.head_dropout": "0.2"}

VARIANTS: Mapping[str, Variant] = {
    "early": Variant("early fusion, the paper's default"),
    "late": Variant("late fusion, as in the equations of the paper", fusion="late"),
    "swift": Variant("entities as tags, the subject by its span", fusion="swift"),
    "hybrid": Variant("entities as markers, the subject by its span", fusion="hybrid"),
    "pfn": Variant("partition filter network, two tables", method="pfn", extra=_TABLES),
    "table-srn": Variant("two tables over an SRN with two tasks", method="table-srn", extra=_TABLES),
    "pipeline": Variant("span and pair classification, two encoders", method="pipeline", extra=_PIPELINE),
    "bisrn": Variant("early fusion, SRN in both directions", sequence_encoder="bisrn"),
    "bilstm": Variant("early fusion, BiLSTM instead of the SRN", sequence_encoder="bilstm"),
    "subject-marker": Variant("early fusion without entity markers", fusion="subject-marker"),
    "no-markers": Variant("no text markers, the subject by its span", fusion="{entities: none, subject: span}"),
    "gold-subjects": Variant("early fusion, objects of gold subjects only", candidates="subjects"),
    "independent": Variant("turn 1 only: entities without relations", joint=False),
}

# Settings that a variant or another option decides.
_DECIDED = (
    "model.method",
    "model.joint",
    "model.fusion",
    "model.fusion.preset",
    "model.fusion.entities",
    "model.fusion.subject",
    "model.sequence_encoder",
    "training.candidates",
    "training.seed",
    "output",
)


def check_changes(changes: Sequence[str]) -> None:
    """Raise a ConfigError if a change ``key=value`` sets something in which variants differ."""
    for change in changes:
        key = change.partition("=")[0].strip()
        if any(f"{decided}.".startswith(f"{key}.") for decided in _DECIDED):
            raise ConfigError(
                f"{change!r} changes a setting in which the variants differ",
                "Change settings that all of them share, such as training.epochs",
                option="changes",
            )


SPLITS = ("train", "dev", "test")

# Defaults of a full and of a quick reproduction.
DEFAULTS: Mapping[str, Any] = {
    "recipe": "recipes/scierc.yaml",
    "output": "runs/reproduce",
    "n_seeds": 5,
    "repeats": 5,
    "n_resamples": 10_000,
}
QUICK: Mapping[str, Any] = {
    "recipe": "recipes/news.yaml",
    "output": "runs/reproduce-quick",
    "n_seeds": 2,
    "repeats": 3,
    "n_resamples": 1000,
}
# Small models that learn something in two epochs over the example corpus.
QUICK_CHANGES = (
    "model.hidden_width=24",
    "model.matcher_width=24",
    "model.dropout=0",
    "model.head_dropout=0",
    "model.baseline.length_width=16",
    "model.baseline.span_width=32",
    "fresh.width=32",
    "fresh.n_heads=2",
    "fresh.dropout=0",
    "training.epochs=2",
    "training.evaluate_every=2",
    "training.schedule=constant",
    "training.learning_rate=1.5e-2",
    "training.encoder_learning_rate=2e-3",
    "training.save_every=0",
    "training.trackers=[]",
)


@dataclass(frozen=True)
class ReproduceOptions(Settings):
    """Options of a reproduction.

    ``encoder`` and ``data``, a folder with train, dev and test, replace those of the recipe. ``changes`` are settings
    of the recipe, each ``key=value``. ``batch_words`` and ``precision`` apply to predictions and speed. ``repeats`` is
    the number of timed runs, and ``resample`` the unit of the bootstrap, "documents" or "sentences".
    """

    tables: tuple[str, ...]
    recipe: str
    output: str
    n_seeds: int
    repeats: int
    n_resamples: int
    encoder: str | None = None
    data: str | None = None
    changes: tuple[str, ...] = ()
    jobs: int = 1
    device: str = "auto"
    batch_words: int = 4096
    precision: str = "auto"
    resample: str = "documents"
    quick: bool = False

    def __post_init__(self) -> None:
        if not self.tables:
            raise ConfigError("no tables given", "Name at least one table, or 'all'")
        select_tables(self.tables)
        check_changes(self.changes)
        for name in ("n_seeds", "jobs", "repeats", "batch_words"):
            require_range(name, getattr(self, name), 1, option=name)
        require_range("n_resamples", self.n_resamples, 100, option="n_resamples")
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        require_choice("resample", self.resample, RESAMPLED, option="resample")

    @classmethod
    def create(cls, *, quick: bool = False, **given: Any) -> Self:
        """Return options with the defaults of a full or quick reproduction in place of missing and None values."""
        chosen = {key: value for key, value in given.items() if value is not None}
        if quick:
            for name in ("recipe", "encoder", "data"):
                if name in chosen:
                    raise ConfigError(
                        f"quick and {name} were both given, but a quick reproduction has its own recipe, data and "
                        "encoder",
                        "Give one of the two",
                        option=name,
                    )
            if not Path(QUICK["recipe"]).is_file():
                raise ConfigError(
                    f"a quick reproduction needs {QUICK['recipe']}, which does not exist",
                    "Run it in a checkout of the repository",
                )
        return cls(quick=quick, **{**(QUICK if quick else DEFAULTS), **chosen})

    def overrides(self) -> tuple[list[str], list[str]]:
        """Return the changes to the recipe of all variants: those before and those after the changes of a variant."""
        before: list[str] = []
        if self.encoder is not None:
            before += [f"model.encoder.name={self.encoder}", *["fresh=null"] * (self.encoder != "fresh")]
        if self.data is not None:
            before += data_overrides(Path(self.data))
        return before, [*(QUICK_CHANGES if self.quick else ()), *self.changes]


def data_overrides(folder: Path) -> list[str]:
    """Return the changes to a recipe that select train, dev, test and, if there is one, the schema of a folder."""
    if not folder.is_dir():
        raise DataError(
            f"data is {str(folder)!r}, not a folder", "Give a folder with train, dev and test", option="data"
        )
    changes = ["data.format=null"]
    for split in SPLITS:
        matching = sorted(member for member in folder.iterdir() if member.name.partition(".")[0] == split)
        if len(matching) != 1:
            names = " and ".join(member.name for member in matching) or "none"
            raise DataError(
                f"{str(folder)!r} must contain exactly one file {split}.*, found {names}",
                "Give a folder with one file each for train, dev and test, such as train.json",
                option="data",
            )
        changes.append(f"data.{split}={matching[0]}")
    schema = folder / "schema.json"
    return [*changes, *([f"data.schema={schema}", "data.symmetric=[]"] if schema.is_file() else ["data.schema=null"])]
