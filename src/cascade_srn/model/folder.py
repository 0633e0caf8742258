"""Read the configuration and the stored tensors of a model folder, without torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from cascade_srn.config import ModelSettings, require_choice
from cascade_srn.errors import CascadeError, ModelError
from cascade_srn.inference.options import PrecisionLike, number_format
from cascade_srn.inference.precision import PrecisionRecord
from cascade_srn.runs.resources import may_have_gpu
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum, file_crc32

FORMAT_VERSION = 1
CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "model.safetensors", "README.md"
# A PyTorch model with these two files beside its weights also runs without torch.
ENCODER_FILE, LIGHT_FILE = "encoder.onnx", "light.json"
TOKENIZER_FILE = "tokenizer.json"
# Predictions on calibration documents, without text (:mod:`cascade_srn.inference.precision`).
PRECISION_FILE = "precision.json.xz"
# Larger statistics, in bytes, are cut, and refused. A million predictions take a third of this.
_MAX_PRECISION = 1 << 26
LIGHT_NEEDS = (ENCODER_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
"""Files that a model without torch is read from, besides its configuration."""
# The section of config.json with the SHA-256 of the other files of the folder, by name.
CHECKSUMS = "sha256"
# The section of config.json that only exported models have (:mod:`cascade_srn.runtime`).
EXPORT = "export"
EXPORT_VERSION = 1
COPY_AGAIN = "Copy the model again"
RUNTIMES = ("auto", "torch")
"""What runs a model that has both forms."""
_RUNTIME_VARIABLE = "CASCADE_SRN_RUNTIME"


def check_folder(folder: Path) -> None:
    """Check that the entries of a model folder are regular files, or links to regular files in the folder.

    The hub cache has links from ``snapshots/REVISION`` to ``blobs`` in the folder of a repository. These are accepted.
    Subfolders, hidden entries and links to nothing are ignored, because nothing is read from them.

    Raises:
        ModelError: An entry is something else. Reading a FIFO would hang, and a link may lead to any file.
    """
    real = folder.resolve()
    inside = [real, *(parent.parent / "blobs" for parent in real.parents if parent.name == "snapshots")]
    for entry in os.scandir(folder):
        try:
            mode = entry.stat().st_mode
        except OSError:
            continue
        if entry.name.startswith(".") or stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            raise ModelError(f"{entry.path!r} is not a regular file", COPY_AGAIN)
        if entry.is_symlink() and not any(Path(entry.path).resolve().is_relative_to(place) for place in inside):
            raise ModelError(
                f"{entry.path!r} is a link to a file outside of the model folder",
                "Copy the model with the files that its links lead to, for example with cp -rL",
            )


def read_settings(folder: str | Path) -> tuple[ModelSettings, Schema]:
    """Read the settings and the schema of a model without its weights."""
    settings, schema, _, _ = read_config(Path(folder))
    return settings, schema


def read_config(folder: Path) -> tuple[ModelSettings, Schema, dict[str, Any], dict[str, str]]:
    """Read the settings, the schema, the configuration of the encoder and the checksums of the other files."""
    path = folder / CONFIG_FILE
    if folder.is_file():
        raise ModelError(f"{str(folder)!r} is a file, but a model is a folder", "Give the folder")
    if folder.is_dir():
        check_folder(folder)
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
        settings = ModelSettings.from_dict(config["model"], f"{path}: model")
        schema, encoder = Schema.from_dict(config["schema"]), config["encoder"]
    except KeyError as error:
        raise ModelError(f"{str(path)!r} lacks the section {error}", COPY_AGAIN) from error
    except CascadeError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error.problem}", error.hint) from error
    except OverflowError as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}", COPY_AGAIN) from error
    checksums = config.get(CHECKSUMS, {})
    for section, value in (("encoder", encoder), (CHECKSUMS, checksums)):
        if not isinstance(value, dict):
            raise ModelError(f"the section {section!r} of {str(path)!r} is not a mapping", COPY_AGAIN)
    return settings, schema, encoder, checksums


def read_export(folder: Path) -> dict[str, Any] | None:
    """Return the section of an exported model, which runs without torch, or None for a PyTorch model.

    A folder whose configuration cannot be read counts as a PyTorch model, whose loading reports the problem.
    """
    path = folder / CONFIG_FILE
    try:
        section = json.loads(path.read_text(encoding="utf-8")).get(EXPORT) if path.is_file() else None
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return section if isinstance(section, dict) else None


def read_light(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``light.json`` in the folder of a PyTorch model, or None if there is no such file.

    A file that cannot be read counts as empty, which the light runtime refuses.
    """
    path = folder / LIGHT_FILE
    if not path.is_file():
        return None
    try:
        section = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return section if isinstance(section, dict) else {}


