"""What a reproduction can be asked to do; free of torch, so that a command line can show it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cascade_srn.config import Settings, require_choice, require_range
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.options import PRECISIONS, RESAMPLED
from cascade_srn.reproduction.tables import chosen_tables


@dataclass(frozen=True)
class Variant:
    """A model by what makes it another one than the others; ``extra`` are settings that belong to its method."""

    about: str
    fusion: str = "early"
    sequence_encoder: str = "srn"
    joint: bool = True
    candidates: str = "entities"
    method: str = "cascade"
    extra: Mapping[str, str] = field(default_factory=dict)

    def overrides(self) -> list[str]:
        """The changes to a recipe. All that tells variants apart is given, whatever the recipe has."""
        chosen = {
            "model.method": self.method,
            "model.joint": str(self.joint).lower(),
            "training.candidates": self.candidates,
        }
        if self.method == "cascade":
            chosen |= {"model.fusion": self.fusion, "model.sequence_encoder": self.sequence_encoder}
        return [f"{key}={value}" for key, value in (chosen | dict(self.extra)).items()]


# As in recipes/baselines: the published width and dropout. Tables are told no entities, so that none can be mistaken;
# the pipeline's relation model is told them as the cascade's later turns are, with the mistakes of the shared recipe.
_TABLES = {"model.hidden_width": "300", "training.corruption": "0"}
_PIPELINE = {"model.head_dropout": "0.2"}

VARIANTS: Mapping[str, Variant] = {
    "early": Variant("early fusion, the paper's default"),
    "late": Variant("late fusion, as the paper's equations stand", fusion="late"),
    "swift": Variant("entities as tags, the subject by its span", fusion="swift"),
    "hybrid": Variant("entities as markers, the subject by its span", fusion="hybrid"),
    "pfn": Variant("partition filter network, two tables", method="pfn", extra=_TABLES),
    "table-srn": Variant("the same tables over an SRN of two tasks", method="table-srn", extra=_TABLES),
    "pipeline": Variant("spans, then pairs of entities, two encoders", method="pipeline", extra=_PIPELINE),
    "bisrn": Variant("early fusion, SRN in both directions", sequence_encoder="bisrn"),
    "bilstm": Variant("early fusion, BiLSTM in place of the SRN", sequence_encoder="bilstm"),
    "subject-marker": Variant("early fusion without entity markers", fusion="subject-marker"),
    "no-markers": Variant("no text markers, the subject by its span", fusion="{entities: none, subject: span}"),
    "gold-subjects": Variant("early fusion, objects of gold subjects only", candidates="subjects"),
    "independent": Variant("turn 1 alone: entities without relations", joint=False),
}

# What a variant decides, or the command itself, and its options besides --set.
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
    """Refuse changes, each ``key=value``, to what tells variants apart."""
    for change in changes:
        key = change.partition("=")[0].strip()
        if any(f"{decided}.".startswith(f"{key}.") for decided in _DECIDED):
            raise ConfigError(
                f"--set {change} would change what tells the models of the tables apart; change settings that all of "
                "them share, such as training.epochs"
            )


SPLITS = ("train", "dev", "test")

# What holds unless it is given otherwise, for the whole thing and for a quick look at it.
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
# Small and fast, so that two epochs over the example corpus teach every variant something.
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
    """Tables to fill, and with what.

    ``encoder`` and ``data`` (a folder with train, dev and test) take the place of the recipe's; ``changes`` are
    settings of the recipe, each ``key=value``. The bootstrap draws ``resample``. Predictions and speed are those of
    ``batch_words`` and ``precision``.
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
            raise ConfigError("no table was named; name one or more, or all of them by 'all'")
        chosen_tables(self.tables)
        check_changes(self.changes)
        require_range("--seeds", self.n_seeds, 1)
        require_range("--jobs", self.jobs, 1)
        require_range("--repeats", self.repeats, 1)
        require_range("--batch-words", self.batch_words, 1)
        require_range("--resamples", self.n_resamples, 100)
        require_choice("--precision", self.precision, PRECISIONS)
        require_choice("--resample", self.resample, RESAMPLED)

    @classmethod
    def create(cls, *, quick: bool = False, **given: Any) -> Self:
        """Options with the defaults of a whole or a quick reproduction for whatever is None or left out."""
        chosen = {key: value for key, value in given.items() if value is not None}
        if quick:
            for name in ("recipe", "encoder", "data"):
                if name in chosen:
                    raise ConfigError(
                        f"--quick and --{name} were both given, but a quick look has a recipe, data and an encoder of "
                        "its own; give one of the two"
                    )
            if not Path(QUICK["recipe"]).is_file():
                raise ConfigError(
                    f"--quick wants {QUICK['recipe']}, which is not here; run it in a checkout of the repository"
                )
        return cls(quick=quick, **{**(QUICK if quick else DEFAULTS), **chosen})

    def overrides(self) -> tuple[list[str], list[str]]:
        """Changes to the recipe for all variants: those to make before a variant's own, and those after."""
        before: list[str] = []
        if self.encoder is not None:
            before += [f"model.encoder.name={self.encoder}", *["fresh=null"] * (self.encoder != "fresh")]
        if self.data is not None:
            before += data_overrides(Path(self.data))
        return before, [*(QUICK_CHANGES if self.quick else ()), *self.changes]


def data_overrides(folder: Path) -> list[str]:
    """The changes to a recipe that make it read train, dev and test of a folder, and a schema where there is one."""
    if not folder.is_dir():
        raise DataError(f"--data is {str(folder)!r}, which is no folder; give one that holds train, dev and test")
    found = ["data.format=null"]
    for split in SPLITS:
        matching = sorted(member for member in folder.iterdir() if member.name.partition(".")[0] == split)
        if len(matching) != 1:
            there = " and ".join(member.name for member in matching) or "none"
            raise DataError(
                f"--data is {str(folder)!r}, where one file {split}.* was expected and there is {there}; give a folder "
                "with train, dev and test, one of each, such as train.json"
            )
        found.append(f"data.{split}={matching[0]}")
    schema = folder / "schema.json"
    return [*found, *([f"data.schema={schema}", "data.symmetric=[]"] if schema.is_file() else ["data.schema=null"])]
