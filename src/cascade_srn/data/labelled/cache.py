"""The file that describes a folder of labelled text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError

RECORD = "labels.json"
FORMAT_VERSION = 1


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``labels.json``: what the labels were made with, and whether they are finished."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        version = record["format_version"]
    except FileNotFoundError:
        raise DataError(
            f"there are no labels in {str(folder)!r}: {RECORD} is missing",
            "Give a folder that cascade-srn distil wrote labels to",
        ) from None
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise DataError(
            f"{str(path)!r} does not describe labels ({type(error).__name__}: {error})", "Label the text again"
        ) from error
    if version != FORMAT_VERSION:
        raise DataError(
            f"the labels in {str(folder)!r} have format version {version}, but this release reads {FORMAT_VERSION}",
            "Use the release that wrote them, or label the text again",
        )
    return dict(record)