def read_precision(folder: Path) -> PrecisionRecord | None:
    """Return the precision statistics in a model folder, or None if there are none.

    Raises:
        ModelError: The file cannot be read.
    """
    path = folder / PRECISION_FILE
    if not path.is_file():
        return None
    try:
        decompress = lzma.LZMADecompressor(memlimit=_MAX_PRECISION).decompress
        values = json.loads(decompress(path.read_bytes(), max_length=_MAX_PRECISION))
    except (OSError, ValueError, lzma.LZMAError, RecursionError) as error:
        raise ModelError(f"{str(path)!r} cannot be read ({type(error).__name__}: {error})", COPY_AGAIN) from error
    return PrecisionRecord.from_dict(values)


def write_precision(folder: Path, record: PrecisionRecord | None) -> None:
    """Write precision statistics to a model folder, or remove those that are there."""
    path = folder / PRECISION_FILE
    if record is None:
        path.unlink(missing_ok=True)
    else:
        text = json.dumps(record.to_dict(), separators=(",", ":"))
        path.write_bytes(lzma.compress(text.encode()))


def find_changed(folder: Path, light: Mapping[str, Any]) -> str | None:
    """Return the first file that is missing or not that of ``light.json``, by its CRC-32; None if there is none.

    Other weights need another ``light.json``. SHA-256 would take most of the start-up.
    """
    known = light.get("crc32")
    for name in LIGHT_NEEDS:
        path = folder / name
        if not path.is_file() or not isinstance(known, dict) or file_crc32(path) != known.get(name):
            return name
    return None


def find_light_problem(folder: Path) -> tuple[str, str] | None:
    """Return why the files for ONNX Runtime beside the weights of a PyTorch model cannot be used.

    Returns:
        The file that is wrong, and a clause that says why. None: the files fit, or there are none.
    """
    light = read_light(folder)
    if light is None:
        return (LIGHT_FILE, f"{LIGHT_FILE} is missing") if (folder / ENCODER_FILE).is_file() else None
    if (version := light.get("version")) != EXPORT_VERSION:
        return LIGHT_FILE, f"{LIGHT_FILE} has version {version!r}, but this release reads {EXPORT_VERSION}"
    if (changed := find_changed(folder, light)) is None:
        return None
    if not (folder / changed).is_file():
        return changed, f"{changed} is missing"
    return changed, f"{changed} is not the file that {LIGHT_FILE} was made for"


def runs_light(
    folder: Path, device: str = "auto", precision: PrecisionLike = "auto", runtime: str | None = None
) -> bool:
    """Return whether a model runs in the light runtime here, and not in torch.

    Exported models do. A PyTorch model with ``light.json`` does so without torch, and on a CPU in float32, where the
    light runtime starts sooner and is faster.

    Args:
        folder: Folder of the model.
        device: Name of the device.
        precision: Precision of the pretrained encoder. Levels of precision of the results are ignored.
        runtime: "torch" for models that run in both, or "auto". None: ``CASCADE_SRN_RUNTIME``, else "auto".

    Raises:
        ConfigError: If there is no such runtime.
    """
    if runtime is None:
        runtime = os.environ.get(_RUNTIME_VARIABLE) or "auto"
        require_choice(f"the variable {_RUNTIME_VARIABLE}", runtime, RUNTIMES)
    require_choice("runtime", runtime, RUNTIMES, option="runtime")
    precision = number_format(precision)
    if read_export(folder) is not None:
        return True
    # If one of them is missing, the loader reports it.
    if not any((folder / name).is_file() for name in (LIGHT_FILE, ENCODER_FILE)):
        return False
    if missing_for_torch():
        return True
    if runtime == "torch" or precision not in ("auto", "float32") or not _is_installed("onnxruntime"):
        return False
    return device == "cpu" or (device == "auto" and not may_have_gpu())


