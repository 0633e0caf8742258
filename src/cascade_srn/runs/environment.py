"""What a run was made with: versions, hardware, the command."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cascade_srn.version import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy", "triton")


def environment(device: torch.device, *, n_processes: int = 1) -> dict[str, Any]:
    """Versions and hardware, as plain values."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {"cascade-srn": __version__} | {name: _version(name) for name in PACKAGES},
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "processes": n_processes,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command_line(arguments: Sequence[str] | None = None) -> str:
    """A command (default: that of this process) as it can be shown elsewhere."""
    program, *rest = sys.argv if arguments is None else arguments
    path = Path(program)
    module = path.parent.name if path.parent.name == "cascade_srn" else f"cascade_srn.{path.parent.name}"
    named = f"python -m {module}" if path.name == "__main__.py" else path.name
    return " ".join([named, *(without_folders(argument) for argument in rest)])


def without_folders(text: str) -> str:
    """An absolute path, alone or after a ``key=``, as ``…/name``; anything else unchanged."""
    key, equals, value = text.rpartition("=")
    return f"{key}{equals}…/{Path(value).name}" if Path(value).is_absolute() else text


def shareable(value: Any) -> Any:
    """Plain values without the folders of this machine, which mean nothing elsewhere."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return {key: shareable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shareable(inner) for inner in value]
    return value


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
