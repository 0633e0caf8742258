"""A model: settings, schema, tokenizer and network. Create, save and load it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cascade_srn.config import FRESH, ModelSettings
from cascade_srn.encoder.config_checks import FLOATS, check_sizes, refuse_remote_code, remove_auto_map
from cascade_srn.encoder.cuda_graphs.passes import begin_prediction
from cascade_srn.encoder.pieces import WordPieces, piece_limit
from cascade_srn.encoder.pretrained import add_markers, encoder_from_config, load_encoder, load_tokenizer, reuse_casts
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.inference.cascade_search import Search, SearchSettings
from cascade_srn.inference.precision import PrecisionRecord
from cascade_srn.inference.predictor import BaseModel
from cascade_srn.model.build import BatchMaker, ModelFamily, family_of
from cascade_srn.model.folder import (
    CARD_FILE,
    CHECKSUMS,
    CONFIG_FILE,
    COPY_AGAIN,
    FORMAT_VERSION,
    WEIGHTS_FILE,
    check_files,
    read_config,
    read_export,
    read_precision,
    stored_weights,
    write_precision,
)
from cascade_srn.network.batch import Collator
from cascade_srn.network.cascade import Cascade, Network
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.version import __version__

# Appended to a card if the settings of the model are no longer those that the scores were measured with.
CHANGED_NOTICE = "Thresholds or other settings of the model were changed after the figures above were measured."
# Cards are read into memory. A longer one, in bytes, is not kept.
_MAX_CARD = 1 << 20
# Types of weights that are kept when a model is saved again, by their names in safetensors.
_DTYPES = {"F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class StoredModel:
    """What a folder has besides settings and values of weights, to be kept when the model is saved again."""

    card: str | None  # Text of the model card, or None if there is none
    settings: ModelSettings  # Settings of the model when it was loaded. The figures of the card are theirs.
    schema: Schema  # Its schema
    dtypes: Mapping[str, torch.dtype]  # Types of the stored weights

    @classmethod
    def read(cls, folder: Path, settings: ModelSettings, schema: Schema, dtypes: Mapping[str, str]) -> StoredModel:
        """Read the card of a folder. One that cannot be read is treated as missing."""
        try:
            with (folder / CARD_FILE).open("rb") as handle:
                data = handle.read(_MAX_CARD + 1)
            card = data.decode("utf-8") if len(data) <= _MAX_CARD else None
        except (OSError, UnicodeDecodeError):
            card = None
        known = {name: getattr(torch, _DTYPES[dtype]) for name, dtype in dtypes.items() if dtype in _DTYPES}
        return cls(card, settings, schema, known)

    def as_stored(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return a weight in the type that it was stored in, if that keeps its value. Trained weights need not fit."""
        dtype = self.dtypes.get(name, weight.dtype)
        narrow = weight.to(dtype)
        return narrow if dtype == weight.dtype or torch.equal(narrow.to(weight.dtype), weight) else weight

    def card_for(self, settings: ModelSettings, schema: Schema) -> str | None:
        """Return the card, with a notice if it has scores and the model has other settings now."""
        is_changed = (settings, schema) != (self.settings, self.schema)
        if self.card is None or not is_changed or "\n## Scores\n" not in self.card or CHANGED_NOTICE in self.card:
            return self.card
        return f"{self.card.rstrip()}\n\n{CHANGED_NOTICE}\n"


