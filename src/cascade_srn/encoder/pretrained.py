"""The pretrained encoder: pieces in, one vector for each word and marker out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from cascade_srn.config import POOLINGS, require_choice
from cascade_srn.encoder.config_checks import FLOATS, check_encoder
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.errors import ModelError
from cascade_srn.storage.bundled import hub_is_out_of_reach, is_model

if TYPE_CHECKING:
    from cascade_srn.encoder.cuda_graphs import CudaGraphs


class PretrainedEncoder(nn.Module):
    """Any encoder that transformers' ``AutoModel`` loads, read word by word.

    An item's vector is pooled from the pieces it owns: the first one, their mean or their maximum.
    """

    def __init__(self, model: Any, *, pooling: str = "mean") -> None:
        super().__init__()
        require_choice("pooling", pooling, POOLINGS)
        # The sentence-level pooler of BERT-like models is never used here, and would only take space.
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model: Any = model
        self.pooling = pooling
        # Made by training on a GPU, for as long as it lasts.
        self.cuda_graphs: CudaGraphs | None = None

    @property
    def config(self) -> Any:
        """The transformers configuration of the model."""
        return self.model.config

    @property
    def width(self) -> int:
        """The width of a word's vector."""
        return int(self.config.hidden_size)

    def forward(self, rows: RowBatch, *, half: bool = False, check: Callable[[], None] | None = None) -> Tensor:
        """Encode rows of items.

        Args:
            rows: The rows, in one or more passes.
            half: Compute in bfloat16, whatever type the weights are stored in.
            check: Called between passes. It may raise to stop the work.

        Shapes:
            returns: (n_rows, n_items, width), zero at padding
        """
        n_rows = rows.item_lengths.shape[0]
        if rows.source.shape[0] == 0:
            return torch.zeros(n_rows, rows.n_items, self.width, device=rows.piece_ids.device)
        read = self._read_all(list(_by_pass(rows)), half, check)
        hidden = read[0] if len(read) == 1 else torch.cat(read)
        pieces = hidden.index_select(0, rows.source).float()
        return self._pool(pieces, rows.target, n_rows * rows.n_items).view(n_rows, rows.n_items, -1)

    def record(self) -> CudaGraphs:
        """From now on, training plays recordings of what the encoder computes, on a GPU; one process, no wrappers."""
        from cascade_srn.encoder.cuda_graphs import CudaGraphs

        self.cuda_graphs = CudaGraphs(self.model, self._read)
        return self.cuda_graphs

    def _read_all(
        self, passes: Sequence[tuple[Tensor, Tensor]], half: bool, check: Callable[[], None] | None
    ) -> list[Tensor]:
        if self.cuda_graphs is not None and self.training and torch.is_grad_enabled():
            with _precision(passes[0][0].device, half):
                return self.cuda_graphs.read(passes)
        found = []
        for number, (ids, mask) in enumerate(passes):
            # Not inside autocast: the check may run another prediction, in its own precision.
            if number and check is not None:
                check()
            with _precision(ids.device, half):
                found.append(self._read(ids, mask))
        return found

    def _read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Shapes: ids, mask (n_windows, n_pieces); returns (n_windows × n_pieces, width)."""
        hidden: Tensor = self.model(input_ids=ids, attention_mask=mask.long())[0]
        return hidden.flatten(0, 1)

    def _pool(self, pieces: Tensor, target: Tensor, n_targets: int) -> Tensor:
        """Shapes: pieces (n_owned, width), target (n_owned,) rising; returns (n_targets, width)."""
        pooled = pieces.new_zeros(n_targets, pieces.shape[1])
        if self.pooling == "max":
            where = target[:, None].expand_as(pieces)
            return pooled.scatter_reduce(0, where, pieces, "amax", include_self=False)
        if self.pooling == "first":
            first = torch.ones_like(target, dtype=torch.bool)
            first[1:] = target[1:] != target[:-1]
            return pooled.index_add(0, target, pieces * first[:, None])
        counts = pieces.new_zeros(n_targets).index_add(0, target, pieces.new_ones(target.shape[0]))
        return pooled.index_add(0, target, pieces) / counts.clamp(min=1)[:, None]


def _precision(device: torch.device, half: bool) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, dtype=torch.bfloat16) if half else nullcontext()


def _by_pass(rows: RowBatch) -> Iterator[tuple[Tensor, Tensor]]:
    """What the encoder reads at once. Shapes: (n_windows, n_pieces) each, of a pass."""
    first = 0
    for n_windows, width in rows.passes:
        yield rows.piece_ids[first : first + n_windows, :width], rows.piece_mask[first : first + n_windows, :width]
        first += n_windows


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of an encoder, by hub id or folder; code of its repository is never run."""
    tokenizer = _loaded(
        name, "tokenizer", partial(AutoTokenizer.from_pretrained, use_fast=True, trust_remote_code=False)
    )
    # A model that is saved with this tokenizer must not name code, which loading it would refuse.
    tokenizer.init_kwargs.pop("auto_map", None)
    # Where there are no tokenizer files, transformers makes a tokenizer that knows special tokens only.
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise ModelError(
            f"the tokenizer of {name!r} has no vocabulary but special tokens; "
            "choose an encoder whose folder holds a tokenizer.json"
        )
    return tokenizer


