"""Read and write annotated documents, and convert them to batches.

Names are imported on first use, so that importing one module of this package does not load all formats.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascade_srn.data.alignment import MisalignedSpan, WordMap, WordSpan
    from cascade_srn.data.formats import (
        FORMATS,
        DocumentStream,
        read_documents,
        read_schema,
        write_documents,
        write_schema,
    )
    from cascade_srn.data.reports import Occurrence, Place, ReadReport

_HOMES = {
    "FORMATS": "formats",
    "DocumentStream": "formats",
    "MisalignedSpan": "alignment",
    "Occurrence": "reports",
    "Place": "reports",
    "ReadReport": "reports",
    "WordMap": "alignment",
    "WordSpan": "alignment",
    "read_documents": "formats",
    "read_schema": "formats",
    "write_documents": "formats",
    "write_schema": "formats",
}

__all__ = [
    "FORMATS",
    "DocumentStream",
    "MisalignedSpan",
    "Occurrence",
    "Place",
    "ReadReport",
    "WordMap",
    "WordSpan",
    "read_documents",
    "read_schema",
    "write_documents",
    "write_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
