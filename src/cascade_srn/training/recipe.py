"""Recipes: all settings of a training run in one YAML file, with ``dotted.key=value`` overrides."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

import yaml

from cascade_srn.config import FRESH, MAX_SEED, FusionSettings, ModelSettings, Settings, require_choice, require_range
from cascade_srn.errors import ConfigError, did_you_mean, short_repr
from cascade_srn.schema import MIN_PAIR_COUNT, RelationConstraints
from cascade_srn.training.settings import DistillationSettings, TrainingSettings, parse_names


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that reads 1e-5 as a number, as YAML 1.2 does. YAML 1.1 requires a point and a sign."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML. ``where`` names its source in messages."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{where} is not valid YAML{place} ({problem})", "Fix the syntax") from error


def apply_override(values: Mapping[str, Any], override: str) -> dict[str, Any]:
    """Return the values of a recipe with one of them replaced by ``dotted.key=value``. The value is parsed as YAML."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"the override {override!r} has not the form key=value", "Write it like training.epochs=5")
    where = f"the override {override!r}"
    nested = value = parse_yaml(text, where)
    for part in reversed(parts):
        nested = {part: nested}
    check_keys(nested, Recipe, where)
    changed = deepcopy(dict(values))
    section: Any = changed
    for at, part in enumerate(parts[:-1]):
        if section.get(part) is None:
            section[part] = {}
        if part == "fusion" and isinstance(section[part], str):
            section[part] = {"preset": section[part]}
        section = section[part]
        if not isinstance(section, dict):
            raise ConfigError(
                f"{where} sets a part of {'.'.join(parts[: at + 1])!r}, which is {short_repr(section)}",
                "Override the whole value",
            )
    section[parts[-1]] = value
    return changed


def check_keys(values: Any, settings: type[Settings], where: str, path: tuple[str, ...] = ()) -> None:
    """Refuse unknown keys, and suggest the dotted key that was probably meant."""
    known = [f.name for f in dataclasses.fields(settings)] + ["preset"] * issubclass(settings, FusionSettings)
    for key, value in values.items() if isinstance(values, Mapping) else ():
        here = (*path, str(key))
        if key not in known:
            # Suggest the only key with the same last part, or else the most similar key of the section.
            same_ending = [dotted for dotted in dotted_keys(Recipe) if dotted.rpartition(".")[2] == key]
            hint = did_you_mean(".".join(here), [".".join((*path, name)) for name in known])
            raise ConfigError(
                f"{where}: there is no setting {'.'.join(here)!r}",
                f"Did you mean {same_ending[0]!r}?" if len(same_ending) == 1 else hint,
            )
        if (inner := settings_of(settings, key)) is not None:
            check_keys(value, inner, where, here)


def dotted_keys(settings: type[Settings], prefix: str = "") -> Iterator[str]:
    """Yield all keys of a settings class and of the settings in it."""
    for f in dataclasses.fields(settings):
        yield f"{prefix}{f.name}"
        if (inner := settings_of(settings, f.name)) is not None:
            yield from dotted_keys(inner, f"{prefix}{f.name}.")


def settings_of(settings: type[Settings], name: str) -> type[Settings] | None:
    """Return the settings class of a field, or None if the field is a plain value."""
    hint = get_type_hints(settings).get(name)
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, Settings)), None)


ALIGNMENTS = ("exact", "expand")


