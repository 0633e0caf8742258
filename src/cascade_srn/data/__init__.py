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

_NAMES = {
    "alignment": ("MisalignedSpan", "WordMap", "WordSpan"),
    "formats": ("FORMATS", "DocumentStream", "read_documents", "read_schema", "write_documents", "write_schema"),
    "reports": ("Occurrence", "Place", "ReadReport"),
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
    for module, names in _NAMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
