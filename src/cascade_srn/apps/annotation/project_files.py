"""Files of an annotation project: the record, and the folders of a model and an encoder that are copied into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.files import read_stored_json, replacing
from cascade_srn.storage.bundled import find_model, is_model

MARKER, GUIDELINES = "project.json", "guidelines.md"
MODEL, ENCODER = "model", "encoder"
FORMAT_VERSION = 1
# Stored names that begin so are folders in the project.
_HERE = "./"


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``project.json``.

    Raises:
        DataError: It is damaged, or of another version of the format.
    """
    record = read_stored_json(folder / MARKER, "Restore it from a backup")
    known = {"version", "name", "labels", "settings", "model"}
    if not isinstance(record, dict) or not known <= record.keys():
        raise DataError(f"{folder / MARKER} is not the file of an annotation project", "Restore it from a backup")
    if record["version"] != FORMAT_VERSION:
        raise DataError(
            f"{folder} has version {record['version']!r} of the project format, but this release reads "
            f"{FORMAT_VERSION}",
            "Update cascade-srn",
        )
    return record


def _is_folder(path: str | Path | None) -> bool:
    return path is not None and os.path.isdir(os.path.expanduser(path))


def stored_model(model: str | Path | None) -> str | None:
    """Return how a model is named in the project: a local folder is copied, so that the project can be moved."""
    if model is None:
        return None
    if _is_folder(model):
        if not is_model(model):
            raise DataError(f"{model} is not the folder of a model", "Give a trained model", option="model")
        return _HERE + MODEL
    find_model(model)  # fails now if there is no such model
    return str(model)


def stored_encoder(encoder: str | None) -> str | None:
    """Return how an encoder is named in the project; see :func:`stored_model`."""
    return _HERE + ENCODER if _is_folder(encoder) else encoder


def copy_inside(source: str | Path | None, stored: str | None, folder: Path) -> None:
    """Copy a model or an encoder into the project, if its stored name says so."""
    if source is not None and stored is not None and stored.startswith(_HERE):
        shutil.copytree(os.path.expanduser(source), folder / stored)


def find_inside(stored: str | None, folder: Path) -> str | None:
    """Return the path of a stored name that is a folder in the project, or the name itself."""
    return str(folder / stored) if stored is not None and stored.startswith(_HERE) else stored


def write_text(path: Path, text: str) -> None:
    """Write a file, all or nothing."""
    with replacing(path) as handle:
        handle.write(text.encode())
