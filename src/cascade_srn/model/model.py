"""A model: settings, schema, tokenizer and network. Create, save and load it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from cascade_srn.cascade import Cascade
from cascade_srn.config import FRESH, OVERLAPS, ModelSettings, Thresholds
from cascade_srn.data.collate import Collator
from cascade_srn.data.examples import Example
from cascade_srn.encoder.config_checks import FLOATS, check_sizes, refuse_remote_code, remove_auto_map
from cascade_srn.encoder.pieces import WordPieces, piece_limit
from cascade_srn.encoder.pretrained import add_markers, encoder_from_config, load_encoder, load_tokenizer
from cascade_srn.errors import CascadeError, ModelError
from cascade_srn.inference.predictor import Predictor, never_stop
from cascade_srn.model.build import family_of
from cascade_srn.model.family import BatchMaker, Network
from cascade_srn.model.stored import CARD_FILE as CARD_FILE
from cascade_srn.model.stored import StoredModel
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.version import __version__

FORMAT_VERSION = 1
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
# The section of config.json with the SHA-256 of the other files of the folder, by name.
CHECKSUMS = "sha256"
_COPY_AGAIN = "Copy the model again"


@dataclass(frozen=True)
class Model:
    """A model, with everything that training and extraction need. Make one with :meth:`create` or :meth:`load`.

    ``network`` and :attr:`collator` belong to the model family that ``settings.method`` names, and have the protocols
    of :mod:`cascade_srn.model.family`. Code for cascades only uses :attr:`cascade` and :attr:`cascade_collator`.

    Attributes:
        settings: The settings that are stored with the model.
        schema: The labels.
        tokenizer: The tokenizer of the pretrained encoder, with the markers of the family.
        network: The weights, as a module that computes the loss of a batch.
        stored: The card and the types of the weights in the folder that the model was loaded from, for :meth:`save`.

    Example:
        >>> model = extractor.model
        >>> model.settings.fusion.preset, model.settings.hidden_width, model.schema.entity_types[:3]
        ('swift', 128, ('Generic', 'Material', 'Method'))
    """

    settings: ModelSettings
    schema: Schema
    tokenizer: Any
    network: Network
    stored: StoredModel | None = field(default=None, compare=False, repr=False)

    @classmethod
    def create(cls, settings: ModelSettings, schema: Schema, *, seed: int = 0) -> Model:
        """Create an untrained model over a pretrained encoder.

        Args:
            settings: The settings of the model.
            schema: The labels.
            seed: Seed of the weights that are not pretrained. The global random state does not change.

        Raises:
            ModelError: If the encoder cannot be loaded.
        """
        if settings.start is not None:
            raise ModelError(
                f"settings.start is {settings.start!r}, but Model.create makes an untrained model",
                "Use cascade_srn.start_model(name, schema)",
            )
        if settings.encoder.name == FRESH and not Path(FRESH).exists():
            raise ModelError(
                f"only a recipe can make the encoder {FRESH!r}, from its training text",
                "Call cascade_srn.encoder.fresh.create_encoder(words, folder), and give its folder as the encoder",
            )
        tokenizer = load_tokenizer(settings.encoder.name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder = load_encoder(settings.encoder.name, pooling=settings.encoder.pooling)
            family = family_of(settings)
            add_markers(encoder, tokenizer, family.markers(settings, schema))
            network = family.network(settings, schema, encoder)
        return cls(settings, schema, tokenizer, network)

    @property
    def cascade(self) -> Cascade:
        """The network of a cascade.

        Raises:
            ModelError: If the model is a baseline.
        """
        if not isinstance(self.network, Cascade):
            raise self._not_a_cascade("has no cascade")
        return self.network

    @cached_property
    def collator(self) -> BatchMaker:
        """The collator of the model's family, which makes rows and batches."""
        encoder = self.settings.encoder
        limit = piece_limit(self.network.encoder.config, self.tokenizer)
        if encoder.max_pieces is not None:
            limit = min(limit, encoder.max_pieces)
        form = self.settings.text_form
        pieces = WordPieces(self.tokenizer, limit=limit, overlap=encoder.overlap, text_form=form)
        return family_of(self.settings).collator(self.settings, self.schema, pieces, self.tokenizer)

    @property
    def cascade_collator(self) -> Collator:
        """The collator of a cascade, which can also insert markers of entities and subjects.

        Raises:
            ModelError: If the model is a baseline.
        """
        if not isinstance(self.collator, Collator):
            raise self._not_a_cascade("has no collator of a cascade")
        return self.collator

    def cost(self, example: Example) -> int:
        """Return the cost of a sentence in ordinary words. See ``WordPieces.cost``."""
        return self.collator.pieces.cost(self.collator.plain(example))

    @property
    def overlaps(self) -> str:
        """What to do with entities that share words: the choice stored with the model, else "flat"."""
        return self.settings.overlaps or OVERLAPS[0]

    def predictor(
        self,
        *,
        thresholds: Thresholds | None = None,
        overlaps: str | None = None,
        batch_words: int = 4096,
        precision: str = "auto",
        check: Callable[[], None] = never_stop,
        constraints: str | None = None,
    ) -> Predictor:
        """Make a predictor. See :class:`.Predictor`.

        Args:
            thresholds: Minimum scores. None: those of the model.
            overlaps: What to do with entities that share words. None: :attr:`overlaps`.
            batch_words: Maximum number of words per batch, padding included.
            precision: Precision of the pretrained encoder.
            check: Called at short intervals. It may raise to stop the work.
            constraints: "on" or "off". None: the choice of the model.
        """
        return Predictor(
            self.network,
            self.schema,
            partial(family_of(self.settings).search, self.network, self.collator),
            self.collator,
            thresholds=self.settings.thresholds if thresholds is None else thresholds,
            temperatures=self.settings.temperatures,
            limits=self.settings.limits,
            overlaps=self.overlaps if overlaps is None else overlaps,
            check=check,
            batch_words=batch_words,
            precision=precision,
            constraints=self.settings.constraints if constraints is None else constraints,
        )

    def require_cascade(self, purpose: str) -> None:
        """Raise a ModelError if the model is a baseline. ``purpose`` is the work that needs a cascade."""
        if self.settings.method != "cascade":
            raise self._not_a_cascade(f"cannot be used for {purpose}")

    def _not_a_cascade(self, consequence: str) -> ModelError:
        return ModelError(f"the model is a baseline ({self.settings.method!r}) and {consequence}", "Give a cascade")

    def save(self, folder: str | Path, *, card: str | None = None) -> None:
        """Write the model to a folder. A model in the folder is replaced after all files are written.

        A model that was loaded keeps its card, and the types of weights that have not changed, such as float16.

        Args:
            folder: A new folder, an empty one, or one with a model.
            card: Text of the model card (README.md), in Markdown. None: the card that the model was loaded with, or a
                short one.

        Raises:
            ModelError: If the folder contains something else.
        """
        name = self.settings.encoder.name
        # The path of a folder means nothing on another machine, so only its name is stored.
        encoder = replace(self.settings.encoder, name=Path(name).name if Path(name).exists() else name)
        dropped = {"_name_or_path", "architectures", "transformers_version", "dtype"}
        # Imported here because extraction does not need them.
        from cascade_srn.storage.folders import replacing_folder

        encoder_config = remove_auto_map(self.network.encoder.config.to_dict())
        config = {
            "format_version": FORMAT_VERSION,
            "cascade_srn_version": __version__,
            "model": {k: v for k, v in replace(self.settings, encoder=encoder).to_dict().items() if k != "start"},
            "schema": self.schema.to_dict(),
            "encoder": {key: value for key, value in encoder_config.items() if key not in dropped},
        }
        weights = {k: v.detach().cpu().clone().contiguous() for k, v in self.network.state_dict().items()}
        if self.stored is not None:
            weights = {name: self.stored.as_stored(name, weight) for name, weight in weights.items()}
        with replacing_folder(folder, marker=CONFIG_FILE, key="cascade_srn_version") as target:
            self.tokenizer.save_pretrained(target)
            save_file(weights, target / WEIGHTS_FILE, metadata={"format": "pt"})
            config[CHECKSUMS] = {path.name: checksum(path) for path in sorted(target.iterdir()) if path.is_file()}
            (target / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            (target / CARD_FILE).write_text(self._card(encoder.name) if card is None else card, encoding="utf-8")

    def _card(self, encoder: str) -> str:
        """Return the card that the model was loaded with, or a short one."""
        kept = None if self.stored is None else self.stored.card_for(self.settings, self.schema)
        if kept is not None:
            return kept
        from cascade_srn.model.card import model_card  # extraction does not need it

        return model_card(self.settings, self.schema, encoder)

    def forget_card(self) -> None:
        """Save the model without the card that it was loaded with, because its weights are trained."""
        if self.stored is not None:
            object.__setattr__(self, "stored", replace(self.stored, card=None))

    @classmethod
    def load(cls, folder: str | Path, *, schema: Schema | None = None, preset: str | None = None) -> Model:
        """Read a model from a folder.

        The folder need not be trusted. Code in it is never run, the shapes of the weights are compared with
        ``config.json`` before memory is allocated, and the files are compared with their checksums.

        Args:
            folder: The folder that :meth:`save` wrote.
            schema: Refuse a model with other labels.
            preset: Refuse a model with another fusion preset.

        Raises:
            ModelError: If the folder has no model, a damaged one, or one with another schema or preset.
        """
        folder = Path(folder)
        settings, found, encoder_config, checksums = read_config(folder)
        refuse_remote_code(folder)
        _check_expectations(folder, settings, found, schema, preset)
        stored = stored_weights(folder / WEIGHTS_FILE)
        check_sizes(encoder_config, f"the encoder in {str(folder / CONFIG_FILE)!r}", n_tensors=len(stored))

        def build() -> Network:
            encoder = encoder_from_config(encoder_config, pooling=settings.encoder.pooling)
            return family_of(settings).network(settings, found, encoder)

        _check_shapes(folder, build, stored)
        _check_files(folder, checksums)
        # The initial weights are replaced below, and must not change the global random state.
        with torch.random.fork_rng(devices=[]):
            network = build()
        _load_weights(network, folder / WEIGHTS_FILE)
        origin = StoredModel.read(folder, settings, found, {name: dtype for name, (_, dtype) in stored.items()})
        return cls(settings, found, load_tokenizer(str(folder)), network.eval(), origin)


def read_settings(folder: str | Path) -> tuple[ModelSettings, Schema]:
    """Read the settings and the schema of a model without its weights."""
    settings, schema, _, _ = read_config(Path(folder))
    return settings, schema


def read_config(folder: Path) -> tuple[ModelSettings, Schema, dict[str, Any], dict[str, str]]:
    """Read the settings, the schema, the configuration of the encoder and the checksums of the other files."""
    path = folder / CONFIG_FILE
    if folder.is_file():
        raise ModelError(f"{str(folder)!r} is a file, but a model is a folder", "Give the folder")
    if not path.is_file():
        best = folder / "best"
        hint = "Give a folder that a model was saved to"
        if (best / CONFIG_FILE).is_file():
            hint = f"Give {str(best)!r}, the best model of that run"
        raise ModelError(f"there is no model in {str(folder)!r}: {CONFIG_FILE} is missing", hint)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        version = config["format_version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{str(path)!r} is not the configuration of a cascade-srn model ({type(error).__name__}: {error})",
            "Give a folder that a model was saved to",
        ) from error
    if version != FORMAT_VERSION:
        raise ModelError(
            f"the model in {str(folder)!r} has format version {version}, but this release reads {FORMAT_VERSION}",
            "Install the release that wrote it, or train it again",
        )
    try:
        stored = config["model"]
        # Earlier releases wrote no text form, and read words as they are.
        given = {"text_form": "verbatim", **stored} if isinstance(stored, dict) else stored
        settings = ModelSettings.from_dict(given, f"{path}: model")
        schema, encoder = Schema.from_dict(config["schema"]), config["encoder"]
    except KeyError as error:
        raise ModelError(f"{str(path)!r} lacks the section {error}", _COPY_AGAIN) from error
    except CascadeError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.problem}", error.hint) from error
    except OverflowError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}", _COPY_AGAIN) from error
    # Older releases wrote no checksums.
    checksums = config.get(CHECKSUMS, {})
    for section, value in (("encoder", encoder), (CHECKSUMS, checksums)):
        if not isinstance(value, dict):
            raise ModelError(f"the section {section!r} of {str(path)!r} is not a mapping", _COPY_AGAIN)
    return settings, schema, encoder, checksums


