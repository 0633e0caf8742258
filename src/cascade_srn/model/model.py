"""A model as one object: settings, schema, tokenizer and network; create, save and load it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from cascade_srn.cascade import Cascade
from cascade_srn.config import FRESH, ModelSettings, Thresholds
from cascade_srn.data.collate import Collator
from cascade_srn.data.examples import Example
from cascade_srn.encoder.config_checks import FLOATS, check_sizes, refuse_remote_code, without_code
from cascade_srn.encoder.pieces import WordPieces, piece_limit
from cascade_srn.encoder.pretrained import add_markers, encoder_from_config, load_encoder, load_tokenizer
from cascade_srn.errors import CascadeError, ModelError
from cascade_srn.inference.cascade_search import Predictor, never_stop
from cascade_srn.model.build import family_of
from cascade_srn.model.family import BatchMaker, Network
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.version import __version__

FORMAT_VERSION = 1
CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "model.safetensors", "README.md"
CHECKSUMS = "sha256"
"""The section of ``config.json`` with the SHA-256 of other files of the folder, by name."""


@dataclass(frozen=True)
class Model:
    """A model: everything that extraction needs. Use :meth:`create` or :meth:`load` to make one.

    ``network`` and :attr:`collator` belong to the model family that ``settings.method`` names. Training, evaluation
    and extraction use only what their protocols (:mod:`cascade_srn.model.family`) declare. Code for cascades alone uses
    :attr:`cascade` and :attr:`cascade_collator`, which refuse a baseline.

    Attributes:
        settings: The settings that are stored with the model.
        schema: The labels.
        tokenizer: The tokenizer of the pretrained encoder, with the markers of the family.
        network: The weights, as a module that computes the loss of a batch.
    """

    settings: ModelSettings
    schema: Schema
    tokenizer: Any
    network: Network

    @classmethod
    def create(cls, settings: ModelSettings, schema: Schema, *, seed: int = 0) -> Model:
        """A new model over a pretrained encoder; all that is not pretrained starts at random, by the seed."""
        if settings.encoder.name == FRESH and not Path(FRESH).exists():
            raise ModelError(
                f"the encoder {FRESH!r} is made of the training text of a recipe; in Python make one by "
                "cascade_srn.encoder.fresh.create_encoder(words, folder), and give its folder"
            )
        tokenizer = load_tokenizer(settings.encoder.name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder = load_encoder(settings.encoder.name, pooling=settings.encoder.pooling)
            method = family_of(settings)
            add_markers(encoder, tokenizer, method.markers(settings, schema))
            network = method.network(settings, schema, encoder)
        return cls(settings, schema, tokenizer, network)

    @property
    def cascade(self) -> Cascade:
        """The network of a cascade.

        Raises:
            ModelError: If the model is a baseline.
        """
        if not isinstance(self.network, Cascade):
            raise ModelError(
                f"the model is a baseline, {self.settings.method!r}, and has no cascade; use model.network, or a model "
                "of the method 'cascade'"
            )
        return self.network

    @cached_property
    def collator(self) -> BatchMaker:
        """The collator of the model's family, which makes rows and batches."""
        encoder = self.settings.encoder
        limit = piece_limit(self.network.encoder.config, self.tokenizer)
        if encoder.max_pieces is not None:
            limit = min(limit, encoder.max_pieces)
        pieces = WordPieces(self.tokenizer, limit=limit, overlap=encoder.overlap)
        return family_of(self.settings).collator(self.settings, self.schema, pieces, self.tokenizer)

    @property
    def cascade_collator(self) -> Collator:
        """The collator of a cascade, which can also mark entities and subjects.

        Raises:
            ModelError: If the model is a baseline.
        """
        if not isinstance(self.collator, Collator):
            raise ModelError(
                f"the model is a baseline, {self.settings.method!r}, and has no collator of a cascade; use "
                "model.collator, or a model of the method 'cascade'"
            )
        return self.collator

    def cost(self, example: Example) -> int:
        """Return what a sentence costs, counted in ordinary words; see ``WordPieces.cost``."""
        return self.collator.pieces.cost(self.collator.plain(example))

    def predictor(
        self,
        *,
        thresholds: Thresholds | None = None,
        batch_words: int = 4096,
        precision: str = "auto",
        check: Callable[[], None] = never_stop,
    ) -> Predictor:
        """Make a predictor with this model's thresholds, or others. ``check`` may raise to stop it."""
        return Predictor(
            self.network,
            self.schema,
            partial(family_of(self.settings).search, self.network, self.collator),
            self.collator,
            thresholds=self.settings.thresholds if thresholds is None else thresholds,
            temperatures=self.settings.temperatures,
            limits=self.settings.limits,
            check=check,
            batch_words=batch_words,
            precision=precision,
        )

    def require_cascade(self, purpose: str) -> None:
        """Refuse a baseline where only a cascade will do; ``purpose`` completes the sentence "… is for cascades"."""
        if self.settings.method != "cascade":
            raise ModelError(
                f"the model is a baseline, {self.settings.method!r}, and {purpose} is for cascades; give a model of "
                "the method 'cascade'"
            )

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder; a model that is there is replaced once everything is written.

        ``config.json`` is written last and holds the SHA-256 of the weights and of the tokenizer's files.
        """
        name = self.settings.encoder.name
        # A folder of this machine means nothing elsewhere; its last part still says which encoder it was.
        encoder = replace(self.settings.encoder, name=Path(name).name if Path(name).exists() else name)
        dropped = {"_name_or_path", "architectures", "transformers_version", "dtype"}
        # Extraction does not write model folders.
        from cascade_srn.model.card import model_card
        from cascade_srn.storage.folders import replacing_folder

        encoder_config = without_code(self.network.encoder.config.to_dict())
        config = {
            "format_version": FORMAT_VERSION,
            "cascade_srn_version": __version__,
            "model": replace(self.settings, encoder=encoder).to_dict(),
            "schema": self.schema.to_dict(),
            "encoder": {key: value for key, value in encoder_config.items() if key not in dropped},
        }
        weights = {k: v.detach().cpu().clone().contiguous() for k, v in self.network.state_dict().items()}
        with replacing_folder(folder, marker=CONFIG_FILE, key="cascade_srn_version") as target:
            self.tokenizer.save_pretrained(target)
            save_file(weights, target / WEIGHTS_FILE, metadata={"format": "pt"})
            config[CHECKSUMS] = {path.name: checksum(path) for path in sorted(target.iterdir()) if path.is_file()}
            (target / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            card = model_card(self.settings, self.schema, encoder.name)
            (target / CARD_FILE).write_text(card, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, *, schema: Schema | None = None, preset: str | None = None) -> Model:
        """Read a model from a folder.

        Nothing in the folder is trusted: code is never run, the shapes that ``config.json`` implies are compared with
        those of the weights before anything is allocated, and files are compared with their checksums.

        Args:
            folder: the folder that :meth:`save` wrote.
            schema: the labels that the caller counts on; a model for other labels is refused.
            preset: the fusion preset that the caller counts on; a model of another one is refused.

        Raises:
            ModelError: if the folder holds no model, a damaged one, or one made for something else.
        """
        folder = Path(folder)
        settings, found, encoder_config, checksums = _read_config(folder)
        refuse_remote_code(folder)
        _refuse_other(folder, settings, found, schema, preset)
        stored = _stored_weights(folder / WEIGHTS_FILE)
        check_sizes(encoder_config, f"the encoder in {str(folder / CONFIG_FILE)!r}", n_tensors=len(stored))

        def build() -> Network:
            encoder = encoder_from_config(encoder_config, pooling=settings.encoder.pooling)
            return family_of(settings).network(settings, found, encoder)

        _refuse_other_shapes(folder, build, stored)
        _refuse_changed_files(folder, checksums)
        # Initial weights are replaced below, and must not change the caller's random numbers.
        with torch.random.fork_rng(devices=[]):
            network = build()
        _load_weights(network, folder / WEIGHTS_FILE)
        return cls(settings, found, load_tokenizer(str(folder)), network.eval())


def _read_config(folder: Path) -> tuple[ModelSettings, Schema, dict[str, Any], dict[str, str]]:
    """Read the settings, the schema, the encoder's configuration and the checksums of the other files."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        best = folder / "best"
        wanted = (
            f"{str(best)!r}, the best model of that run"
            if (best / CONFIG_FILE).is_file()
            else "a folder that a model was saved to"
        )
        if folder.is_file():
            raise ModelError(f"{str(folder)!r} is a file, but a model is a folder; give the folder that it is in")
        raise ModelError(f"there is no model in {str(folder)!r}: {CONFIG_FILE} is missing; give {wanted}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        version = config["format_version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{str(path)!r} is not the configuration of a cascade-srn model ({type(error).__name__}: {error}); "
            "give a folder that a model was saved to"
        ) from error
    if version != FORMAT_VERSION:
        raise ModelError(
            f"the model in {str(folder)!r} has format version {version}, and this release reads {FORMAT_VERSION}; "
            "install the release that wrote it, or train it again"
        )
    try:
        settings = ModelSettings.from_dict(config["model"], f"{path}: model")
        schema, encoder = Schema.from_dict(config["schema"]), config["encoder"]
    except KeyError as error:
        raise ModelError(f"{str(path)!r} lacks the section {error}; the folder is incomplete") from error
    except (CascadeError, OverflowError) as error:
        raise ModelError(f"the configuration in {str(path)!r} cannot be read: {error}") from error
    # Models of releases that wrote no checksums are read without them.
    checksums = config.get(CHECKSUMS, {})
    for section, value in (("encoder", encoder), (CHECKSUMS, checksums)):
        if not isinstance(value, dict):
            raise ModelError(f"the section {section!r} of {str(path)!r} is no mapping. Copy the model again.")
    return settings, schema, encoder, checksums


