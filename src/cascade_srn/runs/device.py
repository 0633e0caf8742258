"""The device that is asked for by name."""

from __future__ import annotations

import torch

from cascade_srn.errors import ConfigError

# What the package runs on: anything else that torch knows a name for would fail somewhere in the middle.
TYPES = ("cpu", "cuda")


def find_device(name: str) -> torch.device:
    """A device by name; "auto" is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"there is no device {name!r}; give auto, cpu, cuda or cuda:N") from None
    if device.type not in TYPES:
        raise ConfigError(
            f"the device {name!r} was asked for, which nothing here runs on; give auto, cpu, cuda or cuda:N"
        )
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"the device {name!r} was asked for, but torch finds no GPU here; give cpu or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"the device {name!r} was asked for, but torch finds {torch.cuda.device_count()} GPUs here, counted from "
            "0; give one of those, or auto"
        )
    return device
