"""What every run starts with: processes, device and command, and the record of versions and hardware."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from cascade_srn.runs.device import find_device
from cascade_srn.runs.process import make_accelerator
from cascade_srn.runs.resources import installed_version
from cascade_srn.version import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy", "triton")


class RunContext:
    """The processes, the device and the command of a run.

    ``device`` is ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. Several processes use the devices of their accelerator,
    which gets the ``options``. ``command`` is by default that of this process.
    """

    def __init__(self, device: str = "auto", command: str | None = None, **options: Any) -> None:
        self.command = command_line() if command is None else command
        self.accelerator = make_accelerator(device, **options)
        self.is_main: bool = self.accelerator.is_main_process
        self.n_processes: int = self.accelerator.num_processes
        self.device: torch.device = self.accelerator.device if self.n_processes > 1 else find_device(device)

    def environment(self) -> dict[str, Any]:
        """Return versions and hardware."""
        return environment(self.device, n_processes=self.n_processes)


def environment(device: torch.device, *, n_processes: int = 1) -> dict[str, Any]:
    """Return versions and hardware as plain values."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {"cascade-srn": __version__} | {name: installed_version(name) for name in PACKAGES},
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "processes": n_processes,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command_line(arguments: Sequence[str] | None = None) -> str:
    """Return a command (default: that of this process) without the folders of this machine."""
    program, *rest = sys.argv if arguments is None else arguments
    path = Path(program)
    if path.name == "__main__.py":
        module = path.parent.name if path.parent.name == "cascade_srn" else f"cascade_srn.{path.parent.name}"
        shown = f"python -m {module}"
    else:
        shown = f"python {path.parent.name}/{path.name}" if path.suffix == ".py" else path.name
    return " ".join([shown, *(without_folders(argument) for argument in rest)])


def without_folders(text: str) -> str:
    """Shorten absolute paths, alone, after a ``key=`` or in a list, to ``…/name``. Other text is returned unchanged."""
    key, equals, value = text.rpartition("=")
    parts = (f"…/{Path(part).name}" if Path(part).is_absolute() else part for part in value.split(","))
    return f"{key}{equals}{','.join(parts)}"


def shareable(value: Any) -> Any:
    """Return plain values without the folders of this machine, which mean nothing elsewhere."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return {key: shareable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shareable(inner) for inner in value]
    return value
