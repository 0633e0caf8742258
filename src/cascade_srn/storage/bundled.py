"""Where models are found: those that ship with the package, folders, and the hub."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from cascade_srn.errors import ModelError

DEFAULT = "scierc-small"
"""The name of the model that is used where none is named."""

# Enough for any network that a model could be downloaded over.
_SECONDS_TO_CONNECT = 10

_MODELS, _MARKER = Path(__file__).parents[1] / "models", "config.json"


def bundled_models() -> list[str]:
    """The names of the models that ship with the package."""
    return sorted(path.parent.name for path in _MODELS.glob(f"*/{_MARKER}"))


def find_model(name: str | Path | None = None) -> Path:
    """The folder of a model: a folder, one that ships with the package by its name, or a download from the hub.

    A folder of the working directory comes before a model of the same name that ships with the package.
    """
    if name is None:
        return _bundled(DEFAULT)
    folder = Path(os.path.expanduser(name))  # which leaves a home as it stands that is nobody's
    if folder.exists():
        return folder
    text = str(name)
    if text in bundled_models():
        return _bundled(text)
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") != 1:
        raise ModelError(
            f"there is no model folder {text!r}; give a folder that a model was saved to, a hub id (owner/name), or "
            f"the name of a model that ships with cascade-srn ({_names()})"
        )
    return _downloaded(text)


def is_model(name: str | Path) -> bool:
    """Whether this is a trained model: a folder that one was saved to, or the name of one that ships with the package.

    The hub is not asked.
    """
    folder = Path(os.path.expanduser(name))
    if not folder.exists():
        return str(name) in bundled_models()
    try:
        config = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "cascade_srn_version" in config


def hub_is_out_of_reach() -> bool:
    """Whether no connection to the hub can be made at all, so that it need not be asked again and again.

    False where there is no telling: behind a proxy, and where HF_HUB_OFFLINE says that nobody is to ask.
    """
    from huggingface_hub import constants

    address = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or address.scheme in getproxies() or not address.hostname:
        return False
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((address.hostname, port), timeout=_SECONDS_TO_CONNECT).close()
    except OSError:
        return True
    return False


def _bundled(name: str) -> Path:
    folder = _MODELS / name
    if not (folder / _MARKER).is_file():
        raise ModelError(
            f"the model {name!r} does not ship with this installation of cascade-srn (models that do: {_names()}); "
            "give the folder of a trained model, or a hub id"
        )
    return folder


def _names() -> str:
    return ", ".join(bundled_models()) or "none"


def _downloaded(text: str) -> Path:
    from huggingface_hub import snapshot_download

    cached_only = hub_is_out_of_reach()
    try:
        return Path(snapshot_download(text, local_files_only=cached_only))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if cached_only:
            reason = "no connection to it can be made, and the model was not downloaded before"
        raise ModelError(
            f"there is no folder {text!r}, and it could not be had from the hub either ({reason}); "
            f"check the name, or the network (models that ship with cascade-srn: {_names()})"
        ) from error
