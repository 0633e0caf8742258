"""Start a model from a trained one, with the same labels, more labels or other ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from cascade_srn.config import ModelSettings
from cascade_srn.encoder.pretrained import PretrainedEncoder, add_markers
from cascade_srn.errors import CascadeError, ConfigError, ModelError
from cascade_srn.model.build import ENTITY_ROWS, RELATION_ROWS, LabelRows, family_of
from cascade_srn.model.folder import read_config, read_settings
from cascade_srn.model.model import Model
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model
from cascade_srn.storage.files import checksum

OPTION = "model.start"
# Settings that determine the shape or the meaning of the weights.
ARCHITECTURE = (
    "method",
    "encoder.name",
    "encoder.pooling",
    "fusion.entities",
    "fusion.subject",
    "fusion.tag_width",
    "fusion.max_distance",
    "sequence_encoder",
    "hidden_width",
    "matcher",
    "matcher_width",
    "baseline.max_span_words",
    "baseline.length_width",
    "baseline.span_width",
    "text_form",
)
# Choices made on the development documents, which fit the labels and weights of the trained model only.
_CHOSEN_ON_DEV = ("thresholds", "temperatures", "overlaps", "constraints")
# Divisor of the cosine between names of labels: a smaller one prefers the most similar trained label more strongly.
_TEMPERATURE = 0.1
_NOT_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class StartedLabels:
    """Labels of a started model, compared with those of the model that it starts from."""

    kept: tuple[str, ...]  # Labels with the weights of the trained model
    new: tuple[str, ...]  # Labels that start from the trained ones with similar names
    dropped: tuple[str, ...]  # Labels of the trained model that the started one does not have
    direction: tuple[str, ...] = ()  # Kept relation types that are symmetric in only one of the two models

    def __str__(self) -> str:
        parts = (("keeps", self.kept), ("new", self.new), ("drops", self.dropped))
        return "; ".join(f"{word} {len(labels)} ({', '.join(labels)})" for word, labels in parts if labels)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"kept": list(self.kept), "new": list(self.new), "dropped": list(self.dropped)}


class Start:
    """A trained model to start from: a model folder, the name of a bundled model, or a hub id.

    Only ``config.json`` is read until :meth:`build`.

    Raises:
        ModelError: If there is no such model.

    Example:
        >>> start = Start("scierc-small")
        >>> str(start.labels(Schema(("Dataset", "Method", "Task"))))
        'keeps 2 (Method, Task); new 1 (Dataset); drops 11 (Generic, Material, …
    """

    def __init__(self, name: str | Path) -> None:
        self.name = str(name)
        try:
            self.folder = find_model(name)
            self.settings, self.schema = read_settings(self.folder)
        except ModelError as error:
            raise ModelError(f"{OPTION} is {self.name!r}: {error.problem}", error.hint, option=OPTION) from error

    @cached_property
    def sha256(self) -> str:
        """Checksum of all files of the model."""
        return checksum(self.folder)

    @property
    def width(self) -> int:
        """Width of the vectors of its encoder."""
        values = dict(read_config(self.folder)[2])
        return int(AutoConfig.for_model(values.pop("model_type"), **values).hidden_size)

    @property
    def joint(self) -> bool:
        """Whether the trained model finds relations."""
        return self.settings.joint and bool(self.schema.relation_types)

    def complete(self, given: Mapping[str, Any], where: str = "model") -> ModelSettings:
        """Return settings with ``given`` values, by name as in a recipe, and those of the trained model for the rest.

        Thresholds, temperatures, overlaps, constraints and the longest entity are not taken from the trained model.

        Raises:
            ConfigError: If a given value contradicts the architecture of the trained model.
        """
        own = {key: value for key, value in self.settings.to_dict().items() if key not in _CHOSEN_ON_DEV}
        own["limits"].pop("entity_words")  # by the entities of the trained model
        settings = ModelSettings.from_dict(_merge(own, given), where)
        self.check(settings)
        return settings

    def check(self, settings: ModelSettings) -> None:
        """Refuse settings that contradict the architecture of the trained model."""
        for key in ARCHITECTURE:
            theirs, ours = _at(self.settings, key), _at(settings, key)
            # A saved model keeps the last part of the path of its encoder.
            if theirs != ours and not (key == "encoder.name" and Path(ours).name == theirs):
                raise ConfigError(
                    f"model.{key} is {ours!r}, but the model that training starts from, {self.name!r}, has {theirs!r}",
                    "Remove the setting, or start from another model",
                    option=f"model.{key}",
                )

    def labels(self, schema: Schema, *, joint: bool = True) -> StartedLabels:
        """Compare the labels of the trained model with a schema. ``joint`` is whether the new model finds relations."""
        kept: list[str] = []
        new: list[str] = []
        dropped: list[str] = []
        ours = {"entity": schema.entity_types, "relation": schema.relation_types if joint else ()}
        theirs = {"entity": self.schema.entity_types, "relation": self.schema.relation_types if self.joint else ()}
        for kind, labels in ours.items():
            kept += [label for label in labels if label in theirs[kind]]
            new += [label for label in labels if label not in theirs[kind]]
            dropped += [label for label in theirs[kind] if label not in labels]
        shared = set(ours["relation"]) & set(theirs["relation"])
        direction = sorted(shared & (schema.symmetric ^ self.schema.symmetric))
        return StartedLabels(tuple(kept), tuple(new), tuple(dropped), tuple(direction))

    def build(self, schema: Schema, settings: ModelSettings | None = None, *, seed: int = 0) -> Model:
        """Make a model with the weights of the trained one.

        Args:
            schema: The labels of the new model, in any order.
            settings: The settings of the new model. None: those of :meth:`complete`.
            seed: Seed of the weights that the trained model lacks. The global random state does not change.

        Raises:
            ConfigError: If the settings contradict the architecture of the trained model.
            ModelError: If the files of the trained model are damaged.
        """
        settings = self.complete({}) if settings is None else settings
        self.check(settings)
        settings = replace(settings, encoder=replace(settings.encoder, name=self.settings.encoder.name), start=None)
        trained = _load(self.folder, self.name)
        weights = {name: value.detach().clone() for name, value in trained.network.state_dict().items()}
        encoder = next(part for part in trained.network.encoder.modules() if isinstance(part, PretrainedEncoder))
        family = family_of(settings.method)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            add_markers(encoder, trained.tokenizer, family.markers(settings, schema))
            network = family.network(settings, schema, encoder)
        similar = _similar_labels(encoder, trained.tokenizer, self.schema, schema)
        rows = _Rows(family.label_rows(settings), self.schema, schema, similar)
        _copy_weights(weights, network.state_dict(), rows)
        return Model(settings, schema, trained.tokenizer, network)


def start_model(name: str | Path, schema: Schema, *, settings: ModelSettings | None = None, seed: int = 0) -> Model:
    """Make a model with the weights of a trained one, to train it further.

    Encoder, tokenizer, sequence encoder, fusion and heads are those of the trained model. Heads keep the weights of
    labels that both models have, by name. Another label starts from the trained labels, weighted by how similar their
    names are for the encoder. Thresholds and temperatures are the defaults; choose them again by calibrating the model
    after training.

    Args:
        name: A model folder, the name of a bundled model, or a hub id.
        schema: The labels of the new model.
        settings: The settings of the new model. None: those of the trained model.
        seed: Seed of the weights that the trained model lacks.

    Raises:
        ConfigError: If the settings contradict the architecture of the trained model.
        ModelError: If there is no such model.

    Example:
        >>> model = start_model("scierc-small", Schema(("Dataset", "Method", "Task"), ("USED-FOR",)))
        >>> for progress in train(model, documents, dev):
        ...     print(progress.epoch, progress.loss)
    """
    return Start(name).build(schema, settings, seed=seed)


@dataclass(frozen=True)
class _Rows:
    """Finds the rows of a weight that belong to labels. ``similar`` has shares of the old labels for each new one."""

    label_rows: Mapping[str, LabelRows]
    theirs: Schema
    ours: Schema
    similar: Mapping[tuple[str, str], Tensor]

    def fill(self, name: str, theirs: Tensor, ours: Tensor) -> bool:
        """Fill the rows of a weight in place. Return False for a weight without rows of labels."""
        found = next((rows for part, rows in self.label_rows.items() if name.startswith(part)), None)
        if found is None:
            return False
        before, old, new = found.before, _labels(self.theirs, found), _labels(self.ours, found)
        n_after = len(theirs) - before - len(old)
        # Rows that belong to no label, such as that of "no entity", come before and after those of the labels.
        ours[:before], ours[len(ours) - n_after :] = theirs[:before], theirs[len(theirs) - n_after :]
        for row, label in enumerate(new, before):
            if label in old:
                ours[row] = theirs[before + old.index(label)]
            elif old:
                shares = self.similar[found.kind, label].to(theirs)
                ours[row] = torch.tensordot(shares, theirs[before : before + len(old)], dims=1)
        return True


def _labels(schema: Schema, rows: LabelRows) -> Sequence[str]:
    return schema.entity_types if rows.kind == ENTITY_ROWS else schema.relation_types


def _copy_weights(old: Mapping[str, Tensor], new: Mapping[str, Tensor], rows: _Rows) -> None:
    """Copy weights in place. Parts that the trained model lacks, such as turns 2 and 3, keep their initial weights."""
    with torch.no_grad():
        for name, value in new.items():
            if name not in old:
                continue
            theirs = old[name]
            if theirs.ndim and rows.fill(name, theirs, value):
                continue
            if theirs.shape == value.shape:
                value.copy_(theirs)
            else:
                # The table of word pieces, which grows by the markers of new labels.
                value[: len(theirs)] = theirs


@torch.no_grad()
def _similar_labels(
    encoder: PretrainedEncoder, tokenizer: Any, theirs: Schema, ours: Schema
) -> dict[tuple[str, str], Tensor]:
    """Return, for each new label and its kind, the shares of the trained labels, which sum to 1."""
    found: dict[tuple[str, str], Tensor] = {}
    for kind in (ENTITY_ROWS, RELATION_ROWS):
        old, new = (_labels(schema, LabelRows(kind)) for schema in (theirs, ours))
        unknown = [label for label in new if label not in old]
        if not old or not unknown:
            continue
        names = [_NOT_WORDS.sub(" ", label).strip().lower() or label for label in (*old, *unknown)]
        pieces = tokenizer(names, padding=True, truncation=True, max_length=32, return_tensors="pt")
        ids, mask = pieces["input_ids"], pieces["attention_mask"]
        states = encoder.eval().model(input_ids=ids, attention_mask=mask).last_hidden_state * mask[..., None]
        vectors = torch.nn.functional.normalize(states.sum(1) / mask.sum(1, keepdim=True), dim=-1)
        similarity = vectors[len(old) :] @ vectors[: len(old)].T
        shares = (similarity / _TEMPERATURE).softmax(-1)
        found |= {(kind, label): row for label, row in zip(unknown, shares, strict=True)}
    return found


def _load(folder: Path, name: str) -> Model:
    try:
        return Model.load(folder)
    except CascadeError as error:
        raise ModelError(f"{OPTION} is {name!r}: {error.problem}", error.hint, option=OPTION) from error


def _at(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


def _merge(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_merged(own, given))


def _merged(own: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield own values, replaced by given ones. A given null stands for the own section or text."""
    for key in (*own, *(key for key in given if key not in own)):
        theirs, ours = own.get(key), given.get(key)
        if key == "fusion" and isinstance(ours, str):
            ours = {"preset": ours}
        if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
            if "preset" in ours:
                theirs = {name: value for name, value in theirs.items() if name not in ("entities", "subject")}
            yield key, _merge(theirs, ours)
        elif key not in given or (ours is None and isinstance(theirs, Mapping | str)):
            yield key, theirs
        else:
            yield key, ours