@dataclass(frozen=True)
class DataSettings(Settings):
    """The data of a recipe.

    Attributes:
        train: Annotated documents to learn from.
        dev: Annotated documents to choose the best weights on: a path, or a share of train to hold out, such as 0.1.
        test: Annotated documents to score at the end.
        format: Format of all three; None to detect it.
        schema: File with the labels; None to use the labels of the documents.
        symmetric: Relation types without direction, if there is no schema file.
        constraints: Constraints by relation type, if there is no schema file.
        min_pair_count: Number of training relations from which a pair of head type and tail type is allowed. 0: such
            constraints are not learned.
        align: How to align offsets within words: "exact" or "expand".
        skip_malformed: Skip malformed annotations instead of raising an error.
        keep_escapes: Read tokens such as ``-LRB-`` as they are, not as the characters that they stand for.
        map: File with new names of labels, and labels to drop (:class:`cascade_srn.formats.label_map.LabelMap`).
        labels: Folder of text labelled by teachers (:mod:`cascade_srn.training.distil`), to learn from as well.
        split_seed: Seed of the choice of the held-out documents, if ``dev`` is a share or there are folds. It is the
            same for all runs of a series.
        folds: Number of parts of train for cross-validation. Each part is the test set of one run.
        fold: Position of the part that is the test set of this run. None: one run for each part
            (:class:`~cascade_srn.training.series.Folds`).
    """

    train: str
    dev: str | float | None = None
    test: str | None = None
    format: str | None = None
    schema: str | None = None
    symmetric: tuple[str, ...] = ()
    constraints: dict[str, RelationConstraints] = field(default_factory=dict)
    min_pair_count: int = MIN_PAIR_COUNT
    align: str = "exact"
    skip_malformed: bool = False
    keep_escapes: bool = False
    map: str | None = None
    labels: str | None = None
    split_seed: int = 0
    folds: int | None = None
    fold: int | None = None

    def __post_init__(self) -> None:
        require_choice("data.align", self.align, ALIGNMENTS)
        self._check_folds()
        require_range("data.split_seed", self.split_seed, 0, MAX_SEED)
        if self.held_out is not None and not 0 < self.held_out < 1:
            raise ConfigError(
                f"data.dev is {self.dev!r}", "Give a path, or a share between 0 and 1, such as 0.1", option="data.dev"
            )
        require_range("data.min_pair_count", self.min_pair_count, 0)
        for name, content in (("symmetric", "the symmetric relations"), ("constraints", "the constraints")):
            if self.schema is not None and getattr(self, name):
                raise ConfigError(
                    f"data.schema and data.{name} are both given, but a schema file contains {content}",
                    "Remove one of the two",
                    option=f"data.{name}",
                )

    def _check_folds(self) -> None:
        if self.folds is None:
            if self.fold is not None:
                raise ConfigError(
                    f"data.fold is {self.fold}, but data.folds is not given",
                    "Give the number of folds",
                    option="data.folds",
                )
            return
        require_range("data.folds", self.folds, 2, option="data.folds")
        if self.fold is not None:
            require_range("data.fold", self.fold, 0, self.folds - 1, option="data.fold")
        if self.test is not None:
            raise ConfigError(
                f"data.folds is {self.folds} and data.test is {self.test!r}, but with folds, each part of train is the "
                "test set of one run",
                "Remove one of the two",
                option="data.folds",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the configuration") -> Self:
        """Make settings from plain values. ``symmetric`` may also be a single name or null."""
        if not isinstance(values, Mapping) or "symmetric" not in values:
            return super().from_dict(values, where)
        rest = {key: value for key, value in values.items() if key != "symmetric"}
        chosen = parse_names(values["symmetric"], f"{where}: symmetric")
        return replace(super().from_dict(rest, where), symmetric=chosen)

    @property
    def splits(self) -> dict[str, str]:
        """Paths of the splits that are given, by name."""
        given = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: path for split, path in given.items() if isinstance(path, str)}

    @property
    def held_out(self) -> float | None:
        """Share of train to hold out for dev, or None."""
        return None if isinstance(self.dev, str) else self.dev


@dataclass(frozen=True)
class FreshEncoderSettings(Settings):
    """Shape of an encoder that is not pretrained (:func:`cascade_srn.encoder.fresh.create_encoder`)."""

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
                f"fresh.width is {self.width}, which is not a multiple of fresh.n_heads, {self.n_heads}",
                "Choose another width",
                option="fresh.width",
            )


