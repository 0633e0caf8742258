"""Tensors of a safetensors file by their place in it, which NumPy and ONNX Runtime read without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cascade_srn.errors import ModelError
from cascade_srn.model.folder import COPY_AGAIN, stored_weights
from cascade_srn.runtime.layers import Array

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


def read_tensors(path: Path, choose: Callable[[str], bool] = lambda name: True) -> dict[str, Array]:
    """Read tensors as float32. ``choose`` gets their names."""
    found: dict[str, Array] = {}
    with path.open("rb") as handle:
        for name, tensor in find_tensors(path).items():
            if choose(name):
                handle.seek(tensor.offset)
                found[name] = _to_float32(handle.read(tensor.length), tensor)
    return found


def _to_float32(data: bytes, tensor: StoredTensor) -> Array:
    values: Array
    if tensor.dtype == "BF16":
        # The upper half of a float32.
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(data, "<f4" if tensor.dtype == "F32" else "<f2").astype(np.float32)
    return values.reshape(tensor.shape)
