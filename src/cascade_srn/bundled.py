"""Where models are found: those that ship with the package, folders, and the hub."""

from __future__ import annotations

import os
from pathlib import Path

from cascade_srn.errors import ModelError

DEFAULT = "scierc-small"
"""The name of the model that is used where none is named."""

_MODELS, _MARKER = Path(__file__).with_name("models"), "config.json"


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

    try:
        return Path(snapshot_download(text))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"there is no folder {text!r}, and it could not be had from the hub either ({reason}); "
            f"check the name, or the network (models that ship with cascade-srn: {_names()})"
        ) from error