@dataclass(frozen=True)
class CardSettings(Settings):
    """The card of the trained model (:mod:`cascade_srn.training.card`).

    Attributes:
        name: Title; the name of the output folder by default.
        description: A paragraph about the model.
        licence: Identifier of the licence of the model, such as "apache-2.0".
        language: Codes of the languages of the data, separated by commas, such as "en".
        examples: Show an annotation of the training data for each label. The card is published with the model, so
            leave this off if the data are confidential.
    """

    name: str | None = None
    description: str | None = None
    licence: str | None = None
    language: str | None = None
    examples: bool = False


@dataclass(frozen=True)
class Recipe(Settings):
    """All settings of a training run.

    Attributes:
        model: The model.
        data: The data.
        output: The folder of the run.
        training: How to train.
        fresh: Shape of the random encoder, if ``model.encoder.name`` is ``fresh``.
        distillation: How to learn from ``data.labels``, if they are given.
        card: The card of the model.
    """

    model: ModelSettings
    data: DataSettings
    output: str
    training: TrainingSettings = field(default_factory=TrainingSettings)
    fresh: FreshEncoderSettings | None = None
    distillation: DistillationSettings | None = None
    card: CardSettings | None = None

    def __post_init__(self) -> None:
        if self.distillation is not None and self.data.labels is None:
            raise ConfigError(
                "the recipe has a section 'distillation', but no data.labels",
                "Give a folder of labels, use cascade-srn distil, or remove the section",
                option="data.labels",
            )
        if self.model.start is not None and self.fresh is not None:
            raise ConfigError(
                f"the recipe has a section 'fresh', but the encoder comes from model.start, {self.model.start!r}",
                "Remove one of the two",
                option="model.start",
            )
        if self.model.encoder.name != FRESH and self.fresh is not None:
            raise ConfigError(
                f"the recipe has a section 'fresh', but model.encoder.name is {self.model.encoder.name!r}",
                f"Set it to {FRESH!r}, or remove the section",
                option="model.encoder.name",
            )
        if self.model.start is None and self.model.encoder.name == FRESH and self.training.frozen:
            raise ConfigError(
                f"training.frozen is {self.training.frozen}, but the weights of a fresh encoder are random",
                "Set it to 0, or start from a trained model or encoder",
                option="training.frozen",
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the recipe") -> Self:
        """Make a recipe from plain values. Sections may be null.

        With ``model.start``, settings of the model that are not given are those of the trained model.
        """
        if isinstance(values, Mapping):
            values = {key: value for key, value in values.items() if value is not None}
            if "model" in values:
                values["model"] = _complete_model(values["model"], where)
        return super().from_dict(values, where)

    def to_yaml(self) -> str:
        """Return the YAML text of all settings, defaults included."""
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120))


def _complete_model(model: Any, where: str) -> Any:
    """Complete the section ``model`` from the trained model that it names, if it does."""
    start = model.get("start") if isinstance(model, Mapping) else None
    # The recipe in a run folder is complete, and can be read without the trained model.
    if not isinstance(start, str) or model.keys() >= {f.name for f in dataclasses.fields(ModelSettings)}:
        return model
    from cascade_srn.model.start import Start  # loads transformers

    return Start(start).complete(model, f"{where}: model")


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a YAML file, with overrides of the form ``dotted.key=value``."""
    path = Path(path)
    values = _read(path)
    check_keys(values, Recipe, f"the recipe {path}")
    for override in overrides:
        values = apply_override(values, override)
    return Recipe.from_dict(values, f"the recipe {path}")


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"the recipe {str(path)!r} does not exist", "Give a YAML file, such as recipes/scierc.yaml"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"the recipe {str(path)!r} is a folder", "Give a YAML file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the recipe {str(path)!r} is not UTF-8 text ({error.reason})", "Save it as UTF-8") from error
    values = parse_yaml(text, f"the recipe {str(path)!r}")
    if not isinstance(values, dict):
        raise ConfigError(
            f"the recipe {str(path)!r} is a {type(values).__name__}, but a mapping was expected",
            "Give the sections model, data, training and output",
        )
    return values
