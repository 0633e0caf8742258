"""Joint entity and relation extraction: a cascade of three span extractions over a selection recurrent network."""

from cascade_srn.config import ModelSettings
from cascade_srn.data.formats import read_documents, read_schema, write_documents
from cascade_srn.extractor import Extractor
from cascade_srn.model import Model
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Entity, Relation, Sentence, Span, Triple
from cascade_srn.version import __version__

__all__ = [
    "Document",
    "Entity",
    "Extractor",
    "Model",
    "ModelSettings",
    "Relation",
    "Schema",
    "Sentence",
    "Span",
    "Triple",
    "__version__",
    "read_documents",
    "read_schema",
    "write_documents",
]
