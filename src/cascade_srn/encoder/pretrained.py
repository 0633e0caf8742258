"""The pretrained encoder: maps word pieces to one vector for each word and marker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from cascade_srn.config import POOLINGS, require_choice
from cascade_srn.encoder.config_checks import FLOATS, check_encoder
from cascade_srn.encoder.pieces import RowBatch
from cascade_srn.errors import ModelError
from cascade_srn.storage.bundled import DEFAULT, hub_is_out_of_reach, is_model

if TYPE_CHECKING:
    from cascade_srn.encoder.cuda_graphs.training import CudaGraphs

ReplayPass = Callable[[nn.Module, Tensor, Tensor, bool], Tensor | None]
"""Runs a pass faster than :func:`read_pass`, from model, ids, mask and bf16, or returns None if it cannot."""


def read_pass(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Run an encoder of transformers.

    Shapes: ids, mask (n_windows, n_pieces); returns (n_windows × n_pieces, width)
    """
    hidden: Tensor = model(input_ids=ids, attention_mask=mask.long())[0]
    return hidden.flatten(0, 1)


class PretrainedEncoder(nn.Module):
    """An encoder of transformers' ``AutoModel``, with its output pooled by item (word or marker).

    ``pooling`` combines the vectors of an item's pieces: "first", "mean" or "max".
    """

    def __init__(self, model: Any, *, pooling: str = "mean") -> None:
        super().__init__()
        require_choice("pooling", pooling, POOLINGS)
        # The sentence-level pooler of BERT-like models is not used.
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model: Any = model
        self.pooling = pooling
        # Set during training on a GPU.
        self.cuda_graphs: CudaGraphs | None = None

    def train(self, mode: bool = True) -> Self:
        """Set the mode. Parts whose weights are all frozen have no dropout."""
        super().train(mode)
        if mode:
            for part in self.modules():
                if any(True for _ in part.parameters()) and not any(p.requires_grad for p in part.parameters()):
                    part.eval()
        return self

    @property
    def config(self) -> Any:
        """The transformers configuration of the model."""
        return self.model.config

    @property
    def width(self) -> int:
        """The width of an item's vector."""
        return int(self.config.hidden_size)

    def forward(
        self,
        rows: RowBatch,
        *,
        bf16: bool = False,
        check: Callable[[], None] | None = None,
        replay: ReplayPass | None = None,
    ) -> Tensor:
        """Encode rows of items, in bfloat16 if ``bf16``. ``check`` is called between passes. It may raise to stop.

        ``replay`` is tried before each pass.

        Shapes: returns (n_rows, n_items, width), zero at padding
        """
        n_rows = rows.item_lengths.shape[0]
        if rows.source.shape[0] == 0:
            return torch.zeros(n_rows, rows.n_items, self.width, device=rows.piece_ids.device)
        outputs = self._read_all(list(_split_passes(rows)), bf16, check, replay)
        hidden = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        pieces = hidden.index_select(0, rows.source).float()
        return self._pool(pieces, rows.target, n_rows * rows.n_items).view(n_rows, rows.n_items, -1)

    def capture_cuda_graphs(self) -> CudaGraphs:
        """Capture CUDA graphs from now on and replay them in training, on one GPU and in one process."""
        from cascade_srn.encoder.cuda_graphs.training import CudaGraphs

        self.cuda_graphs = CudaGraphs(self.model, self._read)
        return self.cuda_graphs

    def _read_all(
        self,
        passes: Sequence[tuple[Tensor, Tensor]],
        bf16: bool,
        check: Callable[[], None] | None,
        replay: ReplayPass | None,
    ) -> list[Tensor]:
        if self.cuda_graphs is not None and self.training and torch.is_grad_enabled():
            with _autocast(passes[0][0].device, bf16):
                return self.cuda_graphs.read(passes)
        outputs = []
        for number, (ids, mask) in enumerate(passes):
            # Outside autocast, because the check may run another prediction in its own precision.
            if number and check is not None:
                check()
            replayed = None if replay is None else replay(self.model, ids, mask, bf16)
            if replayed is not None:
                outputs.append(replayed)
                continue
            with _autocast(ids.device, bf16):
                outputs.append(self._read(ids, mask))
        return outputs

    def _read(self, ids: Tensor, mask: Tensor) -> Tensor:
        return read_pass(self.model, ids, mask)

    def _pool(self, pieces: Tensor, target: Tensor, n_targets: int) -> Tensor:
        """Shapes: pieces (n_owned, width), target (n_owned,) ascending; returns (n_targets, width)."""
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


