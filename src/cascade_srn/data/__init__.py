"""Corpora in and out: formats, the alignment of offsets to words, reports of what was skipped."""

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
