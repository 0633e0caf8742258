"""Recipes: everything that decides a training run, in one YAML file, with ``key=value`` overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import yaml

from cascade_srn.config import FRESH, ModelSettings, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.training.overrides import MAX_CHARACTERS, apply_override, check_keys, parse_yaml
from cascade_srn.training.settings import DistillationSettings, TrainingSettings, names

ALIGNMENTS = ("exact", "expand")


@dataclass(frozen=True)
class DataSettings(Settings):
    """Annotated documents: what to learn from, what to choose the best weights on, what to report.

    ``format`` is that of all three paths, guessed from their content when it is null. The labels are those of the
    ``schema`` file or else those that occur in the documents, of which the ``symmetric`` ones are named. ``align`` and
    ``skip_malformed`` are as for ``cascade-srn convert``. ``labels`` is a folder of text that teachers labelled
    (:mod:`cascade_srn.distil`), to learn from as well.
    """

    train: str
    dev: str | None = None
    test: str | None = None
    format: str | None = None
    schema: str | None = None
    symmetric: tuple[str, ...] = ()
    align: str = "exact"
    skip_malformed: bool = False
    labels: str | None = None

    def __post_init__(self) -> None:
        require_choice("data.align", self.align, ALIGNMENTS)
        if self.schema is not None and self.symmetric:
            raise ConfigError(
                "data.schema and data.symmetric are both given, but a schema file says itself which relations are "
                "symmetric; give one of the two"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the configuration") -> Self:
        """Also takes a single symmetric relation by its name, and null for none."""
        if not isinstance(values, Mapping) or "symmetric" not in values:
            return super().from_dict(values, where)
        rest = {key: value for key, value in values.items() if key != "symmetric"}
        chosen = names(values["symmetric"], f"{where}: symmetric")
        return replace(super().from_dict(rest, where), symmetric=chosen)

    @property
    def splits(self) -> dict[str, str]:
        """The paths that are given, by the names of their splits."""
        given = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: path for split, path in given.items() if path is not None}


@dataclass(frozen=True)
class FreshEncoderSettings(Settings):
    """The shape of an encoder that is not pretrained (:func:`cascade_srn.encoder.fresh.create_encoder`)."""

    width: int = 128
    n_layers: int = 2
    n_heads: int = 4
    vocabulary: int = 2000
    max_pieces: int = 256
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "n_layers", "n_heads", "vocabulary", "max_pieces"):
            require_range(f"fresh.{name}", getattr(self, name), 1)
        require_range("fresh.dropout", self.dropout, 0, 0.99)
        if self.width % self.n_heads:
            raise ConfigError(
                f"fresh.width is {self.width} and fresh.n_heads is {self.n_heads}; give a width that the heads divide"
            )


@dataclass(frozen=True)
class Recipe(Settings):
    """A model, data, how to train it, and the folder that the run goes to.

    Where ``model.encoder.name`` is ``fresh``, the encoder is a small one of the shape in ``fresh``, which starts
    at random with a vocabulary of the training words. Where there are ``data.labels``, ``distillation`` says how they
    are learned from.
    """

    model: ModelSettings
    data: DataSettings
    output: str
    training: TrainingSettings = field(default_factory=TrainingSettings)
    fresh: FreshEncoderSettings | None = None
    distillation: DistillationSettings | None = None

    def __post_init__(self) -> None:
        if self.distillation is not None and self.data.labels is None:
            raise ConfigError(
                "the recipe says how to learn from labelled text, but data.labels is not given; name the folder of "
                "labels by data.labels=…, run cascade-srn distil, or leave out the section 'distillation'"
            )
        if self.model.encoder.name != FRESH and self.fresh is not None:
            raise ConfigError(
                f"the recipe shapes a fresh encoder, but model.encoder.name is {self.model.encoder.name!r}; "
                f"name it {FRESH!r}, or leave out the section 'fresh'"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the recipe") -> Self:
        """Also takes null for a section that is left out."""
        if isinstance(values, Mapping):
            values = {key: value for key, value in values.items() if value is not None}
        return super().from_dict(values, where)

    def to_yaml(self) -> str:
        """Every setting, defaults included, as a file that :func:`load_recipe` reads."""
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120))


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file, with some of its settings changed, each as ``dotted.key=value``."""
    path = Path(path)
    values = _read(path)
    check_keys(values, Recipe, f"the recipe {path}")
    for override in overrides:
        values = apply_override(values, override, Recipe)
    return Recipe.from_dict(values, f"the recipe {path}")


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as handle:
            # One more than is allowed, so that a file of any size is found to be too long.
            text = handle.read(MAX_CHARACTERS + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no recipe {str(path)!r}; give the path of a YAML file, such as recipes/scierc.yaml"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"the recipe {str(path)!r} is a folder; give the path of a YAML file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the recipe {str(path)!r} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    values = parse_yaml(text, f"the recipe {str(path)!r}")
    if not isinstance(values, dict):
        raise ConfigError(
            f"the recipe {str(path)!r} holds {type(values).__name__}, not settings; give the sections model, data, "
            "training and output"
        )
    return values