@contextmanager
def reuse_casts(device: torch.device) -> Iterator[None]:
    """Keep the weights that are cast to bfloat16 for all batches of a prediction, which need not launch the casts."""
    kind = device.type
    if kind not in ("cpu", "cuda"):
        yield
        return
    # Other streams would read the weights without waiting for the cast.
    is_safe = kind != "cuda" or torch.cuda.current_stream(device) == torch.cuda.default_stream(device)
    # Autocast drops its casts at the end of the outermost block. The precision does not depend on that of the caller.
    with torch.autocast(kind, enabled=False, cache_enabled=is_safe and torch.is_autocast_cache_enabled()):
        try:
            yield
        finally:
            # They have no gradients, and a caller may train in an outer block.
            torch.clear_autocast_cache()


@contextmanager
def _autocast(device: torch.device, bf16: bool) -> Iterator[None]:
    if not bf16:
        yield
    elif torch.is_inference_mode_enabled() and torch.is_autocast_cache_enabled():
        # Autocast does not keep what it casts in inference mode.
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
            yield
    else:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            yield


def _split_passes(rows: RowBatch) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ids and mask of each pass. Shapes: (n_windows, n_pieces) each."""
    first = 0
    for n_windows, width in rows.passes:
        yield rows.piece_ids[first : first + n_windows, :width], rows.piece_mask[first : first + n_windows, :width]
        first += n_windows


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of an encoder by hub id or folder. Code of its repository is never run."""
    tokenizer = _load(name, "tokenizer", partial(AutoTokenizer.from_pretrained, use_fast=True, trust_remote_code=False))
    # Loading refuses models whose tokenizer names code, so that a model saved with this one must not.
    tokenizer.init_kwargs.pop("auto_map", None)
    # Without tokenizer files, transformers makes a tokenizer that has only special tokens.
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise ModelError(
            f"the tokenizer of {name!r} has only special tokens", "Use an encoder whose folder has a tokenizer.json"
        )
    return tokenizer


def load_encoder(name: str, *, pooling: str = "mean") -> PretrainedEncoder:
    """Load a pretrained encoder in float32 by hub id or folder.

    Code of the encoder's repository is never run (:func:`~cascade_srn.encoder.config_checks.check_encoder`).
    """
    model, info = _load(
        name,
        "encoder",
        partial(AutoModel.from_pretrained, dtype=torch.float32, output_loading_info=True, trust_remote_code=False),
    )
    # transformers fills missing weights with random ones.
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise ModelError(
            f"the encoder {name!r} lacks {len(missing)} of the weights that its config.json requires, such as "
            f"{missing[0]!r}",
            "Check that both files are of the same model and that transformers supports its family",
        )
    _refuse_unusable_weights(name, model)
    return PretrainedEncoder(model, pooling=pooling)


def _refuse_unusable_weights(name: str, model: Any) -> None:
    """Refuse weights that are not finite, and weights of a local folder that are stored as integers."""
    parameters = dict(model.named_parameters())
    for key, parameter in parameters.items():
        if not bool(torch.isfinite(parameter).all()):
            raise ModelError(
                f"the weight {key!r} of the encoder {name!r} has values that are not finite",
                "Copy or download the encoder again",
            )
    for path in Path(name).glob("*.safetensors") if Path(name).is_dir() else ():
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 (the file is no mapping)
                dtype = file.get_slice(key).get_dtype()
                if dtype not in FLOATS and any(key == known or key.endswith(f".{known}") for known in parameters):
                    raise ModelError(
                        f"the weight {key!r} of the encoder {name!r} is stored as {dtype}, not as floats",
                        "Use weights that are not quantised",
                    )