def _refuse_other(
    folder: Path, settings: ModelSettings, found: Schema, schema: Schema | None, preset: str | None
) -> None:
    if schema is not None and (differences := schema.differences(found)):
        raise ModelError(
            f"the model in {str(folder)!r} was made for another schema: {'; '.join(differences)}; "
            "use the schema it was trained with, or train a new model"
        )
    if preset is not None and settings.method != "cascade":
        raise ModelError(
            f"the model in {str(folder)!r} is a baseline, {settings.method!r}, which has no fusion, not a cascade with "
            f"the fusion {preset!r}; choose a model of that preset"
        )
    if preset is not None and settings.fusion.preset != preset:
        fusion = settings.fusion
        raise ModelError(
            f"the model in {str(folder)!r} has the fusion {fusion.preset or 'of no preset'} (entities "
            f"{fusion.entities}, subject {fusion.subject}), not {preset!r}; choose a model of that preset"
        )


def _stored_weights(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the dtype of each stored weight, without reading the weights."""
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (the file is no mapping)
            return {name: (tuple(found.get_shape()), str(found.get_dtype())) for name, found in slices.items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"the weights in {str(path)!r} cannot be read ({error}); copy the model again") from error


def _refuse_other_shapes(
    folder: Path, build: Callable[[], Network], stored: Mapping[str, tuple[tuple[int, ...], str]]
) -> None:
    """Compare what the configuration implies with what is stored, on the meta device, which allocates nothing."""
    path = folder / WEIGHTS_FILE
    try:
        with torch.device("meta"):
            wanted = build().state_dict()
    except ModelError:
        raise
    except Exception as error:
        # The configuration may hold any number, and each part of the network complains in its own way.
        raise ModelError(
            f"no network can be built from {str(folder / CONFIG_FILE)!r} ({type(error).__name__}: {error}). Copy the "
            "model again."
        ) from error
    problems = [f"{name} is missing" for name in wanted if name not in stored]
    problems += [f"{name} is unknown" for name in stored if name not in wanted]
    problems += [
        f"{name} is {stored[name][0]}, not {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in stored and stored[name][0] != tuple(value.shape)
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ModelError(
            f"the weights in {str(path)!r} do not fit the configuration beside them: "
            f"{', '.join(problems[:3])}{more}; the two files are of different models"
        )
    for name, value in wanted.items():
        kind = stored[name][1]
        if value.is_floating_point() != (kind in FLOATS):
            expected = "floating-point numbers are" if value.is_floating_point() else f"{value.dtype} is"
            raise ModelError(
                f"the weight {name} in {str(path)!r} is stored as {kind}, but {expected} expected. Copy the model "
                "again."
            )


def _refuse_changed_files(folder: Path, checksums: Mapping[str, Any]) -> None:
    """Refuse files that are missing or are not what was written with the model."""
    for name, known in checksums.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise ModelError(f"{name!r} is missing from the model in {str(folder)!r}. Copy the model again.")
        if checksum(path) != known:
            raise ModelError(
                f"{str(path)!r} does not match the SHA-256 that {CONFIG_FILE} records. Copy the model again."
            )


def _load_weights(network: Network, path: Path) -> None:
    """Load weights whose names and shapes have been checked; refuse numbers that are not finite."""
    try:
        network.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"the weights in {str(path)!r} cannot be read ({error}); copy the model again") from error
    for name, value in network.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelError(
                f"the weight {name} in {str(path)!r} holds numbers that are not finite. Copy or train the model again."
            )