def missing_for_torch() -> list[str]:
    """Return the packages that a PyTorch model needs and this installation does not have."""
    return [name for name in ("torch", "transformers") if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # imports of it are disabled
        return False


def model_checksum(folder: Path, known: Mapping[str, str] | None = None) -> str:
    """Return the SHA-256 of all files of a model but its card, which can be edited without changing results.

    The files that let a PyTorch model run without torch do not change results either, nor does ``precision.json.xz``,
    unless a precision is asked for.

    Args:
        folder: The folder of the model.
        known: SHA-256 by file name, of files that need not be read.
    """
    digest = hashlib.sha256()
    left_out = {CARD_FILE, PRECISION_FILE} | (set() if read_light(folder) is None else {ENCODER_FILE, LIGHT_FILE})
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name not in left_out and not path.name.startswith("."):
            digest.update(f"{path.name} {(known or {}).get(path.name) or checksum(path)}\n".encode())
    return digest.hexdigest()


def stored_weights(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the dtype of each stored weight, without reading the weights."""
    try:
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (the file is no mapping)
            return {name: (tuple(stored.get_shape()), str(stored.get_dtype())) for name, stored in slices.items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"the weights in {str(path)!r} cannot be read ({error})", COPY_AGAIN) from error


def check_files(folder: Path, checksums: Mapping[str, Any]) -> None:
    """Compare the files with the checksums that were written with the model."""
    for name, known in checksums.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            raise ModelError(f"{name!r} is missing from the model in {str(folder)!r}", COPY_AGAIN)
        if checksum(path) != known:
            raise ModelError(f"{str(path)!r} does not match the SHA-256 in {CONFIG_FILE}", COPY_AGAIN)


# Types of safetensors that can be read, and their size in bytes.
_SIZES = {"F32": 4, "F16": 2, "BF16": 2}
_HEADER_SIZE = 8


@dataclass(frozen=True)
class StoredTensor:
    """Type, shape and place of a tensor. ``offset`` counts from the beginning of the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


def find_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the place of each tensor of a safetensors file.

    Raises:
        ModelError: If the file is damaged, or has a tensor of another type than float32, float16 or bfloat16.
    """
    # It checks the header, which has the size of itself in front of it.
    weights = stored_weights(path)
    with path.open("rb") as handle:
        size = int.from_bytes(handle.read(_HEADER_SIZE), "little")
        header: dict[str, Any] = json.loads(handle.read(size))
    found = {}
    for name, (shape, dtype) in weights.items():
        first, last = header[name]["data_offsets"]
        if dtype not in _SIZES or last - first != _SIZES[dtype] * math.prod(shape):
            raise ModelError(f"the weight {name} in {str(path)!r} is stored as {dtype}", COPY_AGAIN)
        found[name] = StoredTensor(dtype, shape, _HEADER_SIZE + size + first, last - first)
    return found


def read_tensors(path: Path, choose: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray[np.float32]]:
    """Read tensors as float32. ``choose`` gets their names."""
    found: dict[str, NDArray[np.float32]] = {}
    with path.open("rb") as handle:
        for name, tensor in find_tensors(path).items():
            if choose(name):
                handle.seek(tensor.offset)
                found[name] = _to_float32(handle.read(tensor.length), tensor)
    return found


def _to_float32(data: bytes, tensor: StoredTensor) -> NDArray[np.float32]:
    values: NDArray[np.float32]
    if tensor.dtype == "BF16":
        # The upper half of a float32.
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(data, "<f4" if tensor.dtype == "F32" else "<f2").astype(np.float32)
    return values.reshape(tensor.shape)
