"""What is trained: a model of the paper or one it is compared with, as changes to one recipe.

Variants share data, encoder, rates and number of epochs, which are the recipe's. They are run folders that tables
share: what two tables need is trained once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cascade_srn.errors import ConfigError


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