def _check_expectations(
    folder: Path, settings: ModelSettings, found: Schema, schema: Schema | None, preset: str | None
) -> None:
    """Compare a model with the schema and the preset that the caller expects."""
    if schema is not None and (differences := schema.differences(found)):
        raise ModelError(
            f"the model in {str(folder)!r} has another schema: {'; '.join(differences)}",
            "Use the schema it was trained with, or train a new model",
        )
    if preset is None:
        return
    fusion = settings.fusion
    if settings.method != "cascade":
        has = f"is a baseline ({settings.method!r}), which has no fusion"
    elif fusion.preset != preset:
        name = f"the fusion {fusion.preset!r}" if fusion.preset else "a fusion without a preset"
        has = f"has {name} (entities {fusion.entities}, subject {fusion.subject})"
    else:
        return
    raise ModelError(f"the model in {str(folder)!r} {has}, not {preset!r}", "Choose a model with that preset")


def stored_weights(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the dtype of each stored weight, without reading the weights."""
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (the file is no mapping)
            return {name: (tuple(stored.get_shape()), str(stored.get_dtype())) for name, stored in slices.items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"the weights in {str(path)!r} cannot be read ({error})", _COPY_AGAIN) from error


def _check_shapes(
    folder: Path, build: Callable[[], Network], stored: Mapping[str, tuple[tuple[int, ...], str]]
) -> None:
    """Compare the stored weights with the configuration. The meta device allocates no memory for that."""
    path = folder / WEIGHTS_FILE
    try:
        with torch.device("meta"):
            expected = build().state_dict()
    except ModelError:
        raise
    except Exception as error:
        # The configuration may contain any number, and each part of the network raises errors of its own.
        raise ModelError(
            f"no network can be built from {str(folder / CONFIG_FILE)!r} ({type(error).__name__}: {error})", _COPY_AGAIN
        ) from error
    problems = [f"{name} is missing" for name in expected if name not in stored]
    problems += [f"{name} is unknown" for name in stored if name not in expected]
    problems += [
        f"{name} is {stored[name][0]}, not {tuple(value.shape)}"
        for name, value in expected.items()
        if name in stored and stored[name][0] != tuple(value.shape)
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ModelError(
            f"the weights in {str(path)!r} do not fit {CONFIG_FILE}: {', '.join(problems[:3])}{more}",
            "The two files belong to different models",
        )
    for name, value in expected.items():
        dtype = stored[name][1]
        if value.is_floating_point() != (dtype in FLOATS):
            kind = "a floating-point type" if value.is_floating_point() else value.dtype
            raise ModelError(f"the weight {name} in {str(path)!r} is stored as {dtype}, not as {kind}", _COPY_AGAIN)


def _check_files(folder: Path, checksums: Mapping[str, Any]) -> None:
    """Compare the files with the checksums that were written with the model."""
    for name, known in checksums.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise ModelError(f"{name!r} is missing from the model in {str(folder)!r}", _COPY_AGAIN)
        if checksum(path) != known:
            raise ModelError(f"{str(path)!r} does not match the SHA-256 in {CONFIG_FILE}", _COPY_AGAIN)


def _load_weights(network: Network, path: Path) -> None:
    """Load weights whose names and shapes are correct, and refuse values that are not finite."""
    try:
        network.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"the weights in {str(path)!r} cannot be read ({error})", _COPY_AGAIN) from error
    for name, value in network.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelError(
                f"the weight {name} in {str(path)!r} has values that are not finite", "Copy or train the model again"
            )