def load_encoder(name: str, *, pooling: str = "mean") -> PretrainedEncoder:
    """Load a pretrained encoder in float32, by hub id or folder.

    Code of the encoder's repository is never run (:func:`~cascade_srn.encoder.config_checks.check_encoder`).

    Raises:
        ModelError: if the encoder cannot be loaded, lacks weights, or has weights that are not finite numbers.
    """
    model, info = _loaded(
        name,
        "encoder",
        partial(AutoModel.from_pretrained, dtype=torch.float32, output_loading_info=True, trust_remote_code=False),
    )
    # transformers fills gaps with random weights; a pretrained encoder with such gaps is not one.
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise ModelError(
            f"the encoder {name!r} lacks {len(missing)} of the weights that its config.json asks for, such as "
            f"{missing[0]!r}; the two files are of different models, or the encoder is of an unsupported family"
        )
    _refuse_unusable_weights(name, model)
    return PretrainedEncoder(model, pooling=pooling)


def _refuse_unusable_weights(name: str, model: Any) -> None:
    """Refuse weights that are not finite, and weights of a local folder that are stored as integers."""
    parameters = dict(model.named_parameters())
    for key, parameter in parameters.items():
        if not bool(torch.isfinite(parameter).all()):
            raise ModelError(
                f"the weight {key!r} of the encoder {name!r} holds numbers that are not finite. Copy or download the "
                "encoder again."
            )
    for path in Path(name).glob("*.safetensors") if Path(name).is_dir() else ():
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 (the file is no mapping)
                kind = file.get_slice(key).get_dtype()
                if kind not in FLOATS and any(key == known or key.endswith(f".{known}") for known in parameters):
                    raise ModelError(
                        f"the weight {key!r} of the encoder {name!r} is stored as {kind}, but floating-point numbers "
                        "are expected. Use weights that are not quantised."
                    )


def encoder_from_config(config: Mapping[str, Any], *, pooling: str = "mean") -> PretrainedEncoder:
    """Build an encoder of the shape that a configuration describes, with random weights.

    Raises:
        ModelError: if transformers cannot build it. A configuration may hold anything, and so may the reasons.
    """
    values = dict(config)
    model_type = values.pop("model_type", None)
    try:
        model = AutoModel.from_config(AutoConfig.for_model(model_type, **values), trust_remote_code=False)
    except Exception as error:
        raise ModelError(
            f"the encoder configuration names the model type {model_type!r}, which the installed transformers "
            f"cannot build ({error}); install a version that knows it"
        ) from error
    return PretrainedEncoder(model, pooling=pooling)


def add_markers(encoder: PretrainedEncoder, tokenizer: Any, markers: Mapping[str, str]) -> None:
    """Make each marker a special token of its own, with a vector.

    ``markers`` maps a marker to a word or two that say what it marks: its vector starts as the mean of the
    vectors of their pieces, shaken a little so that no two markers start equal.
    """
    describing = {
        marker: tokenizer(f" {words}".rstrip(), add_special_tokens=False)["input_ids"]
        for marker, words in markers.items()
    }
    new = [marker for marker in markers if marker not in tokenizer.get_vocab()]
    if not new:
        return
    tokenizer.add_tokens(new, special_tokens=True)
    table = encoder.model.get_input_embeddings()
    if len(tokenizer) > table.weight.shape[0]:
        encoder.model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        table = encoder.model.get_input_embeddings()
    weight: Tensor = table.weight
    with torch.no_grad():
        for marker in new:
            pieces: Sequence[int] = describing[marker]
            start = weight[list(pieces)].mean(dim=0) if pieces else weight.mean(dim=0)
            noise = torch.randn_like(start) * weight.std() * 0.5
            weight[tokenizer.convert_tokens_to_ids(marker)] = start + noise


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without the progress bars and load reports of transformers, which speak of weights that are not used here."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def require_encoder(name: str) -> None:
    """Refuse a trained model where an encoder is wanted; whether there is an encoder of that name is not looked up."""
    if is_model(name):
        raise ModelError(
            f"{name!r} is a trained model of cascade-srn, not an encoder; give the folder of a pretrained encoder or "
            "its hub id, such as the encoder that this model was trained from"
        )


def _loaded(name: str, what: str, load: Callable[..., Any]) -> Any:
    """Load from a folder or the hub, and report what goes wrong in one sentence.

    The configuration of a folder is checked first, that of a hub id once it has been downloaded. Files of an encoder
    may be damaged in any way, so that every exception of transformers and tokenizers, which raises plain
    ``Exception``, means that it cannot be loaded.
    """
    is_there = Path(name).exists()
    # A model's folder holds a tokenizer, which loading the model asks for, but no encoder by itself.
    if what == "encoder" or not is_there:
        require_encoder(name)
    if (is_there or name.startswith((".", "/", "~"))) and not (Path(name) / "config.json").is_file():
        raise ModelError(
            f"there is no {what} in {name!r}: a folder with config.json was expected; "
            "give the folder of a pretrained encoder or its hub id"
        )
    # An encoder that was downloaded before can be loaded without the hub.
    cached_only = not is_there and hub_is_out_of_reach()
    try:
        with quiet_transformers():
            if is_there:
                check_encoder(name)
            return load(name, local_files_only=True) if cached_only else load(name)
    except ModelError:
        raise
    except Exception as error:
        if not is_there:
            _refuse_downloaded_code(name)
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"the {what} {name!r} could not be loaded ({reason}); check the name, or the network if it is a hub id"
        ) from error


def _refuse_downloaded_code(name: str) -> None:
    """After an encoder of the hub could not be loaded, say so if that is because it needs code of its own."""
    try:
        check_encoder(name, local_files_only=True)
    except ModelError:
        raise
    except Exception:
        # The configuration was not downloaded either, and the caller reports why.
        return
