"""Batches of tensors from one device to another."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def moved(batch: T, device: torch.device | str) -> T:
    """A dataclass with the tensors in it, and in the dataclasses within it, on a device."""
    changes: dict[str, Any] = {}
    for field in fields(batch):  # type: ignore[arg-type]
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            changes[field.name] = value.to(device, non_blocking=True)
        elif is_dataclass(value):
            changes[field.name] = moved(value, device)
    return replace(batch, **changes)  # type: ignore[type-var]
