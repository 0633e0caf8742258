"""Check the configuration of an encoder or a model before anything is built from it.

A configuration may come from an untrusted source. It must not run code or request more layers than its weights have.
"""

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
_MAX_LABELS = 10_000
# Dtypes of weights, by their names in safetensors files.
FLOATS = ("F64", "F32", "F16", "BF16")
_MAX_BYTES = 16 << 20
# Encoders that share their layers may have more of them than tensors.
_MAX_SHARED_LAYERS = 512
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_MODULE_COUNTS = ("layer", "expert", "depth", "stage")


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON mapping of a model folder."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ModelError(f"{str(path)!r} is too large for a configuration", "Copy the folder again")
        value = json.loads(path.read_text(encoding="utf-8"))
    except ModelError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{str(path)!r} cannot be read ({type(error).__name__}: {error})", "Copy the folder again"
        ) from error
    if not isinstance(value, dict):
        raise ModelError(f"{str(path)!r} is not a JSON mapping", "Copy the folder again")
    return value


def refuse_remote_code(folder: Path) -> None:
    """Refuse a model folder whose configuration files name code to run.

    Models of this package need no code of their own. ``auto_map`` is therefore refused at any depth, including the
    encoder configuration inside ``config.json``.
    """
    for name in CODE_FILES:
        path = folder / name
        if path.exists():
            _refuse_code(read_config(path), repr(str(path)))


def check_encoder(name: str, *, local_files_only: bool = False) -> None:
    """Check the configuration of a pretrained encoder, by folder or hub id, before transformers builds it.

    Code from the repository of an encoder is never run. Published encoders may have ``auto_map`` although transformers
    has a class for them. These are loaded with that class. An encoder of a model type that transformers does not know
    is refused, because it cannot be loaded without its code.
    """
    config, _ = PreTrainedConfig.get_config_dict(name, local_files_only=local_files_only)
    tokenizer = get_tokenizer_config(name, local_files_only=local_files_only)
    source = f"the configuration of {name!r}"
    model_type = config.get("model_type")
    if not (isinstance(model_type, str) and model_type in CONFIG_MAPPING):
        _refuse_code(config, source)
        _refuse_code(tokenizer, f"the tokenizer configuration of {name!r}")
    _refuse_kernels(config, source)
    folder = Path(name)
    check_sizes(config, source, n_tensors=_count_tensors(folder) if folder.is_dir() else None)


def check_sizes(config: Mapping[str, Any], source: str, *, n_tensors: int | None = None) -> None:
    """Refuse sizes below 1, and module counts that would take too long to build even without weights.

    The encoder should not have more layers than ``n_tensors``, the number of tensors in the weights, if it is known.
    """
    for key, value in _walk_items(config):
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        if key in _SIZES and value < 1:
            raise ModelError(f"{source} has {key}={_shorten(value)}, but it must be positive", "Copy the folder again")
        if key == "num_labels":
            most = _MAX_LABELS
        elif any(part in key for part in _MODULE_COUNTS):
            most = max(n_tensors or 0, _MAX_SHARED_LAYERS)
        else:
            continue
        if value > most:
            raise ModelError(
                f"{source} has {key}={_shorten(value)}, but the weights allow at most {most}",
                "Copy the folder again, or use another one",
            )


def remove_auto_map(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without ``auto_map`` at any depth."""
    return {
        key: remove_auto_map(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key != "auto_map"
    }


def _refuse_code(config: Mapping[str, Any], source: str) -> None:
    if any(key == "auto_map" for key, _ in _walk_items(config)):
        raise ModelError(
            f"{source} names Python code to run ('auto_map'), and such code is never run",
            "Use a model or an encoder that transformers supports without it",
        )
    _refuse_kernels(config, source)


def _refuse_kernels(config: Mapping[str, Any], source: str) -> None:
    """Refuse implementations that transformers would download as compiled code."""
    for key, value in _walk_items(config):
        if key.strip("_").endswith("_implementation") and "/" in str(value):
            raise ModelError(
                f"{source} names code of the hub to run ({key}={_shorten(value)}), and such code is never run",
                "Remove this setting",
            )


def _walk_items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of nested mappings and lists."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key), inner
            yield from _walk_items(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk_items(inner)


def _count_tensors(folder: Path) -> int | None:
    """Return the number of tensors in the safetensors files of a folder, or None if it has none."""
    count = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            count += len(file.keys())
    return count or None


def _shorten(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python converts
        return "a number of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."
