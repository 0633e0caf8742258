"""Batches of tensors from one device to another."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def moved(batch: T, device: torch.device | str) -> T:
    """A dataclass with the tensors in it, and in the dataclasses within it, on a device."""
    found: list[Tensor] = []
    _collect(batch, found)
    device = torch.device(device)
    if all(tensor.device == device for tensor in found):
        return batch
    return _replaced(batch, iter(_in_one_piece(found, device)))


def _collect(value: Any, found: list[Tensor]) -> None:
    """The tensors within a dataclass of dataclasses, in order."""
    if isinstance(value, Tensor):
        found.append(value)
    elif value is not None and not isinstance(value, int | tuple):
        for field in fields(value):
            _collect(getattr(value, field.name), found)


def _replaced(value: T, tensors: Any) -> T:
    """The same with other tensors, taken in the order of :func:`_collect`."""
    if isinstance(value, Tensor):
        return next(tensors)  # type: ignore[no-any-return]
    if value is None or isinstance(value, int | tuple):
        return value
    parts = {field.name: _replaced(getattr(value, field.name), tensors) for field in fields(value)}  # type: ignore[arg-type]
    return type(value)(**parts)


def _in_one_piece(tensors: list[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors on a device, brought there in one piece: each copy costs a call. Fractions go as their bits."""
    flat = torch.cat([_numbers(tensor).flatten().long() for tensor in tensors])
    if device.type == "cuda":
        # From other memory than such, a copy waits until the GPU has done all that it was asked for.
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    parts = flat.split([math.prod(tensor.shape) for tensor in tensors])
    return [_like(part.view(tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]


def _numbers(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() and tensor.dtype != torch.float32:
        raise TypeError(f"a batch holds numbers of {tensor.dtype}; fractions are moved as float32 only")
    return tensor.view(torch.int32) if tensor.dtype == torch.float32 else tensor


def _like(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(torch.int32).view(dtype) if dtype == torch.float32 else numbers.to(dtype)