@dataclass(frozen=True)
class Model(BaseModel):
    """A model, with everything that training and extraction need. Make one with :meth:`create` or :meth:`load`.

    ``network`` and :attr:`collator` belong to the model family that ``settings.method`` names, and have the protocols
    of :mod:`cascade_srn.model.build`. Code for cascades only uses :attr:`cascade` and :attr:`cascade_collator`.

    Attributes:
        settings: The settings that are stored with the model.
        schema: The labels.
        tokenizer: The tokenizer of the pretrained encoder, with the markers of the family.
        network: The weights, as a module that computes the loss of a batch.
        stored: The card and the types of the weights in the folder that the model was loaded from, for :meth:`save`.
        precision_record: Predictions on calibration documents, from which a precision can be promised.

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
    precision_record: PrecisionRecord | None = field(default=None, compare=False, repr=False)

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
            family = family_of(settings.method)
            add_markers(encoder, tokenizer, family.markers(settings, schema))
            network = family.network(settings, schema, encoder)
        return cls(settings, schema, tokenizer, network)

    @property  # not cached, because its functions cannot be pickled
    def family(self) -> ModelFamily:
        """The model family that ``settings.method`` names."""
        return family_of(self.settings.method)

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
        return self.family.collator(self.settings, self.schema, pieces, self.tokenizer)

    @property
    def cascade_collator(self) -> Collator:
        """The collator of a cascade, which can also insert markers of entities and subjects.

        Raises:
            ModelError: If the model is a baseline.
        """
        if not isinstance(self.collator, Collator):
            raise self._not_a_cascade("has no collator of a cascade")
        return self.collator

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return self._a_weight.device

    @cached_property
    def _a_weight(self) -> torch.nn.Parameter:
        # Looking for it takes longer than some steps of a prediction.
        return next(self.network.parameters())

    @property
    def survives_fork(self) -> bool:
        """Whether torch uses no other threads."""
        return torch.get_num_threads() == 1

    def to(self, device: str | torch.device) -> None:
        """Move the network to a device, in place. "auto": the GPU if there is one.

        Raises:
            ConfigError: If the device is not available.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.network.to(device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"the model cannot be moved to the device {str(device)!r} ({reason})",
                "Use cpu, or cuda if torch finds a GPU with enough memory",
                option="device",
            ) from error

    def eval(self) -> None:
        """Switch the network to evaluation mode."""
        self.network.eval()

    def search(self, settings: SearchSettings) -> Search:
        """See :class:`.BaseModel`. A GPU searches with a cascade by CUDA graphs."""
        if self.device.type == "cuda" and isinstance(self.network, Cascade):
            from cascade_srn.inference.cuda_graphs.search import CudaSearch

            return CudaSearch(self.network, self.cascade_collator, settings)
        return self.family.search(self.network, self.collator, settings)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Disable gradients. See :class:`.BaseModel`."""
        if self.network.training:
            raise RuntimeError("the model is in training mode. Call eval() on it before predicting")
        with torch.inference_mode(), reuse_casts(self.device):
            if self.device.type == "cuda":
                begin_prediction(self.network.encoder)
            yield

    def capture_cuda_graphs(self, bf16: bool) -> None:
        """See :class:`.BaseModel`. Graphs that are captured already are kept."""
        if self.device.type != "cuda" or not isinstance(self.network, Cascade):
            return
        from cascade_srn.inference.cuda_graphs.turns import prediction_cuda_graphs

        with self.inference():
            limit = self.collator.pieces.limit
            prediction_cuda_graphs(self.network).capture_ahead(self.network, self.device, bf16, limit)

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
        from cascade_srn.storage.atomic import replacing_folder

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
            write_precision(target, self.precision_record)

    def _card(self, encoder: str) -> str:
        """Return the card that the model was loaded with, or a short one."""
        kept = None if self.stored is None else self.stored.card_for(self.settings, self.schema)
        if kept is not None:
            return kept
        from cascade_srn.model.card import model_card  # extraction does not need it

        return model_card(self.settings, self.schema, encoder)

    def forget_card(self) -> None:
        """Save the model without the card and statistics that it was loaded with, because its weights are trained."""
        object.__setattr__(self, "precision_record", None)
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
        if read_export(folder) is not None:
            raise ModelError(
                f"the model in {str(folder)!r} is exported, and can only be used for extraction",
                "Give the model that it was exported from",
            )
        refuse_remote_code(folder)
        _check_expectations(folder, settings, found, schema, preset)
        stored = stored_weights(folder / WEIGHTS_FILE)
        check_sizes(encoder_config, f"the encoder in {str(folder / CONFIG_FILE)!r}", n_tensors=len(stored))

        def build() -> Network:
            encoder = encoder_from_config(encoder_config, pooling=settings.encoder.pooling)
            return family_of(settings.method).network(settings, found, encoder)

        _check_shapes(folder, build, stored)
        check_files(folder, checksums)
        # The initial weights are replaced below, and must not change the global random state.
        with torch.random.fork_rng(devices=[]):
            network = build()
        _load_weights(network, folder / WEIGHTS_FILE)
        origin = StoredModel.read(folder, settings, found, {name: dtype for name, (_, dtype) in stored.items()})
        return cls(settings, found, load_tokenizer(str(folder)), network.eval(), origin, read_precision(folder))


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
            f"no network can be built from {str(folder / CONFIG_FILE)!r} ({type(error).__name__}: {error})", COPY_AGAIN
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
            raise ModelError(f"the weight {name} in {str(path)!r} is stored as {dtype}, not as {kind}", COPY_AGAIN)


def _load_weights(network: Network, path: Path) -> None:
    """Load weights whose names and shapes are correct, and refuse values that are not finite."""
    try:
        network.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelError(f"the weights in {str(path)!r} cannot be read ({error})", COPY_AGAIN) from error
    for name, value in network.state_dict().items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ModelError(
                f"the weight {name} in {str(path)!r} has values that are not finite", "Copy or train the model again"
            )
