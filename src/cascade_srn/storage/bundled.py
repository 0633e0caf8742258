"""Find models: bundled ones, folders, and the Hugging Face hub."""

import json
import os
from pathlib import Path

from cascade_srn.errors import ModelError

DEFAULT = "scierc-small"
"""Name of the default model."""

_SECONDS_TO_CONNECT = 10

_MODELS, _MARKER = Path(__file__).parents[1] / "models", "config.json"


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in _MODELS.glob(f"*/{_MARKER}"))


def find_model(name: str | Path | None = None) -> Path:
    """Return the folder of a model: a folder, the name of a bundled model, or a hub id, which is downloaded.

    A folder takes precedence over a bundled model of the same name. None is the default model.
    """
    if name is None:
        return _bundled(DEFAULT)
    folder = Path(os.path.expanduser(name))
    if folder.exists():
        return folder
    text = str(name)
    if text in bundled_models():
        return _bundled(text)
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") != 1:
        raise ModelError(
            f"the model folder {text!r} does not exist",
            f"Pass the folder of a saved model, a hub id (owner/name), or a bundled model ({_list_bundled()})",
        )
    return _download(text)


def is_model(name: str | Path) -> bool:
    """Return whether this is the folder of a saved model, or the name of a bundled one. The hub is not asked."""
    folder = Path(os.path.expanduser(name))
    if not folder.exists():
        return str(name) in bundled_models()
    try:
        config = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "cascade_srn_version" in config


def hub_is_out_of_reach() -> bool:
    """Return whether the hub cannot be reached, to avoid the repeated attempts of the hub client.

    Behind a proxy and with HF_HUB_OFFLINE this is not checked, and the result is False.
    """
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

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
            f"the model {name!r} is not part of this installation (bundled models: {_list_bundled()})",
            "Pass the folder of a trained model, or a hub id",
        )
    return folder


def _list_bundled() -> str:
    return ", ".join(bundled_models()) or "none"


def _download(text: str) -> Path:
    from huggingface_hub import snapshot_download

    cached_only = hub_is_out_of_reach()
    try:
        return Path(snapshot_download(text, local_files_only=cached_only))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if cached_only:
            reason = "the hub cannot be reached, and the model is not in the cache"
        raise ModelError(
            f"there is no folder {text!r}, and the download from the hub failed ({reason})",
            f"Check the name and the network, or use a bundled model ({_list_bundled()})",
        ) from error
