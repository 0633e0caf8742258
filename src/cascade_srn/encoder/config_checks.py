"""Check the configuration of an encoder or a model before anything is built from it.

A configuration may come from anywhere. It must not run code, and it must not ask for more than the weights beside it
can fill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from cascade_srn.errors import ModelError

# Files in which transformers looks for the names of classes to import from a folder.
CODE_FILES = ("config.json", "tokenizer_config.json")
# transformers builds two mappings of this size, whether or not the encoder has a classifier.
_MOST_LABELS = 10_000
# Dtypes of weights, by their names in safetensors files.
FLOATS = ("F64", "F32", "F16", "BF16")
_LARGEST_FILE = 16 << 20
# Encoders that share their layers may have more of them than tensors.
_MOST_SHARED_LAYERS = 512
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_COUNTS_OF_MODULES = ("layer", "expert", "depth", "stage")


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON mapping of a model folder.

    Raises:
        ModelError: if the file is missing, too large, or not a JSON mapping.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ModelError(f"{str(path)!r} is larger than any configuration. Copy the folder again.")
        value = json.loads(path.read_text(encoding="utf-8"))
    except ModelError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{str(path)!r} cannot be read ({type(error).__name__}: {error}). Copy the folder again."
        ) from error
    if not isinstance(value, dict):
        raise ModelError(f"{str(path)!r} holds no mapping. Copy the folder again.")
    return value


def refuse_remote_code(folder: Path) -> None:
    """Refuse a model folder whose configuration files name code to run.

    A model of ours never needs code of its own, so that ``auto_map`` anywhere in these files is refused, also in the
    encoder configuration inside ``config.json``.

    Raises:
        ModelError: if a file has ``auto_map`` or names a kernel of the hub, or cannot be read.
    """
    for name in CODE_FILES:
        path = folder / name
        if path.exists():
            _refuse_code(read_config(path), repr(str(path)))


def check_encoder(name: str, *, local_files_only: bool = False) -> None:
    """Check the configuration of a pretrained encoder, by folder or hub id, before transformers builds it.

    Code of the encoder's own repository is never run. Published encoders may name such code by ``auto_map`` although
    transformers has a class of its own for them; these are loaded by that class. An encoder whose model type
    transformers does not know cannot be loaded without its code, and is refused.

    Raises:
        ModelError: if the encoder needs code of its own, or its configuration has impossible sizes.
    """
    config, _ = PreTrainedConfig.get_config_dict(name, local_files_only=local_files_only)
    tokenizer = get_tokenizer_config(name, local_files_only=local_files_only)
    source = f"the configuration of {name!r}"
    if not _is_known(config):
        _refuse_code(config, source)
        _refuse_code(tokenizer, f"the tokenizer configuration of {name!r}")
    _refuse_kernels(config, source)
    folder = Path(name)
    check_sizes(config, source, n_tensors=_n_tensors(folder) if folder.is_dir() else None)


def check_sizes(config: Mapping[str, Any], source: str, *, n_tensors: int | None = None) -> None:
    """Refuse sizes below 1, and counts of modules that would take forever to build even without their weights.

    Args:
        config: the configuration of the encoder.
        source: what it is, for the message.
        n_tensors: how many tensors the weights have, if known; there can hardly be more layers.
    """
    for key, value in _items(config):
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        if key in _SIZES and value < 1:
            raise ModelError(f"{source} has {key}={_short(value)}, but a positive number is expected. Copy it again.")
        if key == "num_labels":
            most = _MOST_LABELS
        elif any(part in key for part in _COUNTS_OF_MODULES):
            most = max(n_tensors or 0, _MOST_SHARED_LAYERS)
        else:
            continue
        if value > most:
            raise ModelError(
                f"{source} has {key}={_short(value)}, but the weights allow at most {most}. Copy the folder again, or "
                "use another one."
            )


def without_code(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without ``auto_map``, also in the configurations inside it."""
    return {
        key: without_code(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key != "auto_map"
    }


def _is_known(config: Mapping[str, Any]) -> bool:
    model_type = config.get("model_type")
    return isinstance(model_type, str) and model_type in CONFIG_MAPPING


def _refuse_code(config: Mapping[str, Any], source: str) -> None:
    if any(key == "auto_map" for key, _ in _items(config)):
        raise ModelError(
            f"{source} asks for Python code of its own to be run ('auto_map'), which is never done. Use a model or an "
            "encoder that transformers knows without it."
        )
    _refuse_kernels(config, source)


def _refuse_kernels(config: Mapping[str, Any], source: str) -> None:
    """Refuse implementations that transformers would download as compiled code."""
    for key, value in _items(config):
        if key.strip("_").endswith("_implementation") and "/" in str(value):
            raise ModelError(
                f"{source} asks for code of the hub to be run ({key}={_short(value)}), which is never done. Remove "
                "that setting."
            )


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of nested mappings and lists."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key), inner
            yield from _items(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _items(inner)


def _n_tensors(folder: Path) -> int | None:
    """Return the number of tensors in the safetensors files of a folder, None where there are none."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            count += len(file.keys())
    return count or None


def _short(value: Any) -> str:
    """Show a value, which may be endless, in a sentence."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python converts
        return "a number of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."