def encoder_from_config(config: Mapping[str, Any], *, pooling: str = "mean") -> PretrainedEncoder:
    """Build an encoder with random weights from the dictionary of a transformers configuration."""
    values = dict(config)
    model_type = values.pop("model_type", None)
    try:
        model = AutoModel.from_config(AutoConfig.for_model(model_type, **values), trust_remote_code=False)
    except Exception as error:
        raise ModelError(
            f"the installed transformers cannot build the model type {model_type!r} of the encoder configuration "
            f"({error})",
            "Install a version that supports it",
        ) from error
    return PretrainedEncoder(model, pooling=pooling)


def add_markers(encoder: PretrainedEncoder, tokenizer: Any, markers: Mapping[str, str]) -> None:
    """Add markers to the vocabulary as special tokens with their own embeddings.

    ``markers`` maps each marker to words that describe it. Its embedding starts as the mean of the embeddings of their
    pieces, plus noise, so that no two markers start equal.
    """
    descriptions = {
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
            pieces: Sequence[int] = descriptions[marker]
            start = weight[list(pieces)].mean(dim=0) if pieces else weight.mean(dim=0)
            noise = torch.randn_like(start) * weight.std() * 0.5
            weight[tokenizer.convert_tokens_to_ids(marker)] = start + noise


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress the progress bars and load reports of transformers."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def encoder_width(name: str) -> int | None:
    """Return the width of the vectors of an encoder. None if it is not on this machine; nothing is downloaded."""
    try:
        config = AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        return None
    return int(config.hidden_size)


def require_encoder(name: str) -> None:
    """Refuse the name of a trained model where an encoder is expected. Does not check that the encoder exists."""
    if is_model(name):
        raise ModelError(
            f"{name!r} is a trained model of cascade-srn, not an encoder",
            "Give the folder or hub id of a pretrained encoder, such as the one that this model was trained from",
        )


def _load(name: str, what: str, load: Callable[..., Any]) -> Any:
    """Load an encoder or tokenizer from a folder or the hub.

    Damaged files make transformers and tokenizers raise any type of exception, including plain ``Exception``. All of
    them become a ``ModelError``. A folder is checked for code before loading.
    """
    exists = Path(name).exists()
    # The folder of a model has a tokenizer, which loading the model uses, but no encoder.
    if what == "encoder" or not exists:
        require_encoder(name)
    if (exists or name.startswith((".", "/", "~"))) and not (Path(name) / "config.json").is_file():
        raise ModelError(
            f"there is no {what} in {name!r}: the folder has no config.json",
            "Give the folder or hub id of a pretrained encoder",
        )
    # A downloaded encoder can be loaded without the hub.
    cached_only = not exists and hub_is_out_of_reach()
    try:
        with quiet_transformers():
            if exists:
                check_encoder(name)
            return load(name, local_files_only=True) if cached_only else load(name)
    except ModelError:
        raise
    except Exception as error:
        if not exists:
            _refuse_downloaded_code(name)
        if cached_only:
            raise ModelError(
                f"the {what} {name!r} is no folder, the hub cannot be reached, and the cache does not have it",
                f"Start from the bundled model, which needs no network (model.start: {DEFAULT}), or give a folder",
            ) from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"the {what} {name!r} could not be loaded ({reason})", "Check the name, and the network if it is a hub id"
        ) from error


def _refuse_downloaded_code(name: str) -> None:
    """Raise ``ModelError`` if an encoder of the hub cannot be loaded because it needs its own code."""
    try:
        check_encoder(name, local_files_only=True)
    except ModelError:
        raise
    except Exception:
        # The configuration was not downloaded either. The caller reports why.
        return
